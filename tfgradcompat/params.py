"""What to differentiate by: nests of parameters, flattened and put together again."""
import warnings
from collections import OrderedDict

from . import selectors
from .adapters.taps import Tap
from .errors import InvalidParamsError


def flatten(nest):
    """The leaves of a nest of lists, tuples and dicts, in order."""
    if isinstance(nest, dict):
        return [leaf for key in nest for leaf in flatten(nest[key])]
    if isinstance(nest, (list, tuple)):
        return [leaf for item in nest for leaf in flatten(item)]
    return [nest]


def pack(nest, leaves):
    """A nest of the same structure with ``leaves``, in order, in the places of its leaves."""
    leaves = iter(leaves)
    return _map(nest, lambda _: next(leaves))


def _map(nest, function):
    if isinstance(nest, dict):
        pairs = [(key, _map(nest[key], function)) for key in nest]
        try:
            return type(nest)(pairs)
        except TypeError:  # a dict type with a constructor of its own, e.g. defaultdict or Keras's tracking wrapper
            return dict(pairs)
    if isinstance(nest, (list, tuple)):
        items = [_map(item, function) for item in nest]
        if hasattr(nest, "_fields"):
            return type(nest)(*items)
        return tuple(items) if isinstance(nest, tuple) else items
    return function(nest)


class Params(object):
    """A nest of parameters resolved against a model.

    Arguments:
        words: function from a string in the nest, and others that stand for something, to what it stands for.

    Attributes:
        structure: the nest as it was asked for, words replaced.
        unique: each parameter once: a weight or a ``Tap``.
        names: the readable name of each of ``unique``.
    """

    def __init__(self, adapter, model, params, words=None):
        if params is None:
            params = adapter.trainable_weights(model)
        self.adapter = adapter
        words = words or (lambda leaf: word(adapter, model, leaf) if isinstance(leaf, str) else leaf)
        self.structure = _map(params, words)
        known = {id(weight): weight for weight in adapter.weights(model)}
        positions = {}
        self.unique, self.names, self._places = [], [], []
        for leaf in flatten(self.structure):
            if id(leaf) not in positions:
                param = leaf if id(leaf) in known else tap(adapter, model, leaf)
                if param is None:
                    raise InvalidParamsError(_foreign(adapter, model, leaf))
                key = param if isinstance(param, Tap) else id(leaf)
                if key not in positions:
                    positions[key] = len(self.unique)
                    self.unique.append(param)
                    self.names.append(param.name if isinstance(param, Tap) else adapter.weight_name(param))
                positions[id(leaf)] = positions[key]
            self._places.append(positions[id(leaf)])

    @property
    def taps(self):
        """Those that are no weights."""
        return [param for param in self.unique if isinstance(param, Tap)]

    def require_weights(self, reason):
        """Raise ``InvalidParamsError`` with ``reason`` if one of the params is no weight."""
        names = [param.name for param in self.taps]
        if names:
            raise InvalidParamsError("%s: %s" % (reason, _some(names)))

    def results(self, values, evaluate, unconnected):
        """One result for each of ``unique``: ``values`` as the adapter gave them, the missing ones treated as wanted.

        Arguments:
            unconnected: function from a place in ``unique`` to what stands for a value that is ``None``.
        """
        results = []
        for place, value in enumerate(values):
            convert = self.adapter.to_numpy if evaluate else _same
            if isinstance(self.unique[place], Tap):
                calls = [
                    [unconnected(place) if output is None else convert(output) for output in call] for call in value
                ]
                results.append(self.unique[place].arranged(calls))
            else:
                results.append(unconnected(place) if value is None else convert(value))
        return results

    def pack(self, results):
        """Put one result for each of ``unique`` into the structure asked for."""
        return pack(self.structure, [results[place] for place in self._places])

    def named(self, results):
        """An ordered dict of the results by name; equal names of different parameters get a number."""
        found = OrderedDict()
        for name, result in zip(self.names, results):
            number, free = 1, name
            while free in found:
                number += 1
                free = "%s #%d" % (name, number)
            found[free] = result
        return found


def _same(value):
    return value


def tap(adapter, model, leaf):
    """The ``Tap`` that ``leaf`` is or stands for; ``None`` if it is nothing of the model's."""
    return leaf if isinstance(leaf, Tap) else adapter.tap(model, leaf)


def word(adapter, model, text):
    """What a string among params stands for: a weight by its name, a layer's output by the layer's, ``"*"`` all that trains."""
    if text == "*":
        return selectors.select(adapter, model, "*", "trainable_weights")
    weights = adapter.candidates(model, "weights")
    outputs = adapter.candidates(model, "outputs")
    by_weight = [one for one in weights if selectors.plain(one.name) == selectors.plain(text)]
    by_layer = [one for one in outputs if one.name == text]
    if not by_layer:  # of a layer in a model within the model
        by_layer = [one for one in outputs if one.layer is not None and one.layer.name == text]
    if len(by_weight) + len(by_layer) == 1:
        return (by_weight + by_layer)[0].item
    found = by_weight + by_layer or selectors.matching(weights, text) + selectors.matching(outputs, text)
    if len(found) == 1:
        return found[0].item
    raise InvalidParamsError("%r %s of the model %r: %s; tfgradcompat.select says which kind is meant" % (
        text,
        "may be several weights or layer outputs" if found else "is no weight, and no layer",
        getattr(model, "name", "?"),
        _some([one.name for one in found or weights + outputs]),
    ))


def unconnected(params, place, choice, evaluate, what):
    """What stands for the gradient by ``params.unique[place]`` that does not exist, as ``unconnected_gradients`` says."""
    if choice == "zero":
        return params.adapter.zeros_like(params.unique[place], evaluate)
    message = "%s does not depend on %s: its gradient is None" % (what, params.names[place])
    if choice == "raise":
        raise ValueError(message + "; pass unconnected_gradients='zero' or 'none' to allow this")
    warnings.warn(message, UserWarning, stacklevel=6)
    return None


def _foreign(adapter, model, leaf):
    name = getattr(leaf, "name", None)
    found = "%r (%s)" % (name, type(leaf).__name__) if isinstance(name, str) else repr(leaf)
    return (
        "%s is no weight, layer output, input or layer of the model %r; expected one of model.weights, a layer.output, one of "
        "model.inputs, a layer, a name, or a list, tuple or dict of these; the weights: %s"
        % (found, getattr(model, "name", "?"), _some([adapter.weight_name(weight) for weight in adapter.weights(model)]))
    )


def _some(names, most=12):
    names = [str(name) for name in names]
    return ", ".join(names[:most]) + (", ... (%d in all)" % len(names) if len(names) > most else "")
