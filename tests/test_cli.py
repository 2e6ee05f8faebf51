"""The command line: the demo, the doctor, and what it says when something is missing."""
import json
import os
from collections import OrderedDict

import numpy as np
import pytest

from processes import HOME, python
from tfgradcompat.__main__ import main
from tfgradcompat.cli import doctor, example

pytestmark = pytest.mark.once

# The package and its requirements, and nothing else that is installed.
BARE = """
import sys
import numpy, packaging.specifiers, packaging.version
sys.path[:] = [sys.argv.pop(1)] + [entry for entry in sys.path if "site-packages" not in entry]
from tfgradcompat.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def test_demo_prints_gradients_that_agree():
    code, output, errors = python("-m", "tfgradcompat", "demo")
    assert code == 0, output + errors
    for name in ("hidden/kernel", "hidden/bias", "output/kernel", "output/bias"):
        assert name in output
    assert "The gradients are what" in output


def test_doctor_finds_the_installation_healthy(capsys):
    code = main(["doctor", "--json"])
    output = capsys.readouterr().out
    assert code == 0, output
    report = json.loads(output)
    assert report["healthy"]
    checked = [mode for flavour in report["flavours"] for mode in flavour["modes"] if mode["agrees"] is not None]
    assert checked and all(mode["agrees"] and mode["adapter"] for mode in checked)
    for flavour in report["flavours"]:
        assert any(symbol["found"] for symbol in flavour["symbols"])
    doctor.show(report)
    printed = capsys.readouterr().out
    assert "All is well." in printed
    assert all(mode["adapter"] in printed for mode in checked)


def test_no_command_shows_the_commands(capsys):
    assert main([]) == 2
    output = capsys.readouterr().out
    assert "demo" in output and "doctor" in output


@pytest.mark.parametrize("command", ["demo", "doctor"])
def test_help(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert "Exits with 1" in " ".join(capsys.readouterr().out.split())


def test_unknown_flavour(capsys):
    assert main(["demo", "--flavour", "keras99"]) == 2
    output, errors = capsys.readouterr()
    assert output == ""
    assert "keras99 is not installed" in errors and "found" in errors


@pytest.fixture
def folder(tmp_path):
    """A folder to import from that holds the package only."""
    (tmp_path / "tfgradcompat").symlink_to(os.path.join(HOME, "tfgradcompat"))
    return tmp_path


def test_without_tensorflow(folder):
    code, output, errors = python("-c", BARE, str(folder), "doctor", PYTHONPATH="")
    assert (code, output) == (2, "")
    assert "pip install tfgradcompat[tensorflow]" in errors
    assert "Traceback" not in errors


def test_with_a_broken_tensorflow(folder):
    (folder / "tensorflow.py").write_text("raise ImportError('libmissing.so: cannot open shared object file')")
    code, output, errors = python("-c", BARE, str(folder), "demo", PYTHONPATH="")
    assert (code, output) == (2, "")
    assert "importing it fails: ImportError: libmissing.so" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    "wrong, agrees", [(0.0, True), (1e-6, True), (1e-3, False), (float("nan"), False), (float("inf"), False)]
)
def test_the_demo_tells_right_from_wrong(wrong, agrees):
    reference = np.array([[1.0, -2.0], [0.5, 0.25]])
    gradient = reference.copy()
    gradient[1, 1] += wrong
    comparison = example.Comparison(None, 0.5, {"kernel": gradient}, OrderedDict(kernel=reference))
    assert example.agrees(comparison) is agrees
