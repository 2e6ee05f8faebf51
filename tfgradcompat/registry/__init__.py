"""Which adapter serves a model: the table, what third parties registered, and what was found."""
import importlib
import threading
import warnings

from ..errors import AdapterWarning, UnsupportedVersionError
from ..weakcache import WeakCache
from . import environment as environments
from .environment import Environment
from .plugins import entry_points
from .table import ADAPTERS, AdapterSpec

__all__ = ["AdapterSpec", "Environment", "adapter_for", "register"]

ENTRY_POINT_GROUP = "tfgradcompat.adapters"

_lock = threading.RLock()
_registered = []  # third parties' specs, newest first
_entry_points_loaded = False
_adapters = {}  # (spec, environment) -> adapter instance
_by_model = WeakCache()
_warned = set()


def register(adapter_spec):
    """Add a third party's adapter; it goes before the built-in ones, and before those registered earlier.

    Arguments:
        adapter_spec: an ``AdapterSpec``.

    Returns the spec. The entry-point group ``tfgradcompat.adapters`` does the same for installed packages: each entry
    point names an ``AdapterSpec`` or a function that returns one.
    """
    if not isinstance(adapter_spec, AdapterSpec):
        raise TypeError("expected an AdapterSpec, got %r" % (adapter_spec,))
    with _lock:
        _registered.insert(0, adapter_spec)
        _by_model.clear()
    return adapter_spec


def adapter_for(model):
    """The adapter that serves ``model``; it is looked up once per model."""
    # Keras swaps classes' bases when it builds a model in another mode (see environment), which makes a new tuple.
    mro, adapter = _by_model.get(model, (None, None))
    if mro is not type(model).__mro__:
        adapter = adapter_in(environments.inspect(model))
        _by_model.set(model, (type(model).__mro__, adapter))
    return adapter


def adapter_in(environment):
    """The adapter that serves an ``Environment``."""
    spec = spec_for(environment)
    key = (spec, environment)
    with _lock:
        if key not in _adapters:
            _adapters[key] = _load(spec)(environment)
        return _adapters[key]


def spec_for(environment):
    """The ``AdapterSpec`` that serves an ``Environment``."""
    candidates = _specs()
    for spec in candidates:
        if spec.matches(environment):
            return spec
    # The last row of a flavour and mode is the newest.
    for spec in reversed(ADAPTERS):
        if spec.serves(environment) and spec.newest_tested(environment):
            with _lock:
                if environment not in _warned:
                    _warned.add(environment)
                    warnings.warn(
                        "%s is newer than what this tfgradcompat was tested with (TensorFlow %s, Keras %s); the newest adapter "
                        "serves it. Check with `python -m tfgradcompat doctor`, and look for a newer tfgradcompat."
                        % (environment, spec.tensorflow, spec.keras or "as TensorFlow"),
                        AdapterWarning,
                        stacklevel=2,
                    )
            return spec
    raise UnsupportedVersionError(
        "found %s; supported are %s. Install one of these, or register an adapter of your own."
        % (environment, "; ".join(spec.versions() for spec in candidates))
    )


def _specs():
    _load_entry_points()
    with _lock:
        return tuple(_registered) + ADAPTERS


def _load(spec):
    if not isinstance(spec.adapter, str):
        return spec.adapter
    module, _, name = spec.adapter.partition(":")
    return getattr(importlib.import_module(module), name)


def _load_entry_points():
    global _entry_points_loaded
    with _lock:
        if _entry_points_loaded:
            return
        _entry_points_loaded = True
        for entry_point in entry_points(ENTRY_POINT_GROUP):
            try:
                found = entry_point.load()
                register(found() if callable(found) else found)
            except Exception as error:  # another package's fault must not take the built-in adapters down
                warnings.warn(
                    "the entry point %r of group %r failed and was left out: %s: %s"
                    % (entry_point.name, ENTRY_POINT_GROUP, type(error).__name__, error),
                    AdapterWarning,
                    stacklevel=2,
                )
