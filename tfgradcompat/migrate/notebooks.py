"""The code of a notebook as one module, and back again with everything else as it was."""
import json
import re

import libcst as cst

from . import files

SEPARATOR = "# tfgradcompat: cell "
SEPARATED = re.compile("^" + SEPARATOR + r"(\d+)\n", re.M)
HIDDEN = "pass  # tfgradcompat: hidden "
PYTHON_MAGICS = ("%%time", "%%timeit", "%%capture", "%%prun")
MAGIC = re.compile(r"^(\s*)([%!].*|[\w, ]+=\s*[%!][^=].*|\??\??[\w.]+\?{1,2}\s*|\?{1,2}[\w.]+\s*)$")
LAYOUTS = [
    dict(indent=indent, ensure_ascii=ascii, separators=separators)
    for indent in (1, 2, 4, "\t", 0, None)
    for ascii in (False, True)
    for separators in ((",", ": "), (", ", ": "), (",", ":"))
]


def _parses(text):
    try:
        cst.parse_module(text)
    except cst.ParserSyntaxError:
        return False
    return True


class Notebook(object):
    """A notebook's code cells, one after the other.

    Attributes:
        text: the module, with a comment before each cell and placeholders for IPython's magics.
        skipped: numbers of the cells (from 1, of all cells) that are not Python.
    """

    def __init__(self, data):
        try:
            self._bom = files.BOM if data.startswith(files.BOM) else b""
            self._raw = data[len(self._bom) :].decode("utf-8")
            self._content = json.loads(self._raw)
            cells = self._content["cells"]
            self._code = {number: cell for number, cell in enumerate(cells, 1) if cell["cell_type"] == "code"}
            sources = {number: "".join(cell["source"]) for number, cell in self._code.items()}
        except (ValueError, KeyError, TypeError) as error:
            raise files.UnreadableError("it is no notebook of format 4: %s" % (error or type(error).__name__))
        self._hidden, self._unseen, self.skipped, parts = [], [], [], []
        for number in sorted(sources):
            text = self._hide(sources[number])
            if text is None:
                self.skipped.append(number)
                self._unseen.append(sources[number])
            elif text.strip():
                parts.append("%s%d\n%s\n" % (SEPARATOR, number, text))
        self.text = "".join(parts)

    def _hide(self, source):
        """A cell with placeholders for what is not Python; ``None`` if the whole cell is not."""
        if source.lstrip().startswith("%%") and source.split()[0] not in PYTHON_MAGICS:
            return None
        if _parses(source):
            return source
        hidden = len(self._hidden)
        text = "\n".join(self._hide_line(line) for line in source.split("\n"))
        if _parses(text):
            return text
        del self._hidden[hidden:]
        return None

    def _hide_line(self, line):
        found = MAGIC.match(line)
        if found is None:
            return line
        self._hidden.append(line[len(found.group(1)) :])
        return "%s%s%d" % (found.group(1), HIDDEN, len(self._hidden) - 1)

    def unread(self, number):
        """Whether a skipped cell is one that may have been of interest."""
        text = "".join(self._code[number]["source"])
        return not text.lstrip().startswith("%%") and files.MARKERS.search(text.encode("utf-8")) is not None

    def uses(self, name):
        """Which part that is not Python mentions a name; ``None`` if none does."""
        mentioned = re.compile(r"\b%s\b" % re.escape(name))
        if any(mentioned.search(text) for text in self._hidden):
            return "a magic"
        return "a cell that is not Python" if any(mentioned.search(text) for text in self._unseen) else None

    def place(self, line):
        """Which cell and which line of it a line of the module is."""
        starts = [(self.text.count("\n", 0, one.start()) + 1, one.group(1)) for one in SEPARATED.finditer(self.text)]
        start, number = [one for one in starts if one[0] <= line][-1]
        return "cell %s, line %d" % (number, line - start)

    def replaced(self, text):
        """The bytes of the notebook with the code of ``text``. Raises ``UnreadableError`` if its layout would change."""
        layout = self._layout()
        pieces = SEPARATED.split(text)
        if pieces[0].strip():
            raise files.UnreadableError("its cells could not be told apart any more")
        for number, piece in zip(pieces[1::2], pieces[2::2]):
            source = re.sub(re.escape(HIDDEN) + r"(\d+)", lambda found: self._hidden[int(found.group(1))], piece[:-1])
            cell = self._code[int(number)]
            cell["source"] = source if isinstance(cell["source"], str) else re.findall(r"[^\n]*\n|[^\n]+", source)
        return self._bom + layout(self._content).encode("utf-8")

    def _layout(self):
        """A function that writes the notebook's content as the file has it."""
        newline = "\r\n" if "\r\n" in self._raw else "\n"
        ending = self._raw[len(self._raw.rstrip()) :]
        for options in LAYOUTS:

            def write(content):
                return json.dumps(content, **options).replace("\n", newline) + ending

            if write(self._content) == self._raw:
                return write
        raise files.UnreadableError("its JSON is laid out as no notebook program does it, and would be changed")
