"""Which of the arrays that a Keras function is called with are inputs, targets, sample weights and learning phase."""
import re

import libcst as cst

from .calls import NUMPY
from .idioms import INPUTS, PHASE, TARGETS, WEIGHTS, Batch, Doubt, arguments, is_none, literal, shortened
from .names import dotted

WEIGHT = re.compile(r"weight|ones\b|ones_like|(^|[\W_])(sw|sws|wts?|w)\d*$", re.I)
TARGET = re.compile(r"(^|[\W_])(y|ys|label|labels|target|targets)(\d|_|\b|$)|label|target", re.I)
MODULES = ("numpy", "keras", "tensorflow", "tf_keras")
STANDARDIZED = ("x", "y", "sample_weight", "class_weight")


def read(reader, call, slots, model):
    """The ``Batch`` that one call of a function passes, whose places are ``slots``. Raises ``Doubt``."""
    if len(call.args) != 1 or call.args[0].star or call.args[0].keyword:
        raise Doubt("it is not called with one list")
    terms = reader.terms(call.args[0].value)
    standardized = _standardized(reader, terms, slots, model)
    if standardized is not None:
        return standardized
    if any(not isinstance(term, list) for term in terms):
        raise Doubt("it is called with a list that is not spelled out: %s" % shortened(reader.names.code(call.args[0].value)))
    batch = _literal(reader, [value for term in terms for value in term], slots)
    places = [(INPUTS, TARGETS, WEIGHTS, PHASE).index(slot.kind) for slot in slots]
    if places != sorted(places) and not simple(reader, batch):
        raise Doubt("what it is called with would be computed in another order")
    return batch


def _phase(reader, node):
    value = literal(reader.peek(node))
    is_odd = isinstance(node, (cst.List, cst.Tuple)) or value is not None and value not in (0, 1)
    if is_odd or isinstance(node, cst.Call) and dotted(node.func).endswith("learning_phase"):
        raise Doubt("the learning phase is neither 0 nor 1: %s" % shortened(reader.names.code(node)))
    return node


# -- x + y + sample_weight, as model._standardize_user_data gives them


def _standardized(reader, terms, slots, model):
    names = reader.names
    lists = [term for term in terms if not isinstance(term, list)]
    bindings = [names.reaching(term) if isinstance(term, cst.Name) else None for term in lists]
    if not bindings or any(binding is None or binding.unpacked is None for binding in bindings):
        return None
    source = bindings[0].unpacked[0]
    is_call = isinstance(source, cst.Call) and isinstance(source.func, cst.Attribute)
    if not is_call or source.func.attr.value != "_standardize_user_data":
        return None
    if not reader.is_same(source.func.value, model):
        raise Doubt("the data is not certainly prepared for the same model")
    places = [binding.unpacked[1] for binding in bindings]
    kinds = [slot.kind for slot in slots if slot.kind != PHASE]
    if any(binding.unpacked[0] is not source for binding in bindings) or any(
        s.index is not None for s in slots if s.kind != PHASE
    ):
        raise Doubt("it is called with lists of several origins")
    if [(INPUTS, TARGETS, WEIGHTS)[place] if place < 3 else None for place in places] != kinds:
        raise Doubt("what it is fed and what it is called with are in different orders")
    given = arguments(source, STANDARDIZED)
    if given is None or set(given) - set(STANDARDIZED):
        raise Doubt("_standardize_user_data is called with unusual arguments")
    if WEIGHTS not in kinds and ("sample_weight" in given or "class_weight" in given):
        raise Doubt("sample weights are prepared but not fed")
    for term, binding in zip(lists, bindings):
        reader.consumed.add(term)
        reader.passed.append(binding)
    return Batch(phase=_phase_of_rest(reader, terms, slots), **_without_none(given))


def _without_none(given):
    found = {name: None if is_none(given.get(name)) else given[name] for name in STANDARDIZED}
    if found["x"] is None:
        raise Doubt("_standardize_user_data is called without inputs")
    return found


def _phase_of_rest(reader, terms, slots):
    rest = [value for term in terms if isinstance(term, list) for value in term]
    fed = [slot for slot in slots if slot.kind == PHASE]
    if len(rest) != len(fed) or rest and (slots[-1].kind != PHASE or not isinstance(terms[-1], list)):
        raise Doubt("what it is fed and what it is called with do not match")
    return _phase(reader, rest[0]) if rest else None


# -- [x, y, sample_weight, 0]


def _literal(reader, values, slots):
    counts = _counts(reader, values, slots)
    found = {INPUTS: {}, TARGETS: {}, WEIGHTS: {}, PHASE: {}}
    values = list(values)
    for slot in slots:
        taken = counts[slot.kind] if slot.index is None else 1
        for place in range(taken):
            key = place if slot.index is None else slot.index
            if key in found[slot.kind]:
                raise Doubt("it is fed %s %d twice" % (slot.kind, key))
            found[slot.kind][key] = values.pop(0)
    for kind in (INPUTS, TARGETS, WEIGHTS):
        if sorted(found[kind]) != list(range(len(found[kind]))):
            raise Doubt("it is fed some of the %s only" % kind)
    x, y, weights = ([found[kind][key] for key in sorted(found[kind])] for kind in (INPUTS, TARGETS, WEIGHTS))
    if not x:
        raise Doubt("it is fed no inputs")
    if not _unit(reader, weights):
        if len(weights) not in (0, len(y)):
            raise Doubt("there are not as many sample weights as targets")
    else:
        weights = []
    phase = found[PHASE].get(0)
    return Batch(
        _joined(reader, x), _joined(reader, y), _joined(reader, weights), None, None if phase is None else _phase(reader, phase)
    )


def _counts(reader, values, slots):
    """How many arrays each kind has that is fed as a whole: there is one weight per target, if there are any."""
    singles = [slot for slot in slots if slot.index is not None]
    wholes = [slot.kind for slot in slots if slot.index is None]
    if len(set(wholes)) != len(wholes):
        raise Doubt("it is fed the same twice")
    rest = len(values) - len(singles)
    if not wholes:
        if rest:
            raise Doubt("it is called with %d arrays and fed %d" % (len(values), len(singles)))
        return {}
    if len(wholes) == 1 and rest > 0:
        return {wholes[0]: rest}
    if wholes == [INPUTS, TARGETS] and rest == 2:
        return {INPUTS: 1, TARGETS: 1}
    ordered = [INPUTS, TARGETS] + ([WEIGHTS] if WEIGHTS in wholes else [])
    placed = [slot.kind for slot in slots if slot.index is None]
    if set(wholes) == set(ordered) and len(singles) == sum(slot.kind == PHASE for slot in slots):
        return _told_apart(reader, _array_values(values, slots), placed)
    raise Doubt("which of the arrays are inputs, targets and sample weights cannot be told")


def _array_values(values, slots):
    kinds = [slot.kind for slot in slots]
    if PHASE not in kinds:
        return list(values)
    if kinds[-1] == PHASE:
        return list(values[:-1])
    if kinds[0] == PHASE:
        return list(values[1:])
    raise Doubt("the learning phase is fed between arrays")


def _told_apart(reader, arrays, order):
    """Counts of each kind by how the arrays are called, if that leaves one possibility."""
    weightlike = [_is_weight(reader, value) for value in arrays]
    targetlike = [not weight and _is_target(reader, value) for weight, value in zip(weightlike, arrays)]
    kinds = [WEIGHTS if weight else TARGETS if target else INPUTS for weight, target in zip(weightlike, targetlike)]
    counts = {kind: kinds.count(kind) for kind in order}
    wanted = [kind for kind in order for _ in range(counts[kind])]
    if len(arrays) == 2:
        counts = dict({kind: 0 for kind in order}, **{INPUTS: 1, TARGETS: 1})
        if WEIGHTS not in order or not any(weightlike):
            return counts
    elif len(arrays) == 3 == len(order) and kinds.count(WEIGHTS) == 1 and kinds[order.index(WEIGHTS)] == WEIGHTS:
        return {kind: 1 for kind in order}
    elif kinds == wanted and counts[INPUTS] and counts[TARGETS] and counts.get(WEIGHTS, 0) in (0, counts[TARGETS]):
        return counts
    raise Doubt("which of the %d arrays are inputs, targets and sample weights cannot be told" % len(arrays))


def _is_weight(reader, value):
    return _unit(reader, [value]) or WEIGHT.search(_called(reader.names, value)) is not None


def _is_target(reader, value):
    return TARGET.search(_called(reader.names, value)) is not None


def _called(names, node):
    """The name that tells best what an expression holds: of ``to_categorical(y_train[:3])`` that is ``y_train``."""
    if isinstance(node, cst.Attribute):
        return node.attr.value
    if isinstance(node, cst.Subscript):
        key = literal(node.slice[0].slice.value) if isinstance(node.slice[0].slice, cst.Index) else None
        return key if isinstance(key, str) else _called(names, node.value)
    if isinstance(node, cst.BinaryOperation):
        return _called(names, node.left)
    if isinstance(node, (cst.List, cst.Tuple)) and node.elements:
        return _called(names, node.elements[0].value)
    if isinstance(node, cst.Call):
        path = names.qualified(node.func)
        name = path.rpartition(".")[2]
        is_method = isinstance(node.func, cst.Attribute) and path.partition(".")[0] not in MODULES
        if is_method and not name.startswith("ones"):
            return _called(names, node.func.value)
        return _called(names, node.args[0].value) if node.args and not name.startswith("ones") else name
    return node.value if isinstance(node, cst.Name) else ""


def _unit(reader, weights):
    """Whether weights are spelled out and 1, which is what a loss without weights has."""

    def unit(node):
        node = reader.peek(node)
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
            return unit(node.left)
        is_list = isinstance(node, (cst.List, cst.Tuple)) and node.elements
        return bool(is_list) and all(literal(element.value) in (1, True) for element in node.elements)

    return bool(weights) and all(unit(node) for node in weights)


def _joined(reader, values):
    """One array as it is, several as a list; what is spelled out as a list is an array of a batch."""
    values = [_array(reader, value) for value in values]
    if len(values) < 2:
        return values[0] if values else None
    return cst.List([cst.Element(value) for value in values])


def _array(reader, node):
    found = reader.peek(node)
    if isinstance(found, (cst.List, cst.Tuple, cst.ListComp)) or (
        isinstance(found, cst.BinaryOperation) and isinstance(reader.peek(found.left), (cst.List, cst.Tuple))
    ):
        return cst.Call(cst.Attribute(cst.Name(NUMPY), cst.Name("array")), [cst.Arg(node)])
    return node


def simple(reader, batch):
    """Whether the parts of a batch may be evaluated at another time: nothing is called but NumPy and ``len``."""
    pure = [True]

    class Visitor(cst.CSTVisitor):
        def visit_Call(self, node):
            path = reader.names.qualified(node.func)
            is_numpy = path.startswith(("numpy.", NUMPY)) and not path.startswith("numpy.random")
            pure[0] = pure[0] and (path == "len" or is_numpy)

        def visit_Yield(self, node):
            pure[0] = False

        visit_Await = visit_NamedExpr = visit_Yield

    for part in batch:
        if part is not None:
            part.visit(Visitor())
    return pure[0]
