"""Calls of see-rnn and keract, whose gradients the facade gives on every version."""
import libcst as cst

from .calls import ADVICE, GET, Leftover, Plan, call_of, keyword
from .idioms import Doubt, Reader, arguments, is_none, literal, shape

SEE_RNN = ("model", "_id", "input_data", "labels", "sample_weight", "learning_phase", "layer", "mode", "params", "as_dict")
KERACT_WEIGHTS = ("model", "x", "y")
KERACT_ACTIVATIONS = ("model", "x", "y", "layer_names", "output_format", "nested")
DICT = "tfgradcompat.get_gradients(model, x, y, params=..., as_dict=True)"


def find(names):
    """Yield (plan or None, leftover or None, nodes) for each call of one of these libraries that is about gradients."""
    for node in names.nodes:
        if not isinstance(node, cst.Call):
            continue
        package, _, rest = names.qualified(node.func).partition(".")
        name = rest.rpartition(".")[2]
        translate = TRANSLATIONS.get((package, name))
        if translate is None:
            continue
        try:
            call, notes = translate(names, node)
            yield Plan(names.line(node), {node: call}, set(), {GET}, notes), None, [node]
        except Doubt as doubt:
            reason = "%s of %s: %s" % (name, package.replace("_", "-"), doubt.reason)
            yield None, Leftover(names.line(node), reason, doubt.advice or ADVICE), [node]


def _given(node, positional, required):
    given = arguments(node, positional)
    if given is None or set(given) - set(positional) or set(required) - set(given):
        raise Doubt("its arguments cannot be told")
    return {name: value for name, value in given.items() if name in required or not is_none(value)}


# -- see-rnn


def _see_rnn(names, node):
    given = _given(node, SEE_RNN, ("model", "_id", "input_data", "labels"))
    options, notes = _see_rnn_params(names, given), []
    options += [keyword(name, given[name]) for name in ("sample_weight", "learning_phase", "as_dict") if name in given]
    return call_of(GET, [given["model"], given["input_data"], given["labels"]], options), notes


def _see_rnn_params(names, given):
    """The keyword for params, if one is needed. The library gives a single gradient bare, whether or not it is in a list."""
    reader = Reader(names)
    if "layer" in given:
        raise Doubt("what layer= stands for cannot be told", ADVICE.replace("params=...", "params=layer.output"))
    if "params" in given:
        found = reader.peek(given["params"])
        many = isinstance(found, cst.List) and len(found.elements) > 1
        if not (many or shape(found) == "single"):
            raise Doubt("whether it gives one gradient or a list of them cannot be told")
        return [keyword("params", given["params"])]
    place = literal(reader.peek(given["_id"]))
    mode = literal(given["mode"]) if "mode" in given else "outputs"
    if place == "*" and mode == "weights":
        return []
    if isinstance(place, int) and not isinstance(place, bool) and mode == "outputs" and _is_pure(given["model"]):
        layer = cst.Subscript(cst.Attribute(given["model"], cst.Name("layers")), [cst.SubscriptElement(cst.Index(given["_id"]))])
        return [keyword("params", cst.Attribute(layer, cst.Name("output")))]
    raise Doubt(
        "it picks the first layer whose name contains the text, or gives one gradient or a list",
        ADVICE.replace("params=...", "params=tfgradcompat.select(model, name, kind)"),
    )


# -- keract


def _keract_weights(names, node):
    given = _given(node, KERACT_WEIGHTS, ("model", "x", "y"))
    options = [keyword("as_dict", cst.Name("True"))]
    notes = ["keract on eager TensorFlow summed over the batch; these are the gradients of the training loss"]
    return call_of(GET, [given["model"], given["x"], given["y"]], options), notes


def _keract_activations(names, node):
    given = _given(node.with_changes(args=[_renamed(arg) for arg in node.args]), KERACT_ACTIVATIONS, ("model", "x", "y"))
    if literal(given.get("output_format", cst.SimpleString("'simple'"))) != "simple":
        raise Doubt("its keys are to be other names than the layers'", DICT)
    if "nested" in given and literal(given["nested"]) is not False:
        raise Doubt("layers within layers are to be looked for", DICT)
    options = [keyword("params", _layers(names, given)), keyword("as_dict", cst.Name("True"))]
    return call_of(GET, [given["model"], given["x"], given["y"]], options), ["the keys are the layers' names"]


def _renamed(arg):
    """Older releases of keract call it ``layer_name``."""
    is_old = arg.keyword is not None and arg.keyword.value == "layer_name"
    return arg.with_changes(keyword=cst.Name("layer_names")) if is_old else arg


def _layers(names, given):
    if "layer_names" not in given:
        if not _is_pure(given["model"]):
            raise Doubt("the model is the result of a call", DICT)
        code = "[layer.output for layer in %s.layers]" % names.code(given["model"]).strip()
        return cst.parse_expression(code)
    found = Reader(names).peek(given["layer_names"])
    elements = [element.value for element in found.elements] if isinstance(found, (cst.List, cst.Tuple)) else [found]
    if not elements or not all(isinstance(literal(element), str) for element in elements):
        raise Doubt("which layers are meant cannot be told", DICT)
    return given["layer_names"] if isinstance(found, (cst.List, cst.Tuple)) else cst.List([cst.Element(given["layer_names"])])


def _is_pure(node):
    return isinstance(node, cst.Name) or isinstance(node, cst.Attribute) and _is_pure(node.value)


TRANSLATIONS = {
    ("see_rnn", "get_gradients"): _see_rnn,
    ("keract", "get_gradients_of_trainable_weights"): _keract_weights,
    ("keract", "get_gradients_of_activations"): _keract_activations,
}
