"""What to differentiate by: nests of parameters, flattened and put together again."""
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
    return _pack(nest, iter(leaves))


def _pack(nest, leaves):
    if isinstance(nest, dict):
        pairs = [(key, _pack(nest[key], leaves)) for key in nest]
        try:
            return type(nest)(pairs)
        except TypeError:  # a dict type with a constructor of its own, e.g. defaultdict or Keras's tracking wrapper
            return dict(pairs)
    if isinstance(nest, (list, tuple)):
        items = [_pack(item, leaves) for item in nest]
        if hasattr(nest, "_fields"):
            return type(nest)(*items)
        return tuple(items) if isinstance(nest, tuple) else items
    return next(leaves)


class Params(object):
    """A nest of parameters resolved against a model.

    Attributes:
        structure: the nest as it was asked for.
        unique: each parameter once.
        names: the readable name of each of ``unique``.
    """

    def __init__(self, adapter, model, params):
        if params is None:
            params = adapter.trainable_weights(model)
        self.structure = params
        leaves = flatten(params)
        known = {id(weight): weight for weight in adapter.weights(model)}
        positions = {}
        self.unique, self.names, self._places = [], [], []
        for leaf in leaves:
            if id(leaf) not in known:
                raise InvalidParamsError(_foreign(adapter, model, leaf))
            if id(leaf) not in positions:
                positions[id(leaf)] = len(self.unique)
                self.unique.append(leaf)
                self.names.append(adapter.weight_name(leaf))
            self._places.append(positions[id(leaf)])

    def pack(self, values):
        """Put one value for each of ``unique`` into the structure asked for."""
        return pack(self.structure, [values[place] for place in self._places])


def _foreign(adapter, model, leaf):
    name = getattr(leaf, "name", None)
    found = "%r (%s)" % (name, type(leaf).__name__) if name else repr(leaf)
    return (
        "%s is not a weight of the model %r; expected one of model.weights, or a list, tuple or dict of these: %s"
        % (found, getattr(model, "name", "?"), _some([adapter.weight_name(weight) for weight in adapter.weights(model)]))
    )


def _some(names, most=12):
    names = [str(name) for name in names]
    return ", ".join(names[:most]) + (", ... (%d in all)" % len(names) if len(names) > most else "")
