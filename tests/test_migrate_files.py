"""The command: which files it looks at, how it reads and writes them, what it says and how it exits."""
import json
import os
import pty
import stat
import subprocess
import sys
import time

import pytest

import migrate_variants as variants

variants.require_libcst()

from processes import HOME, python
from tfgradcompat.__main__ import main
from tfgradcompat.migrate import files

pytestmark = pytest.mark.once_per_python

OLD = variants.WEIGHTED["canonical"]
LEFT = OLD + "\n\nloss = model.total_loss\n"
CALL = "return get_gradients(model, x, y, sample_weight=sample_weight, learning_phase=0)"


@pytest.fixture
def tree(tmp_path):
    """A directory, written by ``tree(name, contents)``."""

    def write(name, contents):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents if isinstance(contents, bytes) else contents.encode("utf-8"))
        return path

    write.path = tmp_path
    return write


def migrate(*arguments):
    return main(["migrate"] + [str(argument) for argument in arguments])


# -- what the command says, and its exit codes


def test_shows_and_does_not_write(tree, capsys):
    path = tree("a.py", OLD)
    assert migrate(tree.path) == 0
    output = capsys.readouterr().out
    assert "-    return fn([x, y, sample_weight, 0])\n+    " + CALL in output
    assert "--- a/" in output and "+++ b/" in output and "@@ -" in output
    assert "1 file looked at; 1 place in 1 file to rewrite" in output
    assert path.read_text() == OLD


def test_writes_and_has_nothing_to_do_then(tree, capsys):
    path = tree("a.py", OLD)
    assert migrate(tree.path, "--write", "--check") == 0
    assert CALL in path.read_text()
    assert "1 place in 1 file rewritten" in capsys.readouterr().out
    written = path.read_bytes(), os.stat(str(path)).st_mtime_ns
    assert migrate(tree.path, "--write", "--check") == 0
    assert (path.read_bytes(), os.stat(str(path)).st_mtime_ns) == written
    assert "0 places in 0 files rewritten; 0 places left over in 0 files." in capsys.readouterr().out


@pytest.mark.parametrize("source, before, after", [(OLD, 1, 0), (LEFT, 1, 1), ("x = 1\n", 0, 0)])
def test_check_fails_while_anything_is_left_to_do(tree, source, before, after):
    tree("a.py", source)
    assert migrate(tree.path) == 0
    assert migrate("--check", tree.path) == before
    assert migrate("--check", "--write", tree.path) == after
    assert migrate("--check", tree.path) == after


def test_leftovers_by_the_lines_the_file_has(tree, capsys):
    path = tree("a.py", LEFT)
    for arguments in ([], ["--write"], []):
        migrate(path, *arguments)
        output = capsys.readouterr().out
        line = path.read_text().split("\n").index("loss = model.total_loss") + 1
        assert (
            "%s:%d: left: the symbolic total loss of a model\n    use tfgradcompat.value_and_gradients(" % (path, line) in output
        )
        assert "1 place left over in 1 file" in output


def test_a_path_that_is_not_there(tree, capsys):
    tree("a.py", OLD)
    assert migrate(tree.path, tree.path / "b.py", "--write") == 2
    assert "b.py" in capsys.readouterr().err
    assert (tree.path / "a.py").read_text() == OLD


WITHOUT = """
import sys
sys.modules["libcst"] = None
from tfgradcompat.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def test_without_libcst(tree):
    path = tree("a.py", OLD)
    code, output, errors = python("-c", WITHOUT, "migrate", "--write", str(path))
    assert (code, output) == (2, "")
    assert "pip install tfgradcompat[migrate]" in errors and "Traceback" not in errors
    assert path.read_text() == OLD


def test_imports_no_framework(tree):
    path = tree("a.py", OLD)
    script = (
        "import sys\nfrom tfgradcompat.__main__ import main\ncode = main(sys.argv[1:])\n"
        "assert not set(sys.modules) & {'tensorflow', 'keras', 'tf_keras', 'jax'}\nsys.exit(code)\n"
    )
    code, output, errors = python("-c", script, "migrate", "--write", str(path))
    assert code == 0, errors
    assert CALL in path.read_text()


def test_the_extra_names_what_is_needed():
    with open(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "pyproject.toml")) as stream:
        assert 'migrate = ["libcst", "rich"]' in stream.read()


# -- which files


def test_directories_to_any_depth(tree):
    names = ["a.py", "b/c.py", "b/c/d/e.pyw", "b/f.ipynb.txt", "b/g.txt", ".hidden/h.py", "b/__pycache__/i.py"]
    for name in names:
        tree(name, OLD)
    assert migrate(tree.path, "--write") == 0
    changed = [name for name in names if (tree.path / name).read_text() != OLD]
    assert changed == ["a.py", "b/c.py", "b/c/d/e.pyw"]


def test_a_file_is_looked_at_once(tree, capsys):
    path = tree("b/a.py", OLD)
    migrate(tree.path, path, tree.path / "b", os.path.join(str(tree.path), "b", "..", "b", "a.py"))
    output = capsys.readouterr().out
    assert "1 file looked at" in output and output.count("+++ ") == 1


def test_symbolic_links_are_not_followed(tree, capsys):
    outside = tree("outside/a.py", OLD)
    inside = tree("tree/b.py", OLD)
    (tree.path / "tree" / "to_outside").symlink_to(tree.path / "outside", target_is_directory=True)
    (tree.path / "tree" / "loop").symlink_to(tree.path / "tree", target_is_directory=True)
    (tree.path / "tree" / "outside.py").symlink_to(outside)
    (tree.path / "tree" / "again.py").symlink_to(inside)
    (tree.path / "tree" / "dangling.py").symlink_to(tree.path / "nowhere.py")
    assert migrate(tree.path / "tree", "--write") == 0
    assert "1 file looked at" in capsys.readouterr().out
    assert outside.read_text() == OLD
    assert inside.read_text() != OLD


def test_a_named_link_is_followed_and_stays_one(tree):
    path = tree("a.py", OLD)
    link = tree.path / "link.py"
    link.symlink_to(path)
    assert migrate(link, "--write") == 0
    assert link.is_symlink()
    assert path.read_text() != OLD


@pytest.mark.parametrize(
    "user",
    [
        "from steps import fn\n",
        "from pkg.steps import (\n    other,\n    fn\n)\n",
        "import steps\nsteps.fn([x])\n",
        "from .steps import *\n",
    ],
)
def test_what_another_module_uses_stays(tree, capsys, user):
    path = tree("steps.py", variants.MODULE_LEVEL)
    tree("user.py", user)
    assert migrate(tree.path, "--write", "--check") == 1
    assert "user.py" in capsys.readouterr().out
    assert path.read_text() == variants.MODULE_LEVEL
    tree("user.py", "from steps import gradients\n")
    assert migrate(tree.path, "--write", "--check") == 0
    assert path.read_text() != variants.MODULE_LEVEL


# -- how they are read and written


@pytest.mark.parametrize(
    "head, name, encoding",
    [
        ("# -*- coding: latin-1 -*-\n", "h\u00e9", "latin-1"),
        ("#!/usr/bin/env python\n# vim: set fileencoding=cp1252 :\n", "\u20ac", "cp1252"),
        ("", "\u65e5\u672c", "utf-8"),
        ("", "\u65e5\u672c", "utf-8-sig"),
        ("# coding: utf-8\n", "\u65e5\u672c", "utf-8-sig"),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_encodings_and_line_ends(tree, head, name, encoding, newline):
    def data(text):
        return (head + text + "\n\nname = '%s'\n" % name).replace("\n", newline).encode(encoding)

    path, plain = tree("a.py", data(OLD)), tree("b.py", OLD)
    assert migrate(tree.path, "--write") == 0
    assert path.read_bytes() == data(plain.read_text())
    assert CALL in plain.read_text()


def test_a_terminal_that_cannot_show_it(tree):
    path = tree("a.py", "name = '\u65e5'\n" + OLD)
    code, output, errors = python("-m", "tfgradcompat", "migrate", str(path), PYTHONIOENCODING="ascii")
    assert code == 0, errors
    assert "\\u65e5" in output and CALL in output


def test_a_file_without_a_last_newline_stays_one(tree):
    path = tree("a.py", OLD.rstrip("\n"))
    assert migrate(path, "--write") == 0
    assert path.read_text().endswith(CALL)


@pytest.mark.parametrize(
    "data, reason",
    [
        (b"# coding: nonsense\n# total_loss\n", "encoding"),
        (b"name = '\xff'  # total_loss\n", "encoding"),
        (b"def f(:\n    model.total_loss\n", "line 2 is not Python 3"),
        (b"print model.total_loss\n", "Python 2"),
        (b"try:\n    model.total_loss\nexcept ValueError, error:\n    pass\n", "Python 2"),
        (b"x = " + b"-" * 1500 + b"1  # total_loss\n", "left alone"),
    ],
)
def test_what_cannot_be_read_is_left_alone(tree, capsys, data, reason):
    path = tree("a.py", data)
    good = tree("b.py", OLD)
    assert migrate(tree.path, "--write") == 0
    output = capsys.readouterr().out
    assert "a.py: left alone: " in output and reason in output and "; 1 problem." in output
    assert path.read_bytes() == data
    assert good.read_text() != OLD
    assert migrate(tree.path, "--check") == 1


def test_files_of_no_interest_may_be_anything(tree):
    tree("a.py", b"\xff\x00 print 1 (")
    assert migrate(tree.path, "--check") == 0


def test_permissions_survive(tree):
    path = tree("a.py", OLD)
    path.chmod(0o751)
    assert migrate(path, "--write") == 0
    assert path.read_text() != OLD
    assert stat.S_IMODE(path.stat().st_mode) == 0o751


def test_a_read_only_file_stays(tree, capsys):
    path = tree("a.py", OLD)
    good = tree("b.py", OLD)
    path.chmod(0o444)
    assert migrate(tree.path, "--write") == 1
    assert "a.py: cannot be written" in capsys.readouterr().out
    assert path.read_text() == OLD and good.read_text() != OLD


def test_a_write_that_fails_leaves_the_old_file(tree, capsys, monkeypatch):
    path = tree("a.py", OLD)

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    assert migrate(path, "--write") == 1
    assert "No space left on device" in capsys.readouterr().out
    assert path.read_text() == OLD
    assert os.listdir(str(tree.path)) == ["a.py"]


# -- notebooks


def cell(source, kind="code"):
    found = {"cell_type": kind, "metadata": {}, "source": source}
    if kind == "code":
        found.update(execution_count=3, outputs=[{"name": "stdout", "output_type": "stream", "text": ["1e-05 \u00fc\n"]}])
    return found


def lines(text):
    return text.splitlines(True)


CELLS = [
    cell(["# Gradients: total_loss\n", "fn([x])"], "markdown"),
    cell(lines("%matplotlib inline\nimport numpy as np\nfrom keras import backend as K\n!pip install keras\nfiles = !ls")),
    cell(lines("%%bash\necho total_loss $x (")),
    cell(lines("%%time\ngrads = model.optimizer.get_gradients(model.total_loss, model.trainable_weights)  # symbolic\nmodel?")),
    cell("if True:\n    %timeit -n1 f()\n    !ls\n"),
    cell(
        lines("fn = K.function(model.inputs + model._feed_targets + model._feed_sample_weights + [K.learning_phase()], grads)\n")
    ),
    cell([]),
    cell(lines("for epoch in range(3):\n    print(fn([x, y, w, 1]))")),
    cell(lines("loss = model.total_loss\nloss")),
]
AFTERWARDS = {
    1: "%matplotlib inline\nimport numpy as np\nfrom tfgradcompat import gradient_function\n!pip install keras\nfiles = !ls",
    3: "%%time\n# symbolic\nmodel?",
    5: "fn = gradient_function(model, params=model.trainable_weights)\n",
    7: "for epoch in range(3):\n    print(fn(x, y, sample_weight=w, learning_phase=1))",
}


def notebook(cells):
    return {"cells": cells, "metadata": {"a": {"\u00e9": 0.1}}, "nbformat": 4, "nbformat_minor": 2}


@pytest.mark.parametrize(
    "layout", [dict(indent=1, ensure_ascii=False), dict(indent=1), dict(indent=2, ensure_ascii=False), dict(indent="\t"), dict()]
)
@pytest.mark.parametrize("ending", ["", "\n"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_notebook(tree, capsys, layout, ending, newline):
    def data(cells):
        return (json.dumps(notebook(cells), **layout).replace("\n", newline) + ending).encode("utf-8")

    path = tree("a.ipynb", data(CELLS))
    assert migrate(tree.path, "--write") == 0
    output = capsys.readouterr().out
    assert "a.ipynb:cell 9, line 1: left: the symbolic total loss" in output
    assert "cell 3 is not Python" in output
    expected = json.loads(json.dumps(CELLS))
    for number, source in AFTERWARDS.items():
        expected[number]["source"] = lines(source)
    found = json.loads(path.read_bytes().decode("utf-8"))["cells"]
    for one, other in zip(found, expected):
        assert one["source"] == other["source"]
    assert path.read_bytes() == data(expected)
    assert migrate(tree.path, "--write") == 0
    assert path.read_bytes() == data(expected)


@pytest.mark.parametrize(
    "source", ["%timeit fn([x, y, w, 1])", "%%capture\n!echo\nfn([x, y, w, 1]) if", "%%script python\nfn([x])"]
)
def test_a_name_that_a_magic_mentions_stays(tree, capsys, source):
    path = tree("a.ipynb", json.dumps(notebook(CELLS[:-1] + [cell(lines(source))]), indent=1))
    old = path.read_bytes()
    assert migrate(path, "--write", "--check") == 1
    assert "fn is also used by a" in capsys.readouterr().out
    assert path.read_bytes() == old


def test_a_cell_that_is_not_python_is_a_problem_if_it_is_of_interest(tree, capsys):
    path = tree("a.ipynb", json.dumps(notebook([cell(["print model.total_loss"])]), indent=1))
    assert migrate(path, "--check") == 1
    assert "cell 1 is not Python 3" in capsys.readouterr().out


def test_a_line_that_looks_like_a_magic(tree):
    cells = CELLS[:-1] + [cell(lines("print('%d'\n      % x)\n"))]
    path = tree("a.ipynb", json.dumps(notebook(cells), indent=1))
    assert migrate(path, "--write", "--check") == 0
    assert json.loads(path.read_text())["cells"][-1] == cells[-1]


def test_a_notebook_of_another_layout_is_left_alone(tree, capsys):
    data = json.dumps(notebook(CELLS), indent=1).replace('"nbformat":', '"nbformat"  :')
    path = tree("a.ipynb", data)
    assert migrate(path, "--write") == 0
    assert "laid out" in capsys.readouterr().out
    assert path.read_text() == data
    assert migrate(path, "--check") == 1


@pytest.mark.parametrize("data", ["{total_loss", "[]  ", '{"worksheets": ["total_loss"]}', '{"cells": 3, "a": "total_loss"}'])
def test_what_is_no_notebook_is_left_alone(tree, capsys, data):
    path = tree("a.ipynb", data)
    assert migrate(path) == 0
    output = capsys.readouterr().out
    assert ("no notebook" in output) == ("total_loss" in data)


# -- large trees


def test_progress_is_shown_on_a_terminal_only(tree):
    pytest.importorskip("rich", reason="rich is not installed: the extra tfgradcompat[migrate]")
    for number in range(60):
        tree("a%d.py" % number, "x = 1\n")
    command = [sys.executable, "-m", "tfgradcompat", "migrate", str(tree.path)]
    environment = dict(os.environ, PYTHONPATH=HOME, TERM="xterm")
    master, slave = pty.openpty()
    with_terminal = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=slave)
    os.close(slave)
    shown = b""
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(master)
    assert b"60 files looked at" in with_terminal.communicate()[0]
    assert b"Reading" in shown
    code, output, errors = python(*command[1:])
    assert (code, errors) == (0, "")
    assert "60 files looked at" in output


def test_a_thousand_files_in_less_than_a_minute(tree):
    filler = "".join("def f%d(a, b):\n    return [a * %d for _ in range(b)]\n\n\n" % (n, n) for n in range(60))
    for number in range(1000):
        # One in ten is of interest, which is many.
        tree("p%d/m%d.py" % (number % 30, number), OLD + filler if number % 10 == 0 else filler)
    started = time.time()
    assert migrate(tree.path, "--write") == 0
    assert time.time() - started < 60
    assert sum("tfgradcompat" in path.read_text() for path in tree.path.glob("*/*.py")) == 100
