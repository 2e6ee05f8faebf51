"""What a pass may change, kept as it was: snapshots of variables and of Python attributes."""
import contextlib
import random

import numpy as np


@contextlib.contextmanager
def preserved_values(variables, read, assign):
    """Put every variable's value back when the block ends, however it ends.

    Arguments:
        variables: the variables that the block may change.
        read, assign: ``read(variable)`` gives a value that later changes do not touch, ``assign(variable, value)`` sets it.
    """
    saved = [(variable, read(variable)) for variable in variables]
    try:
        yield
    finally:
        for variable, value in saved:
            assign(variable, value)


@contextlib.contextmanager
def preserved_random_state():
    """Put the states of ``random`` and ``numpy.random`` back, from which Keras 2 takes seeds for operations."""
    states = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


@contextlib.contextmanager
def preserved_attributes(objects, names):
    """Put the instance attributes ``names`` of every object back when the block ends, lists and dicts with their content.

    The instance dict is written directly: Keras's ``__setattr__`` would track the values anew.
    """
    saved = []
    for item in objects:
        attributes = getattr(item, "__dict__", {})
        for name in names:
            if name in attributes:
                saved.append((attributes, name, attributes[name], _content(attributes[name])))
    try:
        yield
    finally:
        for attributes, name, value, content in saved:
            attributes[name] = value
            # Keras's own kinds of list remember that they were written to: only where it matters.
            if content is not None and list(map(id, _content(value))) != list(map(id, content)):
                value.clear()
                (value.update if isinstance(value, dict) else value.extend)(content)


def _content(value):
    """The items of a list or dict."""
    if isinstance(value, dict):
        return list(value.items())
    return list(value) if isinstance(value, list) else None
