"""What was found, and which adapter serves: for people to print and for programs to look into."""
import platform
import sys
from collections import OrderedDict

import numpy

from ..errors import UnsupportedModelError, UnsupportedVersionError
from . import adapter_for, adapter_in, spec_for
from . import environment as environments
from .locations import known_symbols, location_in

__all__ = ["Description", "describe"]


class Description(OrderedDict):
    """A dict that prints as a table."""

    def __str__(self):
        return "\n".join(_lines(self))


def describe(model=None):
    """What was found and which adapter serves.

    Arguments:
        model: a Keras model; ``None`` describes every Keras flavour loaded in this process. Nothing is imported.

    Returns a dict that prints as a table. Of a model: ``flavour``, ``mode``, ``tensorflow``, ``keras``, ``python``, ``numpy``,
    ``package`` (the private package its class comes from), ``adapter`` and ``serves`` (what models that one is for), what the
    adapter has to say, and ``symbols`` (symbol -> where it is, for those this version has; see ``locate``). Without a model:
    the versions, and under ``flavours`` such a dict for each flavour, whose ``adapter`` is ``None`` if
    none serves, for the ``reason`` given.
    """
    if model is not None:
        environment = environments.inspect(model)
        adapter = adapter_for(model)
        return _of(environment, adapter, adapter.describe(model))
    found = Description()
    tensorflow = sys.modules.get("tensorflow")
    found["tensorflow"] = getattr(tensorflow, "__version__", None)
    found.update(_process())
    found["flavours"] = OrderedDict()
    for flavour in environments.live_flavours():
        environment = environments.installed(flavour, environments.process_mode(flavour), load=False)
        try:
            adapter, facts = adapter_in(environment), {}
        except (UnsupportedModelError, UnsupportedVersionError) as error:
            adapter, facts = None, {"reason": str(error)}
        found["flavours"][flavour] = _of(environment, adapter, facts)
    return found


def _process():
    return [("python", platform.python_version()), ("numpy", numpy.__version__)]


def _of(environment, adapter, facts):
    symbols = OrderedDict()
    for symbol in known_symbols():
        location = location_in(symbol, environment)
        if location is not None:
            symbols[symbol] = location.dotted(environment)
    found = Description()
    found["flavour"] = environment.flavour
    found["mode"] = environment.mode
    found["tensorflow"] = str(environment.tensorflow)
    found["keras"] = str(environment.keras)
    found.update(_process())
    found["package"] = environment.package
    found["adapter"] = adapter and "%s.%s" % (type(adapter).__module__, type(adapter).__name__)
    found["serves"] = adapter and spec_for(environment).versions()
    found.update(sorted(facts.items()))
    found["symbols"] = symbols
    return found


def _lines(mapping, indent=""):
    width = max([len(str(name)) for name in mapping] or [0])
    for name, value in mapping.items():
        if isinstance(value, dict):
            if value:
                yield "%s%s:" % (indent, name)
                for line in _lines(value, indent + "  "):
                    yield line
            else:
                yield "%s%-*s  none" % (indent, width, name)
        else:
            yield "%s%-*s  %s" % (indent, width, name, "none" if value is None else value)
