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

    def __init__(self, paths):
        self._paths, self._texts = paths, None

    def of(self, path, name):
        """The first other file that seems to import ``name`` from the module at ``path``; ``None`` if none does."""
        stem = os.path.basename(os.path.dirname(path) if os.path.basename(path) == "__init__.py" else path).partition(".")[0]
        pattern = rb"\bfrom\s+[\w.]*\b%s\s+import\s*(\([^)]*|[^\n]*)(\b%s\b|\*)|\b%s\.%s\b"
        asked = re.compile(pattern % tuple(word.encode("utf-8") for word in (re.escape(stem), name, re.escape(stem), name)))
        return next((one for one, text in self._all() if one != path and asked.search(text)), None)

    def _all(self):
        if self._texts is None:
            self._texts = []
            for path in self._paths:
                try:
                    text = read(path)
                except UnreadableError:
                    continue
                if b"import" in text:
                    self._texts.append((path, text))
        return self._texts


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
