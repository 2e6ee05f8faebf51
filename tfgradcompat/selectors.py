"""Words for parts of a model: ``"*"``, names and parts of names, indices, layers, and lists of these."""
import numbers
import re

from .errors import InvalidParamsError

KINDS = ("weights", "trainable_weights", "outputs", "inputs")


class Candidate(object):
    """Something that can be selected.

    Attributes:
        name: its full name.
        item: what a param would be: a weight, a tensor, a layer, or a list of tensors.
        layer: the layer it belongs to, or ``None``.
        indexed, starred: whether an index, and whether ``"*"``, counts it.
    """

    def __init__(self, name, item, layer=None, indexed=True, starred=True):
        self.name, self.item, self.layer, self.indexed, self.starred = name, item, layer, indexed, starred


def select(adapter, model, which, kind="weights"):
    """What ``which`` names; see ``tfgradcompat.select``."""
    if kind not in KINDS:
        raise ValueError("kind must be one of %s, got %r" % (", ".join(KINDS), kind))
    candidates = adapter.candidates(model, kind)
    if kind == "inputs" and not candidates:
        return adapter.positional_input(model, which)
    return _select(candidates, which, kind, model)


def _select(candidates, which, kind, model):
    if isinstance(which, (list, tuple)):
        found = []
        for each in which:
            item = _select(candidates, each, kind, model)
            found += item if isinstance(item, list) else [item]
        return found
    if isinstance(which, str):
        if which == "*":
            return _flat([candidate.item for candidate in candidates if candidate.starred])
        return _by_name(candidates, which, kind, model)
    if isinstance(which, numbers.Integral):
        top, index = [candidate for candidate in candidates if candidate.indexed], int(which)
        if not -len(top) <= index < len(top):
            raise InvalidParamsError("the model %s has %d %s, there is no number %d: %s" % (
                _name(model), len(top), kind, index, _some([candidate.name for candidate in top])))
        return top[index].item
    # A layer; comparing by identity, since ``==`` of a weight or tensor makes a tensor.
    of_layer = [candidate for candidate in candidates if candidate.layer is which or candidate.item is which]
    if not of_layer:
        raise InvalidParamsError("%r has no %s in the model %s; these have: %s" % (
            getattr(which, "name", which), kind, _name(model), _some(_layers(candidates))))
    items = [candidate.item for candidate in of_layer]
    return items[0] if kind == "outputs" and len(items) == 1 else _flat(items)


def _by_name(candidates, text, kind, model):
    """The one candidate that ``text`` names, or all of the one layer it names."""
    matches = matching(candidates, text)
    if len(matches) == 1:
        return matches[0].item
    layers = {id(candidate.layer): candidate.layer for candidate in matches if candidate.layer is not None}
    if len(layers) == 1 and all(candidate.layer is not None and candidate.layer.name == text for candidate in matches):
        return _flat([candidate.item for candidate in matches])
    if matches:
        raise InvalidParamsError("%r is ambiguous among the %s of the model %s: %s" % (
            text, kind, _name(model), _some([candidate.name for candidate in matches])))
    raise InvalidParamsError("%r names none of the %s of the model %s: %s" % (
        text, kind, _name(model), _some([candidate.name for candidate in candidates])))


def matching(candidates, text):
    """The candidates that ``text`` may mean: the best kind of match there is, and all of that kind."""
    wanted = plain(text)
    for matches in (_is_it, _is_layer, _is_end, _same_but_for_the_middle, _is_part):
        found = [candidate for candidate in candidates if matches(candidate, wanted)]
        if found:
            return found
    return []


def plain(name):
    """A weight's name or path without the ``:0`` that variables of Keras 2 have."""
    return re.sub(r":0$", "", name)


def _is_it(candidate, text):
    return plain(candidate.name) == text


def _is_layer(candidate, text):
    return candidate.layer is not None and candidate.layer.name == text


def _is_end(candidate, text):
    return plain(candidate.name).endswith("/" + text)


def _same_but_for_the_middle(candidate, text):
    # A recurrent kernel is lstm/kernel in one release, lstm/lstm_cell/kernel in another; a path may begin with the model.
    own, wanted = plain(candidate.name).split("/"), text.split("/")
    if len(wanted) < 2 or len(own) < 2 or own[-1] != wanted[-1]:
        return False
    return _is_subsequence(wanted, own) or _is_subsequence(own, wanted)


def _is_subsequence(one, other):
    other = iter(other)
    return all(part in other for part in one)


def _is_part(candidate, text):
    return text in plain(candidate.name)


def _flat(items):
    return [one for item in items for one in (item if isinstance(item, list) else [item])]


def _layers(candidates):
    names = []
    for candidate in candidates:
        if candidate.layer is not None and candidate.layer.name not in names:
            names.append(candidate.layer.name)
    return names


def _name(model):
    return repr(getattr(model, "name", type(model).__name__))


def _some(names, most=24):
    return ", ".join(names[:most]) + (", ... (%d in all)" % len(names) if len(names) > most else "")
