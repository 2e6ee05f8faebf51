"""``python -m tfgradcompat doctor``: what is installed, what would serve it, and whether it is right."""
import json
import platform
import subprocess
import sys
import warnings
from collections import OrderedDict

import numpy

from .. import __version__
from ..errors import UnsupportedVersionError
from ..registry import adapter_in, locations
from ..registry import environment as environments
from ..registry.environment import EAGER, GRAPH, STANDALONE
from . import example
from .frameworks import environment, import_flavours, import_tensorflow

OTHER_MODE = "not run: this process is in another mode (--every-mode)"


def run(options):
    report = examine(options.every_mode)
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        show(report)
    return 0 if report["healthy"] else 1


def examine(every_mode):
    """The report as a dict that JSON can hold."""
    tensorflow = import_tensorflow()
    found, broken = import_flavours()
    report = OrderedDict()
    report["python"] = platform.python_version()
    report["numpy"] = numpy.__version__
    report["tfgradcompat"] = __version__
    report["tensorflow"] = tensorflow.__version__
    report["broken"] = broken
    report["flavours"] = [_flavour(tensorflow, flavour, found[flavour], every_mode) for flavour in sorted(found)]
    modes = [mode for flavour in report["flavours"] for mode in flavour["modes"]]
    report["healthy"] = bool(
        not broken
        and any(mode["agrees"] for mode in modes)
        and all(mode["agrees"] in (True, None) for mode in modes)
        and all(symbol["found"] or symbol["where"] is None for flavour in report["flavours"] for symbol in flavour["symbols"])
    )
    return report


def _flavour(tensorflow, flavour, keras, every_mode):
    here = environment(tensorflow, flavour)
    modes = []
    for mode in (EAGER, GRAPH):
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                adapter = adapter_in(environments.installed(flavour, mode))
        except UnsupportedVersionError:
            continue  # the flavour has no such mode in this version
        entry = OrderedDict([("mode", mode), ("adapter", type(adapter).__name__)])
        entry["notes"] = sorted({str(warning.message) for warning in caught})
        if mode == here.mode:
            entry["agrees"], entry["result"] = _check(tensorflow, flavour, keras)
        elif every_mode and flavour != STANDALONE:
            entry["agrees"], entry["result"] = _check_elsewhere(flavour, mode)
        else:
            entry["agrees"], entry["result"] = None, OTHER_MODE
        modes.append(entry)
    if not modes:
        modes.append(OrderedDict([("mode", here.mode), ("adapter", None), ("notes", []), ("agrees", False)]))
        modes[0]["result"] = "no adapter serves %s" % here
    report = OrderedDict([("flavour", flavour), ("keras", str(here.keras)), ("package", here.package)])
    report["modes"] = modes
    report["symbols"] = _symbols(here)
    return report


def _symbols(here):
    """One entry per symbol of the table of locations; ``where`` is None if this version has no such thing."""
    return [
        OrderedDict([("name", name), ("where", symbol.where), ("found", symbol.found), ("reason", symbol.reason)])
        for name, symbol in locations.availability(here).items()
    ]


def _check(tensorflow, flavour, keras):
    try:
        comparison = example.compare(tensorflow, flavour, keras)
    except Exception as error:  # whatever is wrong with this installation is what the report is for
        return False, "%s: %s" % (type(error).__name__, error)
    return example.agrees(comparison), "largest error %.1e of the largest entry" % example.error(comparison)


def _check_elsewhere(flavour, mode):
    command = [sys.executable, "-m", "tfgradcompat", "demo", "--flavour", flavour, "--mode", mode]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    output, errors = process.communicate()
    if process.returncode == 0:
        return True, "in a process of its own: " + output.strip().rpartition(": ")[2]
    lines = (errors or output).strip().splitlines()
    return False, lines[-1] if lines else "ended with code %d" % process.returncode


def show(report):
    """Print a report."""
    print("tfgradcompat %(tfgradcompat)s, Python %(python)s, NumPy %(numpy)s, TensorFlow %(tensorflow)s" % report)
    for text in report["broken"].values():
        print("BROKEN: " + text)
    if not report["flavours"]:
        print("no Keras is installed beside it: pip install keras")
    for flavour in report["flavours"]:
        print("\n%(flavour)s %(keras)s, from %(package)s" % flavour)
        for mode in flavour["modes"]:
            verdict = {True: "ok", False: "WRONG", None: "-"}[mode["agrees"]]
            print("  %-6s %-20s %-6s%s" % (mode["mode"], mode["adapter"] or "-", verdict, mode["result"]))
            for note in mode["notes"]:
                print("         " + note)
        print("  symbols")
        for symbol in flavour["symbols"]:
            if symbol["where"] is not None:
                print("    %-34s%s" % (symbol["name"], symbol["where"] if symbol["found"] else "MISSING: " + symbol["reason"]))
        absent = [symbol["name"] for symbol in flavour["symbols"] if symbol["where"] is None]
        if absent:
            print("    not in this version: " + ", ".join(absent))
    print("\n%s" % ("All is well." if report["healthy"] else "Something is wrong, see above."))
