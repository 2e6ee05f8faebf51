"""Finding files, reading them as text and writing them back byte for byte."""
import io
import os
import re
import stat
import tempfile
import tokenize
from collections import namedtuple

SUFFIXES = (".py", ".pyw", ".ipynb")
SKIPPED = ("__pycache__", "node_modules", "site-packages", ".ipynb_checkpoints")
BOM = b"\xef\xbb\xbf"

# What every file that is of interest contains: most files of a tree are never parsed.
MARKERS = re.compile(
    rb"total_loss|_feed_targets|_feed_sample_weights|_standardize_user_data|see_rnn|keract"
    rb"|_get_grads_eager|_get_grads_graph|tensorflow\.python\.(?:keras|distribute)|_make_train_function"
    rb"|\b(?:K|backend)\.gradients\("
)

Text = namedtuple("Text", "text encoding bom")


class UnreadableError(Exception):
    """A file whose text cannot be had; the message says why."""


def find(paths):
    """Yield each file to look at once: those named, and those in the directories named. Symbolic links are not followed.

    A link that is named itself stands for what it points to.
    """
    seen = set()
    for path in paths:
        for found in _walk(path) if os.path.isdir(path) else [path]:
            real = os.path.realpath(found)
            if real not in seen:
                seen.add(real)
                yield found


def _walk(top):
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(name for name in folders if name not in SKIPPED and not name.startswith("."))
        for name in sorted(names):
            path = os.path.join(folder, name)
            if name.endswith(SUFFIXES) and not os.path.islink(path) and os.path.isfile(path):
                yield path


class Users(object):
    """Which of some files use names of each other: by what their text looks like, so that none is missed."""

    IMPORT = re.compile(br"\bfrom\s+[\w.]*?(\w+)\s+import\s*(\([^)]*|[^\n]*)")
    ATTRIBUTE = re.compile(br"\b(\w+)\.(\w+)")

    def __init__(self, paths):
        self._paths, self._index = paths, None

    def of(self, path, name):
        """The first other file that seems to import ``name`` from the module at ``path``; ``None`` if none does."""
        if self._index is None:
            self._index = {}
            stems = set(_stem(one) for one in self._paths)
            for one in self._paths:
                self._read(one, stems)
        stem, name = _stem(path), name.encode("utf-8")
        found = self._index.get((stem, name), []) + self._index.get((stem, b"*"), [])
        return next((one for one in found if one != path), None)

    def _read(self, path, stems):
        try:
            text = read(path)
        except UnreadableError:
            return
        pairs = set(self.ATTRIBUTE.findall(text)) if b"import" in text else set()
        for stem, names in self.IMPORT.findall(text):
            pairs.update((stem, name) for name in re.findall(br"\w+|\*", names))
        for pair in pairs:
            if pair[0] in stems:
                self._index.setdefault(pair, []).append(path)


def _stem(path):
    """The last part of the name that a file is imported by."""
    folder, name = os.path.split(os.path.abspath(path))
    name = name.partition(".")[0]
    return (os.path.basename(folder) if name == "__init__" else name).encode("utf-8")


def read(path):
    """The bytes of a file."""
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except (IOError, OSError) as error:
        raise UnreadableError(error.strerror or str(error))


def decode(data):
    """The text of Python source, as PEP 263 says it is encoded."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        bom = BOM if data.startswith(BOM) else b""
        return Text(data[len(bom) :].decode("utf-8" if bom else encoding), "utf-8" if bom else encoding, bom)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise UnreadableError("its encoding cannot be told: %s" % error)


def encode(text, like):
    """The bytes of ``text`` in the encoding of the ``Text`` it came from."""
    return like.bom + text.encode(like.encoding)


def write(path, data):
    """Replace the contents of a file, all or nothing; the file keeps its permissions. Raises OSError."""
    path = os.path.realpath(path)
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if not mode & 0o222 or not os.access(path, os.W_OK):
        raise OSError(13, "it is read-only", path)
    descriptor, temporary = tempfile.mkstemp(prefix=".tfgradcompat-", dir=os.path.dirname(path))
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
