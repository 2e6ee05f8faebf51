"""Layer outputs and inputs as one pass computes them.

A ``Tap`` names what is wanted, a ``Recorder`` sees it. While a pass runs, every layer of the model has a ``call`` of its own
that tells the recorder of this thread; passes of other threads, and training, do not notice it. Which output of a shared layer
belongs to which of its nodes follows from the order in which a functional model calls its layers.
"""
import contextlib
import functools
import inspect
import sys
import threading
import types
import weakref

from ..errors import InvalidParamsError
from ..selectors import Candidate

_lock = threading.RLock()
_hooked = {}  # id(layer) -> _Hook, while a pass runs
_recorders = threading.local()


class Tap(object):
    """What a pass is asked for beside weights. Equal taps of one model mean the same; none keeps the model.

    Arguments:
        name: for messages and results by name.
        layer: whose output it is; ``None`` for an input of the model.
        container: the functional model among whose nodes the output is; ``None``: of all calls of the layer.
        ordinal: which of the calls of ``layer`` that ``container`` makes in one pass.
        index: which of the flat outputs (``None``: all), or of the flat inputs.
    """

    def __init__(self, name, layer=None, container=None, ordinal=None, index=None):
        self.name, self.ordinal, self.index = name, ordinal, index
        self._layer, self._container = _reference(layer), _reference(container)
        self._key = (id(layer), id(container), ordinal, index)

    @property
    def layer(self):
        return self._layer()

    @property
    def container(self):
        return self._container()

    @property
    def is_input(self):
        return self._layer is _nothing

    def __eq__(self, other):
        # The id of something that is gone may be another's by now.
        return (
            isinstance(other, Tap)
            and self._key == other._key
            and self.layer is other.layer
            and (self.is_input or self.layer is not None)
        )

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash(self._key)

    def __repr__(self):
        return "<%s>" % self.name

    def arranged(self, calls):
        """One value per flat output per call -> what the caller gets: lists only where there are several."""
        calls = [_single(outputs) for outputs in calls]
        return _single(calls)


def _nothing():
    return None


def _reference(item):
    return _nothing if item is None else weakref.ref(item)


def _single(items):
    return items[0] if len(items) == 1 else list(items)


class Recorder(object):
    """The outputs of the layers that taps want, in the order of calls.

    Arguments:
        taps: the wanted ``Tap`` objects.
        flatten: function from a layer's output to a list of tensors.
        see: function from a layer and its output to the output that the pass goes on with.
        root: the functional model that the pass runs, which some releases do without its ``call``; ``None`` for another model.
        convert: function from a layer and its ``call`` to what to call: AutoGraph, where Keras would use it.
    """

    def __init__(self, taps, flatten, see, root=None, convert=None):
        self._flatten, self._see = flatten, see
        self._convert = convert or (lambda layer, call: call)
        self._wanted = {}
        for tap in taps:
            if not tap.is_input:
                self._wanted.setdefault(id(tap.layer), []).append(tap)
        self._frames = [(None, {}, root)]  # of each call that is running: the layer, calls so far per layer in it, container
        self._calls = []  # (layer, container, ordinal, flat outputs)

    def call(self, layer, call, arguments, options, joint):
        """What a layer returns. ``joint``: it returns (output, mask)."""
        running, counts, container = self._frames[-1]
        if running is layer:  # one of the two methods called the other
            return call(*arguments, **options)
        ordinal = counts.get(id(layer), 0)
        counts[id(layer)] = ordinal + 1
        self._frames.append((layer, {}, layer))
        place = len(self._calls)
        if id(layer) in self._wanted:
            self._calls.append(None)  # calls are in the order of their beginning
        try:
            returned = self._convert(layer, call)(*arguments, **options)
        finally:
            self._frames.pop()
        if id(layer) not in self._wanted:
            return returned
        outputs = self._see(layer, returned[0] if joint else returned)
        self._calls[place] = (layer, container, ordinal, self._flatten(outputs))
        return (outputs,) + tuple(returned[1:]) if joint else outputs

    def outputs(self, tap):
        """The flat outputs of each call that ``tap`` is about, in call order."""
        found = []
        for layer, container, ordinal, outputs in self._calls:
            if layer is not tap.layer:
                continue
            if tap.container is not None and (container is not tap.container or ordinal != tap.ordinal):
                continue
            found.append(outputs if tap.index is None else [outputs[tap.index]])
        if not found:
            raise InvalidParamsError("%s is not called when the model runs, so it has no output there" % tap.name)
        return found


class _Hook(object):
    """Methods in the instance dict of a layer, put there by the first and removed by the last of several users."""

    # Models of tf.keras 1.11-1.13 use the second for models in them.
    NAMES = ("call", "_call_and_compute_mask", "compute_mask")

    def __init__(self, layer):
        self.users = 0
        self._layer = layer
        self._own = {name: vars(layer)[name] for name in self.NAMES if name in vars(layer)}
        hooks = {}
        for name in self.NAMES:
            if hasattr(layer, name):
                hooked = self._unrecorded if name == "compute_mask" else self._recorded
                original = getattr(layer, name)
                hooks[name] = decorated(original, hooked(original, name != "call"))
        vars(layer).update(hooks)  # past Keras's __setattr__, which would track them

    def _recorded(self, original, joint):
        layer = self._layer

        def call(*arguments, **options):
            recorder = _recorder()
            if recorder is None:
                return original(*arguments, **options)
            return recorder.call(layer, original, arguments, options, joint)

        return call

    def _unrecorded(self, original, joint):
        # The mask of a model within another is had by running its layers once more.
        def compute_mask(*arguments, **options):
            if _recorder() is None:
                return original(*arguments, **options)
            with _recording(None):
                return original(*arguments, **options)

        return compute_mask

    def remove(self):
        for name in self.NAMES:
            vars(self._layer).pop(name, None)
        vars(self._layer).update(self._own)


def _recorder():
    """What records in this thread now."""
    stack = getattr(_recorders, "stack", None)
    return stack[-1] if stack else None


@contextlib.contextmanager
def _recording(recorder):
    if not hasattr(_recorders, "stack"):
        _recorders.stack = []
    _recorders.stack.append(recorder)
    try:
        yield
    finally:
        _recorders.stack.pop()


@contextlib.contextmanager
def recording(layers, recorder):
    """Let ``recorder`` see every call of ``layers`` that this thread makes."""
    hooked = []
    try:
        with _lock:
            for layer in layers:
                if callable(getattr(layer, "call", None)):
                    if id(layer) not in _hooked:
                        _hooked[id(layer)] = _Hook(layer)
                    _hooked[id(layer)].users += 1
                    hooked.append(layer)
        with _recording(recorder):
            yield recorder
    finally:
        with _lock:
            for layer in hooked:
                hook = _hooked[id(layer)]
                hook.users -= 1
                if not hook.users:
                    _hooked.pop(id(layer)).remove()


def decorated(original, wrapper):
    """``wrapper`` with the signature and the name of ``original``, for all the ways in which Keras reads them."""
    wrapper = functools.wraps(original)(wrapper)
    wrapper.__signature__ = inspect.signature(original)
    decorators = sys.modules.get("tensorflow.python.util.tf_decorator")
    if decorators is not None:  # what TensorFlow's own inspection, and so Keras 2's, goes by
        wrapper = decorators.make_decorator(original, wrapper)
        if inspect.ismethod(original):
            wrapper.__self__ = original.__self__  # which 1.6 looks for, since it takes the wrapper for what it wraps
        wrapper.autograph_info__ = {}  # the marks of what AutoGraph has made, which it leaves alone: 2.2 and later,
        setattr(wrapper, "__ag_compiled", True)  # and before
    return wrapper


class Of(object):
    """What ``gradients_of`` differentiates, as a key and as a function of what the model computed.

    Arguments:
        what: ``None``, a tuple of indices, a ``Tap``, or a callable, of which only a weak reference is kept.
    """

    def __init__(self, what):
        self._callable = _weak(what) if callable(what) else None
        self.what = None if self._callable else what

    @property
    def alive(self):
        return self._callable is None or self._callable() is not None

    def __eq__(self, other):
        if not isinstance(other, Of) or (self._callable is None) != (other._callable is None):
            return False
        if self._callable is None:
            return self.what == other.what
        return self.alive and self._callable() == other._callable()

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        # Slices have no hash, and bound methods another id each time; such keys are few.
        return hash(self.what) if isinstance(self.what, Tap) else 0

    def tensors(self, outputs, seen):
        """The tensors to sum: of the model's outputs, or of what ``seen`` gives for a tap."""
        if isinstance(self.what, Tap):
            return [tensor for call in seen(self.what) for tensor in call]
        if self._callable is not None:
            return flat(self._callable()(outputs))
        outputs = flat(outputs)
        if self.what is None:
            return outputs
        if len(outputs) > 1:
            raise ValueError(
                "an index says which entry of the model's output to differentiate, but this model has %d outputs; pass one of "
                "model.outputs, a layer, or a callable of the outputs" % len(outputs)
            )
        rank = len(outputs[0].shape)
        if len(self.what) >= rank:
            raise ValueError(
                "of=%s indexes %d dimensions beside the batch, but the output has shape %s"
                % (list(self.what), len(self.what), outputs[0].shape)
            )
        return [outputs[0][(slice(None),) + self.what]]


def _weak(function):
    if not inspect.ismethod(function):
        return weakref.ref(function)
    # Not a WeakMethod: one that goes together with its object, in a cycle, complains.
    owner, plain = weakref.ref(function.__self__), function.__func__
    return lambda: None if owner() is None else types.MethodType(plain, owner())


def resolve(layers, inputs, leaf):
    """The ``Tap`` that a symbolic tensor or a layer of a model stands for; ``None`` if it is none of the model's.

    Arguments:
        layers: the model, which is first, and all layers in it.
        inputs: the model's symbolic inputs.
    """
    for index, tensor in enumerate(inputs):
        if tensor is leaf:
            _require_real(leaf, containers(layers))
            return Tap(input_name(leaf, index), index=index)
    for container in containers(layers):
        for layer, ordinal, tensors in calls_of(container):
            for index, tensor in enumerate(tensors):
                if tensor is leaf:
                    several = len(tensors) > 1, any(other for other in calls_of(container) if other[0] is layer and other[1])
                    return Tap(_output_name(layers, container, layer, ordinal, index, several), layer, container, ordinal, index)
    for container in containers(layers):
        for index, tensor in enumerate(container.inputs):
            if tensor is leaf:  # of a nested model: what it is called on
                given = [
                    flat(arguments)[index]
                    for outer in containers(layers)
                    for layer, arguments in _arguments_of(outer)
                    if functional_of(layer) is container
                ]
                return resolve(layers, inputs, given[0]) if len(given) == 1 else None
    for layer in layers:
        if layer is leaf:
            return Tap(layer.name, layer)
    return None


def functional_of(layer):
    """The functional model that a layer is or, as some ``Sequential`` do, runs; ``None`` for any other layer."""
    for name in ("_functional", "model"):  # of Keras 3, of old releases
        inner = vars(layer).get(name)
        if inner is not None and any(cls.__name__ == "Sequential" for cls in type(layer).__mro__):
            return inner
    return layer if _by_depth(layer) else None


def containers(layers):
    """The functional models among layers, each once."""
    found = []
    for layer in layers:
        container = functional_of(layer)
        if container is not None and not any(container is one for one in found):
            found.append(container)
    return found


def _by_depth(container):
    return getattr(container, "_nodes_by_depth", None) or getattr(container, "nodes_by_depth", None)  # the latter: Keras 2.0


def _require_real(tensor, models):
    """Refuse an input that cannot have a gradient, and say which layer's output can."""
    consumers = [
        layer for container in models for layer, arguments in _arguments_of(container) if any(one is tensor for one in flat(arguments))
    ]
    embeds = consumers and all(any(cls.__name__ == "Embedding" for cls in type(layer).__mro__) for layer in consumers)
    dtype = getattr(tensor.dtype, "name", tensor.dtype)
    if embeds or not any(dtype.startswith(real) for real in ("float", "bfloat", "complex")):
        raise InvalidParamsError(
            "the input %r holds %s, by which nothing can be differentiated; take the output of the layer that it goes into "
            "instead: %s" % (
                input_name(tensor, 0),
                "indices" if embeds else dtype,
                ", ".join("model.get_layer(%r).output" % layer.name for layer in consumers) or "none",
            )
        )


def input_name(tensor, index):
    history = getattr(tensor, "_keras_history", None)
    return history[0].name if history else "input_%d" % index


def _output_name(layers, container, layer, ordinal, index, several):
    several_outputs, several_calls = several
    name = _prefix(layers, container) + layer.name
    return name + (":%d" % ordinal if several_calls else "") + ("/output_%d" % index if several_outputs else "")


def _prefix(layers, container):
    """What the names of layers in a nested functional model begin with."""
    owner = next(layer for layer in layers if functional_of(layer) is container)
    return "" if owner is layers[0] else owner.name + "/"


def output_candidates(model, layers):
    """The ``Candidate`` objects for layer outputs: tensors where the model has them, else layers."""
    found, seen = [], {id(layers[0])}
    own = list(getattr(model, "layers", ()))
    for container in containers(layers):
        outputs = {}
        for layer, _, tensors in calls_of(container):
            outputs.setdefault(id(layer), (layer, []))[1].extend(tensors)
        prefix = _prefix(layers, container)
        if not prefix:  # in the order of model.layers, so that an index means the same
            for layer in own:
                tensors = outputs.pop(id(layer), (None, None))[1]
                is_input = tensors is None
                item = _single(tensors or [one for one in container.inputs if one._keras_history[0] is layer] or [layer])
                found.append(Candidate(layer.name, item, layer, starred=not is_input))
                seen.add(id(layer))
        for layer, tensors in outputs.values():
            found.append(Candidate(prefix + layer.name, _single(tensors), layer, indexed=False, starred=False))
            seen.add(id(layer))
    seen.update(id(container) for container in containers(layers))
    for layer in own + list(layers[1:]):
        if id(layer) not in seen:
            is_own = any(layer is one for one in own)
            found.append(Candidate(layer.name, layer, layer, indexed=is_own, starred=is_own))
            seen.add(id(layer))
    return found


def nodes_of(container):
    """(layer, node) of each call a functional model makes, in order; input layers are left out."""
    by_depth = _by_depth(container)
    for depth in sorted(by_depth, reverse=True):
        for node in by_depth[depth]:
            layer = node.operation if hasattr(node, "operation") else node.outbound_layer
            if not _is_input(node, layer):
                yield layer, node


def _arguments_of(container):
    """(layer, input tensors) of each call a functional model makes, in order."""
    for layer, node in nodes_of(container):
        yield layer, node.input_tensors


def calls_of(container):
    """(layer, ordinal, flat output tensors) of each call a functional model makes, in order."""
    counts = {}
    for layer, node in nodes_of(container):
        ordinal = counts.get(id(layer), 0)
        counts[id(layer)] = ordinal + 1
        yield layer, ordinal, flat(node.output_tensors)


def _is_input(node, layer):
    return getattr(node, "is_input", False) or any(cls.__name__ == "InputLayer" for cls in type(layer).__mro__)


def flat(nest):
    """The tensors in a layer's output or input."""
    if isinstance(nest, dict):
        return [leaf for key in sorted(nest) for leaf in flat(nest[key])]
    if isinstance(nest, (list, tuple)):
        return [leaf for item in nest for leaf in flat(item)]
    return [nest]
