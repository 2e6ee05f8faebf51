"""What the adapters of the graph eras share: the training loss is a tensor, and a session run gives its gradients.

Everything is built in the model's own graph, once, below the name scope ``tfgradcompat`` so that the names of what the
user builds later stay what they are. ``K.function`` of the model's flavour evaluates it: it picks the session, initialises
variables and feeds sparse inputs as training does. Without ``updates`` it moves no state.
"""
import contextlib
import inspect
import threading
import weakref

import numpy as np

from ..errors import InvalidParamsError, UnsupportedModelError
from ..weakcache import WeakCache
from . import datasets, graph_replay as replay, optimizers, taps
from .base import Adapter, label, unique

SCOPE = "tfgradcompat"
FRAMEWORKS = ("tensorflow", "tensorflow_core", "keras", "tf_keras")


class GraphAdapter(Adapter):
    """Gradients of a model that a session runs.

    Subclasses say how data become feeds (``standardize``) and which tensor is the loss (``loss_graph``).
    """

    def __init__(self, environment):
        super(GraphAdapter, self).__init__(environment)
        import tensorflow as tf  # the model has it loaded already

        self.tf = getattr(getattr(tf, "compat", None), "v1", tf)  # compat.v1: TensorFlow 1.13+
        self.backend = environment.module("backend")
        self.lock = threading.RLock()
        self._zeros = WeakCache()
        self._targets = WeakCache()
        self.located = WeakCache()
        self._value_functions = WeakCache()
        self._datasets = datasets.SessionDatasets(self.tf)

    # -- what subclasses answer --------------------------------------------------------------------------------------

    def core(self, model):
        """The model that holds the training attributes; ``model`` itself but for some old ``Sequential``."""
        return model

    def standardize(self, core, batch):
        """Return (inputs, targets, weights): lists of feeds as ``train_on_batch`` makes them, ``None`` for no weight."""
        inputs, targets, weights = core._standardize_user_data(
            batch.x, batch.y, sample_weight=batch.sample_weight, class_weight=batch.class_weight
        )
        return list(inputs), list(targets or []), list(weights or [])

    def loss_graph(self, core, weights, symbolic):
        """The ``LossGraph`` that training on data with these ``weights`` minimises, built or from the cache.

        With ``symbolic`` it must be able to take weights, given now or not, if the model can.
        """
        raise NotImplementedError

    def call_again(self, core, inputs):
        """The outputs of a subclassed model on its symbolic inputs, computed once more."""
        return core(inputs)

    def compared_outputs(self, core):
        """The outputs that losses compare with targets and that they may look behind."""
        return []

    def total_of(self, core, loss, replace):
        """The total of a ``LossGraph`` anew, from the outputs that ``replace`` gives for the model's."""
        raise NotImplementedError

    # -- protocol ----------------------------------------------------------------------------------------------------

    def build(self, model, batch):
        core = self.core(model)
        if getattr(core, "optimizer", None) is None:
            if not getattr(core, "inputs", None):
                self.standardize_inputs(core, batch.x)
        # Set at the end of compile, which waits for data if the model has no inputs yet.
        elif not hasattr(core, "_collected_trainable_weights"):
            self.standardize(core, batch)

    def layers(self, model):
        return layers_of(self.core(model))

    def inputs(self, model):
        return list(getattr(self.core(model), "inputs", None) or ())

    def gradients(self, model, params, batch, request):
        core = self.core(model)
        self._require_no_strategy(core)
        with self._session(core):
            inputs, targets, weights = self.standardize(core, batch)
            with self.lock:
                loss = self.loss_graph(core, weights, symbolic=not request.evaluate)
                self._require_phase(core, loss, request.learning_phase)
                layout, sources = self.sources(core, params)
                gradients = self.training_gradients(core, loss, sources, request)
                if not request.evaluate:
                    return loss.value, arranged(layout, gradients)
                fed = [(place, weight) for place, weight in zip(loss.weights, weights) if weight is not None]
                function = loss.function(sources, gradients, [place for place, _ in fed])
            values = iter(function(inputs + targets + [weight for _, weight in fed] + loss.phase_values(request.learning_phase)))
        value = next(values)
        return value, arranged(layout, [None if gradient is None else next(values) for gradient in gradients])

    def gradients_of(self, model, of, params, x, request):
        core = self.core(model)
        with self._session(core):
            inputs = self.standardize_inputs(core, x)
            with self.lock:
                loss = self._target_graph(core, of)
                self._require_phase(core, loss, request.learning_phase)
                layout, sources = self.sources(core, params)
                gradients = self.source_gradients(loss, None, sources, request)
                if not request.evaluate:
                    return loss.value, arranged(layout, gradients)
                function = loss.function(sources, gradients, [])
            values = iter(function(inputs + loss.phase_values(request.learning_phase)))
        value = next(values)
        return value, arranged(layout, [None if gradient is None else next(values) for gradient in gradients])

    def values(self, model, wanted, x, request):
        core = self.core(model)
        with self._session(core):
            inputs = self.standardize_inputs(core, x)
            with self.lock:
                layout, tensors = self.sources(core, wanted)
                if not request.evaluate:
                    return layout
                phases = _learning_phases(*tensors)
                functions = self._value_functions.setdefault(core, dict)
                key = tuple(map(id, tensors + phases))
                if key not in functions:
                    with building(tensors[0].graph):  # what is fed cannot be fetched
                        fetched = [self.tf.identity(tensor) if is_placeholder(tensor.op) else tensor for tensor in tensors]
                    scope = no_scope if _is_function_graph(tensors[0].graph) else building
                    with scope(tensors[0].graph):
                        functions[key] = self.backend.function(list(core._feed_inputs) + phases, fetched), tensors, phases
            values = functions[key][0](inputs + [bool(request.learning_phase)] * len(phases))
        return arranged(layout, values)

    def standardize_inputs(self, core, x):
        """The feeds of the inputs alone, as ``predict_on_batch`` makes them; the model need not be compiled."""
        training = self.environment.module("engine.training")
        if hasattr(training, "_standardize_input_data"):  # standalone Keras up to 2.1, tf.keras up to 1.5
            return list(training._standardize_input_data(x, core._feed_input_names, core._feed_input_shapes))
        inputs = core._standardize_user_data(x)[0]
        return [inputs[name] for name in core._feed_input_names] if isinstance(inputs, dict) else list(inputs)

    def sources(self, core, params):
        """What to differentiate by: (one item for each param, all tensors and weights in these).

        The item is a weight itself; for a tap, for each call, a list of its flat outputs.
        """
        layout = [replay.tensors(self, core, param) if isinstance(param, taps.Tap) else param for param in params]
        for param, item in zip(params, layout):
            for tensor in taps.flat(item):
                if isinstance(param, taps.Tap) and not isinstance(tensor, self.tf.Tensor):
                    raise InvalidParamsError("%s is no dense tensor (%s); it has no gradient" % (param.name, type(tensor).__name__))
        return layout, taps.flat(layout)

    def training_gradients(self, core, loss, sources, request):
        """``source_gradients`` of the training loss of a model."""
        gradients = self.source_gradients(loss, core.optimizer, sources, request)
        overlooked = [
            source for source in sources if any(_may_look_behind(output, source) for output in self.compared_outputs(core))
        ]
        if overlooked:
            if loss.seeing is None:
                loss.seeing = self._seeing(core, loss)
            found = self.source_gradients(loss.seeing, core.optimizer, overlooked, request)
            found = dict(zip(map(id, overlooked), found))
            gradients = [found.get(id(source), gradient) for source, gradient in zip(sources, gradients)]
        return gradients

    def _seeing(self, core, loss):
        """``loss`` as a function of the probabilities, where Keras goes for the logits behind a softmax or sigmoid.

        It looks for them through an Identity, but not through an IdentityN.
        """
        with building(loss.graph):
            total = self.total_of(core, loss, lambda output: self.tf.identity_n([output])[0])
        return LossGraph(self, total, loss.inputs, loss.targets, loss.weights, loss.trained, [])

    def source_gradients(self, loss, optimizer, sources, request):
        """The gradients of a ``LossGraph`` by sources; if wanted, zeros where one by a tensor does not exist.

        ``optimizer`` may scale the loss and, if asked to, clip. Zeros for weights are made elsewhere.
        """
        gradients = loss.gradients(optimizer, sources, request.clip)
        if not request.zeros:
            return gradients
        return [
            loss.zeros_like(source) if gradient is None and isinstance(source, self.tf.Tensor) else gradient
            for source, gradient in zip(sources, gradients)
        ]

    def _target_graph(self, core, of):
        """A ``LossGraph`` whose loss is the sum of what ``of`` gives."""
        built = self._targets.setdefault(core, dict)
        for dead in [one for one in built if not one.alive]:
            del built[dead]
        key = list(core.outputs)
        if of not in built or not built[of].built_for(key):
            outputs = list(core.outputs)
            structure = getattr(core, "_nested_outputs", None)
            if isinstance(structure, dict):
                outputs = dict(zip(sorted(structure), outputs))
            elif len(outputs) == 1:
                outputs = outputs[0]
            with building(taps.flat(core.outputs)[0].graph):
                tensors = of.tensors(outputs, lambda tap: replay.tensors(self, core, tap))
                total = self.tf.add_n([self.tf.reduce_sum(tensor) for tensor in tensors])
            built[of] = LossGraph(self, total, core._feed_inputs, [], [], [], key)
        return built[of]

    def zeros_like(self, weight, evaluate):
        shape, dtype = _shape(weight), weight.dtype.base_dtype
        if evaluate:
            return np.zeros(shape, dtype.as_numpy_dtype)

        def make():
            with building(weight.graph):
                return self.tf.zeros(shape, dtype)

        return self._zeros.setdefault(weight, make)

    def feed_dict(self, model, batch, learning_phase):
        core = self.core(model)
        self._require_no_strategy(core)
        self.build(model, batch)
        if _is_function_graph(_graph_of(core)):
            raise UnsupportedModelError(
                "%s lives in a graph that no session can run, since TensorFlow executes eagerly; call get_gradients with "
                "evaluate=True, or tf.compat.v1.disable_eager_execution() before the model is built" % label(model)
            )
        if batch.y is None and (getattr(core, "optimizer", None) is None or core._feed_targets):  # of gradients_of and get_outputs
            with self._session(core):
                pairs = list(zip(core._feed_inputs, self.standardize_inputs(core, batch.x)))
            pairs += [(place, bool(learning_phase)) for place in _learning_phases(*core.outputs)]
            return {place: _feedable(value) for place, value in pairs}
        with self._session(core):
            inputs, targets, weights = self.standardize(core, batch)
            with self.lock:
                loss = self.loss_graph(core, weights, symbolic=True)
                self._require_phase(core, loss, learning_phase)
        pairs = list(zip(loss.inputs + loss.targets, inputs + targets))
        pairs += [(place, weight) for place, weight in zip(loss.weights, weights) if weight is not None]
        pairs += [(place, bool(learning_phase)) for place in loss.phases]
        return {place: _feedable(value) for place, value in pairs}

    def dataset(self, model, dataset):
        executing_eagerly = getattr(self.tf, "executing_eagerly", None)  # 1.7+
        if executing_eagerly is not None and executing_eagerly():  # standalone Keras beside an eager TensorFlow
            return map(datasets.as_numpy, datasets.eager_elements(dataset)), datasets.eager_length(self.tf, dataset)
        graph = getattr(getattr(self.core(model), "total_loss", None), "graph", None)
        where = graph, self.backend.get_session
        return self._datasets.elements(dataset, *where), self._datasets.length(dataset, *where)

    # -- for subclasses ----------------------------------------------------------------------------------------------

    def differentiable(self, total, trained):
        """(the loss to add gradients to, function from a tensor it depends on to the one to differentiate by).

        The loss is ``total``, or an equal one where that could not be differentiated.
        """
        return total, _same_tensor

    def training_key(self, core):
        """What decides, beside the loss, which gradients training computes."""
        return [core.optimizer] + list(optimizers.options(core.optimizer)) + list(core._collected_trainable_weights)

    @contextlib.contextmanager
    def _session(self, core):
        """Run in the model's graph, whatever graph is the default, so that Keras finds the session of that graph."""
        graph = _graph_of(core)
        # Standalone Keras 2.3 on eager TensorFlow 2.0-2.2: its function runs eagerly, so it must not be called in the graph.
        if graph is None or _is_function_graph(graph):
            yield
        else:
            with graph.as_default():
                yield

    def _require_no_strategy(self, core):
        if getattr(core, "_distribution_strategy", None) is not None:
            raise UnsupportedModelError(
                "%s was compiled under a tf.distribute strategy in graph mode, where Keras itself has no train_on_batch; "
                "compile it without a strategy, or run eagerly" % label(core)
            )

    def _require_phase(self, core, loss, learning_phase):
        """A phase fixed for the whole process by ``K.set_learning_phase`` before the model was built cannot be fed."""
        if loss.phases:
            return
        with loss.graph.as_default():
            phase = getattr(self.backend, "symbolic_learning_phase", self.backend.learning_phase)()
        if isinstance(phase, (int, bool, np.integer)) and int(phase) != learning_phase and _depends_on_phase(core):
            raise UnsupportedModelError(
                "%s was built while K.set_learning_phase(%d) was in force, so its layers are fixed to that phase and "
                "learning_phase=%d cannot be had; build it without set_learning_phase" % (label(core), phase, learning_phase)
            )


class LossGraph(object):
    """The loss of one model in its graph, and what was derived from it so far.

    Holds tensors, variables and functions of these, but no model and no optimizer.

    Arguments:
        total: the tensor to minimise.
        inputs, targets, weights: placeholders to feed.
        trained: the variables that training updates.
        key: what it was built for; see ``same``.
    """

    def __init__(self, adapter, total, inputs, targets, weights, trained, key):
        self._adapter, self._tf = adapter, adapter.tf
        self.graph = total.graph
        self.total = total
        self.inputs, self.targets, self.weights = list(inputs), list(targets), list(weights)
        self.phases = _learning_phases(total)
        self.value = None  # the scalar loss, of the same run as the gradients
        self._differentiated = None  # the tensor that was differentiated so far
        self._counterpart = _same_tensor
        self.trained = list(trained)
        self._key = references(key)
        self._raw = {}  # id of a variable -> (variable, gradient); the variable is kept so that its id is not used again
        self._clipped = None
        self._functions = {}
        self._zeros = {}
        self.seeing = None  # an equal loss that does not look behind the model's outputs, once it is needed

    def built_for(self, key):
        return same(self._key, key)

    def gradients(self, optimizer, params, clip):
        """One gradient of the loss, or ``None``, for each of ``params``."""
        trained = set(map(id, self.trained)) if clip else set()
        trains = any(id(param) in trained for param in params)
        # All that is trained together: a norm may be a joint one.
        self._differentiate(
            optimizer, (self.trained if trains else []) + [param for param in params if id(param) not in trained]
        )
        if trains and self._clipped is None:
            self._clipped = self._training_gradients(optimizer)
        return [self._clipped[id(param)] if id(param) in trained else self._raw[id(param)][1] for param in params]

    def function(self, params, gradients, weights):
        """``K.function`` from the feeds to the loss and those of ``gradients`` that are not ``None``, dense."""
        connected = [(param, gradient) for param, gradient in zip(params, gradients) if gradient is not None]
        key = (id(self.value),) + tuple(id(gradient) for _, gradient in connected) + tuple(id(place) for place in weights)
        if key not in self._functions:
            with building(self.graph):
                outputs = [self.value] + [self._dense(param, gradient) for param, gradient in connected]
            inputs = self.inputs + self.targets + list(weights) + self.phases
            # The tensors are kept so that their ids are not used again.
            scope = no_scope if _is_function_graph(self.graph) else building
            with scope(self.graph):
                self._functions[key] = (self._adapter.backend.function(inputs, outputs), connected, self.value)
        return self._functions[key][0]

    def phase_values(self, learning_phase):
        """The feeds of ``phases``."""
        return [bool(learning_phase)] * len(self.phases)

    def zeros_like(self, tensor):
        """Zeros of the shape a tensor has when it is run."""
        if id(tensor) not in self._zeros:
            with building(self.graph):
                self._zeros[id(tensor)] = tensor, self._tf.zeros_like(tensor)
        return self._zeros[id(tensor)][1]

    def discard_functions(self):
        """Build all functions anew when they are next wanted."""
        self._functions.clear()

    def _differentiate(self, optimizer, variables):
        """Fill in the raw gradients; the loss is scaled and they are unscaled where the optimizer does so."""
        missing = [variable for variable in variables if id(variable) not in self._raw]
        if not missing and self.value is not None:
            return
        total, self._counterpart = self._adapter.differentiable(self.total, self.trained)
        if total is not self._differentiated:
            # All anew, so that the loss and every gradient see the same random numbers in one run.
            missing = [variable for variable, _ in self._raw.values()] + missing
            self._differentiated, self._raw, self._clipped = total, {}, None
            self.value = self._scalar(total)
        if not missing:
            return
        with building(self.graph), loss_scale_flags(optimizer):
            scales = hasattr(optimizer, "get_scaled_loss")
            sources = [self._counterpart(source) if isinstance(source, self._tf.Tensor) else source for source in missing]
            gradients = self._tf.gradients(optimizer.get_scaled_loss(total) if scales else total, sources)
            if scales:
                gradients = optimizer.get_unscaled_gradients(gradients)
        for variable, gradient in zip(missing, gradients):
            self._raw[id(variable)] = (variable, gradient)

    def _scalar(self, total):
        if total.get_shape().ndims == 0:
            return total
        with building(self.graph):  # no reduction: what is differentiated is the sum
            return self._tf.reduce_sum(total)

    def _training_gradients(self, optimizer):
        """id -> gradient as training hands it to the update rule, for each variable that is trained."""
        pairs = [self._raw[id(variable)] for variable in self.trained]
        connected = [pair for pair in pairs if pair[1] is not None]
        result = {id(variable): None for variable, _ in pairs}
        if connected:
            with building(self.graph), loss_scale_flags(optimizer):
                gradients = _as_in_training(optimizer, self._differentiated, connected)
            result.update((id(variable), gradient) for (variable, _), gradient in zip(connected, gradients))
        return result

    def _dense(self, param, gradient):
        if not hasattr(gradient, "indices"):
            return gradient
        if isinstance(param, self._tf.Tensor):
            return self._tf.convert_to_tensor(gradient)
        shape = _shape(param)
        values = self._tf.reshape(gradient.values, (-1,) + shape[1:])
        return self._tf.unsorted_segment_sum(values, gradient.indices, shape[0])


def _as_in_training(optimizer, loss, pairs):
    """The gradients ``optimizer.get_updates`` would apply, given pairs of variable and raw gradient."""
    variables = [variable for variable, _ in pairs]
    raw = [gradient for _, gradient in pairs]
    wrapped = _wrapped(optimizer)
    if wrapped is not None:
        if hasattr(wrapped, "get_gradients"):  # standalone Keras 2.3 wraps tf.keras optimizers, too
            return _as_in_training(wrapped, loss, pairs)
        return [gradient for gradient, _ in wrapped.compute_gradients(loss, var_list=variables)]
    inner = optimizers.inner(optimizer)
    overridden = not _is_own(optimizer, "get_gradients") or not _is_own(inner, "get_gradients")
    if hasattr(inner, "_transform_gradients"):  # 2.4+ (OptimizerV2): clipping sits in apply_gradients
        gradients = optimizer.get_gradients(loss, variables) if overridden else raw
        transformed = inner._transform_unaggregated_gradients(list(zip(gradients, variables)))
        transformed = inner._transform_gradients(inner._aggregate_gradients(transformed))
        return [gradient for gradient, _ in transformed]
    if hasattr(inner, "get_gradients"):  # up to 2.3, and Keras 1 style optimizers of any version: clips itself
        clips = any(option is not None for option in optimizers.options(optimizer))
        return optimizer.get_gradients(loss, variables) if overridden or clips else raw
    if hasattr(inner, "_clip_gradients"):  # 2.9+ new-style optimizers: Keras compiles them here but cannot train
        return inner._clip_gradients(list(raw))
    return raw


def _wrapped(optimizer):
    """The ``tf.train`` optimizer inside Keras's ``TFOptimizer``, else ``None``."""
    if any(cls.__name__ == "TFOptimizer" and cls.__module__.split(".")[0] in FRAMEWORKS for cls in type(optimizer).__mro__):
        return optimizer.optimizer
    return None


def _is_own(optimizer, method):
    """Whether a method is the framework's, or missing, not a user's subclass's."""
    function = getattr(type(optimizer), method, None)
    return function is None or function.__module__.split(".")[0] in FRAMEWORKS


@contextlib.contextmanager
def building(graph):
    """Add operations to ``graph``, on their own whatever scope the caller is in."""
    with graph.as_default(), graph.name_scope(SCOPE), graph.control_dependencies(None):
        yield


@contextlib.contextmanager
def no_scope(graph):
    yield


@contextlib.contextmanager
def loss_scale_flags(optimizer):
    """Loss scale optimizers of 2.4+ note that they were used, and warn in training if not: keep what they noted."""
    names = [name for name in ("_loss_has_been_scaled", "_gradients_have_been_unscaled") if hasattr(optimizer, name)]
    kept = [(name, getattr(optimizer, name)) for name in names]
    try:
        yield
    finally:
        for name, value in kept:
            setattr(optimizer, name, value)


def references(items):
    """Stand-ins for ``items`` that ``same`` compares by identity and that keep nothing alive that can be let go."""
    return [_reference(item) for item in items]


def same(kept, items):
    """Whether ``items`` are, one by one, the objects (or equal numbers) that ``kept`` stands for."""
    return len(kept) == len(items) and all(
        reference() is item or (isinstance(item, (int, float)) and reference() == item) for reference, item in zip(kept, items)
    )


def _reference(item):
    if inspect.ismethod(item):  # a bound method is a new object each time it is looked up
        return weakref.WeakMethod(item)
    try:
        return weakref.ref(item)
    except TypeError:  # numbers, None
        return lambda: item


def ancestors(*tensors):
    """The operations that tensors depend on, their own first."""
    found = unique([tensor.op for tensor in tensors])
    seen = set(found)
    for op in found:  # grows as it goes
        for source in [one.op for one in op.inputs] + list(op.control_inputs):
            if source not in seen:
                seen.add(source)
                found.append(source)
    return found


def _may_look_behind(output, source):
    """Whether a loss of ``output`` may be computed from what is behind ``source``."""
    while output is not source and output.op.type == "Identity":
        output = output.op.inputs[0]
    return output is source and output.op.type in ("Softmax", "Sigmoid", "Identity")


def is_placeholder(op):
    return op.type in ("Placeholder", "PlaceholderWithDefault", "PlaceholderV2")


def _learning_phases(*tensors):
    """The learning phase placeholders that tensors depend on, found in the graph.

    ``K.learning_phase()`` may name another one by now (after ``clear_session``) or be a number.
    """
    return [op.outputs[0] for op in ancestors(*tensors) if is_placeholder(op) and "keras_learning_phase" in op.name]


def _depends_on_phase(layer):
    inner = list(getattr(layer, "layers", None) or ())
    inner += [getattr(layer, name) for name in ("layer", "forward_layer", "backward_layer") if hasattr(layer, name)]
    if inner:
        return any(_depends_on_phase(one) for one in inner)
    if hasattr(layer, "recurrent_dropout"):
        return bool(layer.dropout or layer.recurrent_dropout)
    return "training" in inspect.signature(layer.call).parameters


def layers_of(model):
    """The model and all layers in it, each once; a wrapper comes before what it wraps."""
    found, known = [model], {id(model)}
    for layer in found:  # grows while it is walked
        children = list(getattr(layer, "layers", None) or ()) + list(getattr(layer, "_layers", None) or ())
        children += [vars(layer).get(name) for name in ("layer", "forward_layer", "backward_layer", "cell")]
        children += list(vars(layer).get("cells", None) or ()) + [taps.functional_of(layer)]
        for child in children:
            if hasattr(child, "call") and id(child) not in known:
                known.add(id(child))
                found.append(child)
    return found


def _graph_of(core):
    """The graph a model lives in; ``None`` if it has not been built."""
    tensor = getattr(core, "total_loss", None)
    if tensor is None and getattr(core, "outputs", None):
        tensor = taps.flat(core.outputs)[0]
    return getattr(tensor, "graph", None)


def _same_tensor(tensor):
    return tensor


def arranged(layout, values):
    """Flat values in the layout of sources: one for a weight, a list of lists for a tap."""
    values = iter(values)
    return [
        [[next(values) for _ in call] for call in source] if isinstance(source, list) else next(values) for source in layout
    ]


def _is_function_graph(graph):
    return any(cls.__name__ == "FuncGraph" for cls in type(graph).__mro__)


def _shape(variable):
    return tuple(variable.get_shape().as_list()) if hasattr(variable, "get_shape") else tuple(variable.shape)


def _feedable(value):
    """A SciPy sparse matrix as what ``session.run`` takes for a sparse placeholder; other values as they are."""
    if not hasattr(value, "tocoo"):
        return value
    coo = value.tocoo()
    return np.stack([coo.row, coo.col], axis=1), coo.data, coo.shape
