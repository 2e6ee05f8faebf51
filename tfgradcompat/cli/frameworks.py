"""TensorFlow and the Keras flavours that are installed, imported and put into a mode."""
import contextlib
import importlib
import importlib.util
import logging
import os
import sys
import warnings

from ..registry import environment as environments
from ..registry.environment import EAGER, GRAPH, KERAS3, LEGACY, STANDALONE, TF_KERAS
from . import CommandError

# In order of preference where any will do; one package serves two flavours, whichever its version makes it.
PACKAGES = ((TF_KERAS, None), (KERAS3, "keras"), (STANDALONE, "keras"), (LEGACY, "tf_keras"))


def import_tensorflow(mode=None):
    """Import TensorFlow, quietly, and put the process into a mode (``None``: the one it has by itself)."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    tensorflow = _import("tensorflow")
    if tensorflow is None:
        raise CommandError(
            "TensorFlow is not installed for %s; install it, e.g. with: pip install tfgradcompat[tensorflow]"
            % sys.executable
        )
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    if mode == EAGER:
        # Before anything else: the first releases that have it refuse once they were asked for the mode.
        _call(tensorflow, "enable_eager_execution")
    elif mode == GRAPH and current_mode(tensorflow) != GRAPH:
        _call(tensorflow, "disable_eager_execution")
    return tensorflow


def current_mode(tensorflow):
    """The mode a model built now would have; releases without the question are older than eager mode."""
    executing_eagerly = getattr(tensorflow, "executing_eagerly", None)
    return EAGER if executing_eagerly is not None and executing_eagerly() else GRAPH


def environment(tensorflow, flavour):
    """The ``Environment`` a model of this flavour would have if it were built now."""
    # Standalone Keras works in its own graph, whatever TensorFlow's mode.
    return environments.installed(flavour, GRAPH if flavour == STANDALONE else current_mode(tensorflow))


def _call(tensorflow, name):
    for home in (tensorflow, getattr(getattr(tensorflow, "compat", None), "v1", None)):
        if hasattr(home, name):
            getattr(home, name)()
            return
    raise CommandError("TensorFlow %s has no %s, hence no other mode" % (tensorflow.__version__, name))


def import_flavours():
    """Import every Keras flavour that is installed.

    Returns (flavour -> module, package -> what went wrong on import).
    """
    found, broken = {}, {}
    for flavour, package in PACKAGES:
        try:
            module = getattr(sys.modules["tensorflow"], "keras", None) if package is None else _import(package)
        except CommandError as error:
            broken[package] = str(error)
            continue
        if module is not None and environments.installed(flavour, GRAPH) is not None:
            found[flavour] = module
    return found, broken


def _import(name):
    """The module, or ``None`` if it is not installed."""
    if name not in sys.modules and importlib.util.find_spec(name) is None:
        return None
    try:
        with warnings.catch_warnings(), _quiet():
            warnings.simplefilter("ignore")  # of old releases about newer NumPy and Python
            return importlib.import_module(name)
    except Exception as error:  # a broken installation fails in any way it likes
        raise CommandError("%s is installed, but importing it fails: %s: %s" % (name, type(error).__name__, error))


@contextlib.contextmanager
def _quiet():
    """Nothing on stderr: Keras announces its backend there."""
    with open(os.devnull, "w") as nowhere:
        before, sys.stderr = sys.stderr, nowhere
        try:
            yield
        finally:
            sys.stderr = before
