"""The pieces of the old idiom: gradients of a total loss, what a Keras function is fed, and what it is called with."""
import re
from collections import namedtuple

import libcst as cst

from .names import dotted

PHASE = "learning phase"
INPUTS, TARGETS, WEIGHTS = "inputs", "targets", "sample weights"
ATTRIBUTES = {
    "inputs": INPUTS,
    "_feed_inputs": INPUTS,
    "targets": TARGETS,
    "_feed_targets": TARGETS,
    "_targets": TARGETS,
    "sample_weights": WEIGHTS,
    "_feed_sample_weights": WEIGHTS,
}
LISTS = ("trainable_weights", "trainable_variables", "weights", "variables", "non_trainable_weights", "non_trainable_variables")
LISTS += ("_collected_trainable_weights", "inputs", "outputs")
TENSORS = ("output", "input", "kernel", "bias", "embeddings", "gamma", "beta", "recurrent_kernel")
BACKEND = re.compile(r"(^|\.)(keras|tf_keras|_?backend)(\.\w+)*$|(^|\.)[Kk]$")

# A place among what a Keras function is fed: ``index`` is None for all of its kind.
Slot = namedtuple("Slot", "kind index")
Gradients = namedtuple("Gradients", "call model params clip")
Batch = namedtuple("Batch", "x y sample_weight class_weight phase")


class Doubt(Exception):
    """Why something cannot be rewritten with certainty."""

    def __init__(self, reason, advice=None):
        super(Doubt, self).__init__(reason)
        self.reason, self.advice = reason, advice


class Reader(object):
    """Reads expressions through the plain assignments they go through, and notes which those are.

    Attributes:
        passed: the bindings that were read through; they are of no use any more once the idiom is rewritten.
        consumed: the uses of them.
        owners: what was found to be the model, besides the loss's own.
    """

    def __init__(self, names):
        self.names = names
        self.passed, self.consumed, self.owners = [], set(), []

    def resolve(self, node):
        """What a name stands for, as far as that is certain; other expressions as they are."""
        while isinstance(node, cst.Name):
            binding = self.names.reaching(node)
            if binding is None or binding.value is None:
                return node
            self.passed.append(binding)
            self.consumed.add(node)
            node = binding.value
        return node

    def peek(self, node):
        """As ``resolve``, but the assignments stay."""
        return Reader(self.names).resolve(node)

    def canonical(self, node):
        """A text that is equal for expressions of the same object."""
        found = self.peek(node)
        if isinstance(found, cst.Attribute):
            return self.canonical(found.value) + "." + found.attr.value
        if isinstance(found, (cst.Name, cst.Subscript)):
            return self.names.code(found).strip()
        return self.names.code(node).strip()

    def is_same(self, owner, model):
        """Whether two expressions are called alike; that they mean the same all the time is to be looked into."""
        self.owners.append(owner)
        return self.canonical(owner) == self.canonical(model)

    # -- gradients

    def gradients(self, node):
        """``Gradients`` if a call is one of a total loss, else ``None``."""
        if not isinstance(node, cst.Call) or not isinstance(node.func, (cst.Attribute, cst.Name)):
            return None
        name = node.func.attr.value if isinstance(node.func, cst.Attribute) else node.func.value
        if name not in ("get_gradients", "gradients") and not self.names.qualified(node.func).endswith("gradients"):
            return None
        given = arguments(node, ("loss", "params") if name == "get_gradients" else ("loss", "variables"))
        loss = None if given is None else given.get("loss", given.get("ys"))
        if loss is None or not is_total_loss(self.peek(loss)):
            return None
        model = self.resolve(loss).value
        params = given.get("params", given.get("variables", given.get("xs")))
        if params is None or set(given) - {"loss", "params", "variables", "ys", "xs"}:
            raise Doubt("its arguments are unusual")
        clip = name == "get_gradients"
        if clip:
            self._require_own_optimizer(node, model)
        elif not self.is_backend(node.func, "gradients"):
            raise Doubt("it is not certain whose function %s is" % name)
        return Gradients(node, model, params, clip)

    def _require_own_optimizer(self, call, model):
        owner = self.peek(call.func.value) if isinstance(call.func, cst.Attribute) else call
        is_optimizer = isinstance(owner, cst.Attribute) and owner.attr.value == "optimizer"
        if not is_optimizer or not self.is_same(owner.value, model):
            raise Doubt("the optimizer is not certainly the model's own, and may clip differently")

    def is_backend(self, func, name):
        """Whether ``func`` is that function of Keras's backend, or TensorFlow's of the same name."""
        path = self.names.qualified(func)
        start, _, last = path.rpartition(".")
        return last == name and (BACKEND.search(start) is not None or start in ("tensorflow", "tensorflow.compat.v1"))

    def is_function(self, node):
        """Whether a call makes a Keras function."""
        return isinstance(node, cst.Call) and self.is_backend(node.func, "function") and "." in self.names.qualified(node.func)

    # -- what a function is fed

    def slots(self, node, model):
        """The ``Slot``s that an expression of what a function is fed consists of, in order."""
        node = self.resolve(node)
        added = self.names.reaching(node) if isinstance(node, cst.Name) else None
        if added is not None and isinstance(added.node, cst.AugAssign):
            return self._extended(node, added, model)
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
            return self.slots(node.left, model) + self.slots(node.right, model)
        if isinstance(node, (cst.List, cst.Tuple)):
            found = []
            for element in node.elements:
                starred = isinstance(element, cst.StarredElement)
                found += self.slots(element.value, model) if starred else [self._slot(self.resolve(element.value), model, True)]
            return found
        return [self._slot(node, model, False)]

    def _extended(self, node, added, model):
        """Of ``inputs = ...`` and then ``inputs += ...``."""
        before = self.names.reaching(added.node.target)
        if not isinstance(added.node.operator, cst.AddAssign) or before is None or before.value is None:
            raise Doubt("what %s is by then cannot be told" % node.value)
        self.passed += [added, before]
        self.consumed |= {node, added.node.target}
        return self.slots(before.value, model) + self.slots(added.node.value, model)

    def _slot(self, node, model, single):
        slot, owner = _slot(node)
        if slot is None:
            if single and isinstance(node, cst.Call) and dotted(node.func).endswith("learning_phase") and not node.args:
                return Slot(PHASE, 0)
        elif (slot.index is not None) == single:
            if not self.is_same(owner, model):
                raise Doubt("the loss and what is fed are not certainly of the same model")
            return slot
        raise Doubt("it is fed something else: %s" % shortened(self.names.code(node)))

    # -- what a function is called with

    def terms(self, node):
        """The operands of a sum of lists: lists of expressions, or single expressions for lists that are not spelled out."""
        node = self.resolve(node)
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
            return self.terms(node.left) + self.terms(node.right)
        if isinstance(node, (cst.List, cst.Tuple)):
            if any(isinstance(element, cst.StarredElement) for element in node.elements):
                raise Doubt("it is called with a list that is not spelled out")
            return [[element.value for element in node.elements]]
        return [node]


def is_total_loss(node):
    """Whether an expression is ``model.total_loss``."""
    return isinstance(node, cst.Attribute) and node.attr.value == "total_loss"


def _slot(node):
    """(``Slot``, model) of an expression, or (None, None)."""
    index = None
    if isinstance(node, cst.Subscript) and len(node.slice) == 1:
        index = literal(node.slice[0].slice.value) if isinstance(node.slice[0].slice, cst.Index) else None
        if not isinstance(index, int) or index < 0:
            return None, None
        node = node.value
        if isinstance(node, cst.Attribute) and node.attr.value in ATTRIBUTES:
            return Slot(ATTRIBUTES[node.attr.value], index), node.value
        return None, None
    if isinstance(node, cst.Attribute) and node.attr.value == "input":
        return Slot(INPUTS, 0), node.value
    if isinstance(node, cst.Attribute) and node.attr.value in ATTRIBUTES:
        return Slot(ATTRIBUTES[node.attr.value], None), node.value
    return None, None


def arguments(call, positional):
    """The arguments of a call by name; ``None`` if some cannot be told."""
    given = {}
    for place, arg in enumerate(call.args):
        if arg.star or arg.keyword is None and place >= len(positional):
            return None
        given[arg.keyword.value if arg.keyword else positional[place]] = arg.value
    return given


def literal(node):
    """The value of a literal number, string or name of a constant; ``None`` for everything else (and for None)."""
    if isinstance(node, (cst.Integer, cst.Float)):
        return node.evaluated_value
    if isinstance(node, cst.SimpleString):
        return node.evaluated_value
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        value = literal(node.expression)
        return -value if isinstance(value, (int, float)) else None
    if isinstance(node, cst.Name) and node.value in ("True", "False"):
        return node.value == "True"
    return None


def is_none(node):
    """Whether an expression is None, or absent."""
    return node is None or isinstance(node, cst.Name) and node.value == "None"


def shortened(code, most=60):
    """One line of source, for a message."""
    line = " ".join(code.split())
    return line if len(line) <= most else line[: most - 3] + "..."


def shape(node):
    """``"list"``, ``"tuple"`` or ``"single"``: what params are that are written like this; ``None`` if that cannot be told."""
    if isinstance(node, (cst.List, cst.ListComp)):
        return "list"
    if isinstance(node, cst.Tuple):
        return "tuple"
    if isinstance(node, cst.Attribute):
        # Of an object of the module's own, these may be anything.
        own = isinstance(node.value, cst.Name) and node.value.value == "self" and not node.attr.value.startswith("trainable_")
        return None if own else "list" if node.attr.value in LISTS else "single" if node.attr.value in TENSORS else None
    if isinstance(node, cst.Call):
        return "list" if dotted(node.func) in ("list", "sorted") else None
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        return "list" if "list" in (shape(node.left), shape(node.right)) else None
    if isinstance(node, cst.Subscript) and len(node.slice) == 1 and shape(node.value) == "list":
        return "list" if isinstance(node.slice[0].slice, cst.Slice) else "single"
    return None
