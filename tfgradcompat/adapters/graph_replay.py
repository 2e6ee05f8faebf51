"""Where the outputs of layers are in a graph.

Those of a functional model's own layers it knows itself. For layers inside nested models and of subclassed models, Keras keeps
no tensors. There the call that made the outer output is made once more, with hooks that see the layers, and the operations of
the two are matched one by one: what Keras built is the same twice. The second call's operations stay unused.
"""
from ..errors import InvalidParamsError
from ..state import preserved_attributes, preserved_random_state
from . import taps

# What calling a layer notes down.
NOTED = (
    "_inbound_nodes",
    "_outbound_nodes",
    "inbound_nodes",
    "outbound_nodes",
    "_losses",
    "_updates",
    "_metrics",
    "_metrics_tensors",
    "_callable_losses",
    "_eager_losses",
    "_per_input_losses",
    "_per_input_updates",
    "_output_mask_cache",
    "_output_tensor_cache",
    "_output_shape_cache",
)
# What spares a model a second call on the same tensors.
CACHES = ("_output_mask_cache", "_output_tensor_cache")


def tensors(adapter, core, tap):
    """The tensors a tap stands for in the graph of a model: a list of flat outputs for each call, in call order."""
    if tap.is_input:
        inputs = adapter.inputs(core)
        if tap.index >= len(inputs):
            raise InvalidParamsError("there is no input number %d, the model has %d" % (tap.index, len(inputs)))
        return [[inputs[tap.index]]]
    if tap.layer is core:
        return [taps.flat(core.outputs)]
    cache = adapter.located.setdefault(core, dict)
    key = tap, tuple(map(id, core.outputs))
    if key not in cache:
        cache[key] = _direct(adapter, core, tap) or _replayed(adapter, core, tap)
    return cache[key]


def _direct(adapter, core, tap):
    """The tensors of the model's own nodes; none if the layer is called elsewhere."""
    own = taps.functional_of(core)
    if own is None or not (tap.container is own or tap.container is None):
        return []
    inner = [container for container in taps.containers(adapter.layers(core)) if container is not own]
    if tap.container is None and any(layer is tap.layer for container in inner for layer, _, _ in taps.calls_of(container)):
        return []
    return [
        outputs if tap.index is None else [outputs[tap.index]]
        for layer, ordinal, outputs in taps.calls_of(own)
        if layer is tap.layer and (tap.container is None or ordinal == tap.ordinal)
    ]


def _replayed(adapter, core, tap):
    from .graph import building

    layers = adapter.layers(core)
    recorder = taps.Recorder([tap], taps.flat, lambda layer, outputs: outputs, taps.functional_of(core))
    locals_ = [layer._thread_local for layer in layers if hasattr(layer, "_thread_local")]
    twins = {}
    # In the name scope of the package, and past what calling a layer leaves in it.
    kept = preserved_attributes(layers + locals_, NOTED)
    with building(taps.flat(core.outputs)[0].graph), kept, preserved_random_state():
        for layer in layers:
            for name in CACHES:
                vars(layer).get(name, {}).clear()
        with taps.recording(layers, recorder):
            for original, again in _calls(adapter, core):
                for one, other in zip(taps.flat(original), taps.flat(again())):
                    _match(one, other, twins)
    return [[_twin(tap, tensor, twins) for tensor in outputs] for outputs in recorder.outputs(tap)]


def _calls(adapter, core):
    """(outputs, function that makes them once more) of every call in the model that may have calls of layers in it."""
    own = taps.functional_of(core)
    if own is None:
        inputs = list(core.inputs)
        yield core.outputs, lambda: adapter.call_again(core, inputs[0] if len(inputs) == 1 else inputs)
        return
    for layer, node in taps.nodes_of(own):
        yield node.output_tensors, lambda layer=layer, node=node: _call_node(layer, node)


def _call_node(layer, node):
    if hasattr(node, "map_arguments"):  # 2.3 and later
        arguments, options = node.call_args, dict(node.call_kwargs)
        return layer(*arguments, **options)
    inputs = node.input_tensors
    if isinstance(inputs, (list, tuple)) and len(inputs) == 1:
        inputs = inputs[0]
    return layer(inputs, **dict(node.arguments or {}))


def _match(original, again, twins):
    """Note which operation of the first call corresponds to each of the second."""
    pairs = [(original.op, again.op)]
    while pairs:
        one, other = pairs.pop()
        if one is other or other in twins:
            continue
        if one.type != other.type:
            if one.type == "Identity":
                pairs.append((one.inputs[0].op, other))
            elif other.type == "Identity":
                pairs.append((one, other.inputs[0].op))
            continue
        twins[other] = one
        pairs += [(left.op, right.op) for left, right in zip(one.inputs, other.inputs)]


def _twin(tap, tensor, twins):
    if tensor.op not in twins:
        raise InvalidParamsError("the output of %s could not be found in the graph of the model; a loop may hide it" % tap.name)
    return twins[tensor.op].outputs[tensor.value_index]
