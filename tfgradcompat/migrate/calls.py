"""Calls of the facade, as they are written into a module, and what is said of those that are not."""
from collections import namedtuple

import libcst as cst

GET, FUNCTION = "get_gradients", "gradient_function"
# What stands for the facade's functions and for NumPy until it is known how a module names them.
STANDS_FOR = {GET: "__tfgradcompat_get_gradients", FUNCTION: "__tfgradcompat_gradient_function"}
NUMPY = "__tfgradcompat_numpy"
ADVICE = "tfgradcompat.get_gradients(model, x, y, params=..., sample_weight=..., learning_phase=...)"

# What cannot be rewritten: where, why, and the facade's call to use.
Leftover = namedtuple("Leftover", "line reason advice")
# What can: node -> its replacement, the statements that go, the facade's names it needs, and what is worth knowing.
Plan = namedtuple("Plan", "line replaced removed needs notes")


def call_of(name, positional, keywords):
    """A call of one of the facade's functions."""
    return cst.Call(cst.Name(STANDS_FOR[name]), arguments_of(positional, keywords))


def arguments_of(positional, keywords):
    """Arguments, on one line."""
    found = [cst.Arg(value) for value in positional] + keywords
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    return [arg.with_changes(comma=comma) for arg in found[:-1]] + found[-1:]


def keyword(name, value):
    """``name=value``."""
    bare = cst.SimpleWhitespace("")
    return cst.Arg(value, keyword=cst.Name(name), equal=cst.AssignEqual(whitespace_before=bare, whitespace_after=bare))


def leading(batch):
    """The positional arguments that a ``Batch`` is passed as."""
    return [value for value in (batch.x, batch.y) if value is not None]


def trailing(batch):
    """The keyword arguments that a ``Batch`` is passed as."""
    pairs = (("sample_weight", batch.sample_weight), ("learning_phase", batch.phase), ("class_weight", batch.class_weight))
    return [keyword(name, value) for name, value in pairs if value is not None]
