"""The eager engine: one tape over the flavour's own loss, compiled once per signature, and nothing left behind.

Serves TensorFlow 2.0 and later, through the subclasses in tape_v20, tape_v22 and keras3. They say what the loss is, how data
is prepared and what a pass may change; tape, scaling, clipping, compiling and caching are here.
"""
import contextlib
import importlib
import inspect
import threading
import warnings
import weakref

from ..errors import AdapterWarning, InvalidParamsError, TfGradCompatError
from ..state import preserved_random_state, preserved_values
from . import datasets, optimizers, taps
from .base import Adapter, label, unique

# Operations that read a variable's resource handle. Any other consumer in a trace may write to it.
_READS = frozenset(
    ["ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape", "VarIsInitializedOp", "NoOp", "Identity"]
)


class EagerAdapter(Adapter):
    """Base of the adapters for eager TensorFlow 2."""

    def __init__(self, environment):
        super(EagerAdapter, self).__init__(environment)
        self.tf = importlib.import_module("tensorflow")
        self._warned_about = set()  # classes of models
        self.nest = getattr(self.tf, "nest", None) or importlib.import_module("tensorflow.python.util.nest")  # the latter up to 1.12

    # -- what a subclass says ----------------------------------------------------------------------------------------

    def standardize(self, model, batch):
        """The (x, y, sample_weight) that the model's train step would see; leaves are tensors or None."""
        raise NotImplementedError

    def loss(self, model, data, training):
        """The training loss of one standardised batch, as a tensor; called under a tape."""
        raise NotImplementedError

    def standardize_inputs(self, model, x):
        """The inputs alone, as ``predict_on_batch`` would see them; the model need not be compiled."""
        raise NotImplementedError

    def outputs(self, model, x, training):
        """The model's outputs for standardised inputs."""
        raise NotImplementedError

    def converted(self, layer, call):
        """A layer's ``call`` as its Keras calls it: through AutoGraph, where it does so."""
        return call

    def trained_weights(self, model):
        """The weights that a training step updates."""
        return list(model.trainable_weights)

    def variable(self, weight):
        """The ``tf.Variable`` behind a weight."""
        return weight

    def runs_uncompiled(self, model):
        """Whether training steps through Python, which users choose in order to debug."""
        return bool(getattr(model, "run_eagerly", False))

    def fingerprint(self, model):
        """What a trace depends on besides its signature; it is built anew when this differs. Holds no model."""
        raise NotImplementedError

    def training_scope(self, model):
        """Context in which the loss is computed, traced or not."""
        return contextlib.ExitStack()

    def python_state(self, model):
        """Context that puts back what computing the loss changes in Python objects."""
        return contextlib.ExitStack()

    def changeable_variables(self, model):
        """The ``tf.Variable`` objects that an uncompiled pass may change."""
        return []

    def tape(self):
        """A new tape."""
        return self.tf.GradientTape()

    def tape_gradients(self, tape, target, variables, tensors):
        """The gradients by variables, then by tensors, of which some may depend on others."""
        return tape.gradient(target, variables + tensors)

    # -- the protocol ------------------------------------------------------------------------------------------------

    def gradients(self, model, params, batch, request):
        self._mention_train_step(model)

        def step(owner, data):
            return self.loss_step(owner, params, data, request)

        return self._pass(model, lambda: self.standardize(model, batch), step, ("loss", params, request), request.evaluate)

    def per_sample_gradients(self, model, params, batch, request):
        if self.runs_uncompiled(model) or not _vectorizes(self.tf):
            return None
        self._mention_train_step(model)

        def step(owner, data):
            return self.per_sample_step(owner, params, data, request)

        return self._pass(model, lambda: self.standardize(model, batch), step, ("per sample", params, request), request.evaluate)

    def _mention_train_step(self, model):
        cls = type(model)
        step = getattr(cls, "train_step", None)  # 2.2 and later
        if step is None or cls in self._warned_about or step.__module__.startswith(self.environment.package):
            return
        self._warned_about.add(cls)
        warnings.warn(
            "%s overrides train_step; the gradient is that of the compiled loss, not of what the step computes" % label(model),
            AdapterWarning,
            stacklevel=5,
        )

    def gradients_of(self, model, of, params, x, request):
        def step(owner, data):
            return self.target_step(owner, of, params, data, request)

        return self._pass(model, lambda: self._inputs(model, x), step, ("of", [of] + params, request), request.evaluate)

    def values(self, model, wanted, x, request):
        def step(owner, data):
            with self.tapped(owner, wanted, data, None) as (data, seen):
                self.outputs(owner, data[0], request.learning_phase)
            return [seen(tap) for tap in wanted]

        return self._pass(model, lambda: self._inputs(model, x), step, ("values", wanted, request), request.evaluate)

    def _inputs(self, model, x):
        return self.standardize_inputs(model, x), None, None

    def _pass(self, model, standardize, step, key, evaluate):
        """``step(model, data)``, compiled or not, with all that it changes put back.

        ``step`` must not hold the model, and ``key`` must tell it from other steps: (kind, items, request).
        """
        if self.tf.executing_eagerly():
            data = standardize()
            if self.runs_uncompiled(model):
                return self._uncompiled(model, data, step, self.changeable_variables(model))
            return self._function(model, data, step, key)(data)
        if evaluate:
            raise TfGradCompatError(
                "inside a tf.function there are no values yet to return as NumPy arrays; pass evaluate=False to get tensors"
            )
        # AutoGraph, which converts all that a user's tf.function calls, has nothing to do in here.
        return self.tf.autograph.experimental.do_not_convert(self._inlined)(model, standardize, step)

    def _inlined(self, model, standardize, step):
        # The snapshot becomes part of the user's function: leave out what only an unusual layer changes.
        changeable = [variable for variable in self.changeable_variables(model) if not variable.trainable]
        return self._uncompiled(model, standardize(), step, changeable)

    def _uncompiled(self, model, data, step, changeable):
        with self._models(model).lock, self.python_state(model), preserved_random_state(), self.preserved(changeable):
            return step(model, data)

    def zeros_like(self, weight, evaluate):
        return self.tf.zeros_like(self.variable(weight))

    def dataset(self, model, dataset):
        return datasets.eager_elements(dataset), datasets.eager_length(self.tf, dataset)

    def stack(self, values):
        return self.tf.stack([self.dense(value) for value in values])

    def dense(self, value):
        return None if value is None else self.tf.convert_to_tensor(value)

    def describe(self, model):
        return {"compiled": "no: run_eagerly" if self.runs_uncompiled(model) else "yes: tf.function"}

    # -- one pass ----------------------------------------------------------------------------------------------------

    def loss_step(self, model, params, data, request):
        """Forward pass, loss and gradients; runs under a trace or eagerly."""
        tf, optimizer = self.tf, model.optimizer
        wanted, weights = parted(params)
        with self.training_scope(model):
            trained = self.trained_weights(model) if request.clip and self.clips(model) else []
            if trained and optimizers.clips_jointly(optimizer):
                weights = unique(weights + trained)
            sources = [self.variable(weight) for weight in weights]
            with self.tape() as tape:
                tape.watch(sources)  # the tape watches trainable variables by itself, the others not
                with self.tapped(model, wanted, data, tape) as (data, seen):
                    loss = self.loss(model, data, request.learning_phase)
                scaled = optimizers.scaled_loss(optimizer, loss)
            seen = [seen(tap) for tap in wanted]
            gradients = self.tape_gradients(tape, scaled, sources, taps.flat(seen))
            gradients = optimizers.unscaled_gradients(tf, optimizer, gradients)
            by_weight = {id(weight): gradient for weight, gradient in zip(weights, gradients)}
            if trained:
                clipped = [weight for weight in trained if by_weight.get(id(weight)) is not None]
                results = optimizers.clipped_gradients(
                    optimizer,
                    [by_weight[id(weight)] for weight in clipped],
                    [self.variable(weight) for weight in clipped],
                )
                by_weight.update((id(weight), gradient) for weight, gradient in zip(clipped, results))
            by_tap = self._by_tap(wanted, seen, gradients[len(sources):], request)
            # A loss without reduction is a vector; differentiating it sums it.
            return tf.reduce_sum(loss), [by_tap[param] if isinstance(param, taps.Tap) else by_weight[id(param)] for param in params]

    def per_sample_step(self, model, params, data, request):
        """``loss_step`` for each sample alone, all at once; every result has one entry more in front."""
        leaves, connected = self.nest.flatten(data), []
        present = [place for place, leaf in enumerate(leaves) if leaf is not None]

        def of_one(samples):
            batch = list(leaves)
            for place, sample in zip(present, samples):
                batch[place] = self.tf.expand_dims(sample, 0)
            loss, gradients = self.loss_step(model, params, self.nest.pack_sequence_as(data, batch), request)
            connected[:] = [gradient is not None for gradient in gradients]
            return [loss] + [self.tf.convert_to_tensor(gradient) for gradient in gradients if gradient is not None]

        results = iter(self.tf.vectorized_map(of_one, [leaves[place] for place in present]))
        return next(results), [next(results) if one else None for one in connected]

    def target_step(self, model, of, params, data, request):
        """Forward pass and the gradients of something it computes."""
        tf = self.tf
        wanted, weights = parted(params)
        looked_at = wanted + [of.what] if isinstance(of.what, taps.Tap) else wanted
        sources = [self.variable(weight) for weight in weights]
        with self.tape() as tape:
            tape.watch(sources)
            with self.tapped(model, looked_at, data, tape) as (data, seen):
                outputs = self.outputs(model, data[0], request.learning_phase)
            total = tf.add_n([tf.reduce_sum(tensor) for tensor in of.tensors(outputs, seen)])
        seen = [seen(tap) for tap in wanted]
        gradients = self.tape_gradients(tape, total, sources, taps.flat(seen))
        return total, self.put_together(params, seen, gradients, request)

    @contextlib.contextmanager
    def tapped(self, model, wanted, data, tape):
        """Give (data, function from a tap to the tensors it stands for: a list of flat outputs for each call).

        The pass must use the data given; the function serves when it is over. Without a tape nothing is to be differentiated.
        """
        if not wanted:
            yield data, None
            return
        given = {}
        leaves = self.nest.flatten(data[0])
        # In the order of the model's inputs; a plain sequence in that order, where the model has none.
        order = self.in_order(model, self.nest.pack_sequence_as(data[0], list(range(len(leaves)))))
        for tap in wanted:
            if tap.is_input and tap.index not in given:
                place = order[tap.index]
                given[tap.index] = leaves[place] = self._seen(self._as_input(model, leaves[place], tap), tape)
        data = (self.nest.pack_sequence_as(data[0], leaves),) + tuple(data[1:])

        def see(layer, outputs):
            return self.nest.map_structure(lambda output: self._seen(output, tape), outputs)

        def seen(tap):
            calls = [[given[tap.index]]] if tap.is_input else recorder.outputs(tap)
            if tape is not None:
                for call in calls:
                    for tensor in call:
                        self._require_differentiable(tap, tensor)
            return calls

        recorder = taps.Recorder(wanted, self.nest.flatten, see, taps.functional_of(model), self.converted)
        layers = unique(self.layers(model) + [tap.layer for tap in wanted if not tap.is_input])
        with taps.recording(layers, recorder):
            yield data, seen

    def in_order(self, model, x):
        """The flat inputs of ``x`` in the order of ``model.inputs``."""
        if isinstance(x, dict) and getattr(model, "inputs", None):
            return [x[name] for name in self.input_keys(model)]
        return self.nest.flatten(x)

    def input_keys(self, model):
        """The keys of a dict of inputs, in the order of ``model.inputs``."""
        raise NotImplementedError

    def _as_input(self, model, leaf, tap):
        # Whole numbers for an input of real ones: the model would cast them, and lose sight of what it was given.
        inputs = getattr(model, "inputs", None)
        if inputs and not leaf.dtype.is_floating:
            dtype = self.tf.as_dtype(inputs[tap.index].dtype)
            return self.tf.cast(leaf, dtype) if dtype.is_floating else leaf
        return leaf

    def _seen(self, tensor, tape):
        """What a pass goes on with in place of a tensor it may be asked to differentiate by."""
        if tape is None or not isinstance(tensor, self.tf.Tensor) or not tensor.dtype.is_floating:
            return tensor
        # Losses look behind a softmax or sigmoid, and through an Identity, for the logits; not behind an IdentityN.
        result = self.tf.identity_n([tensor])[0]
        if getattr(tensor, "_keras_mask", None) is not None:
            result._keras_mask = tensor._keras_mask
        tape.watch(result)
        return result

    def _require_differentiable(self, tap, tensor):
        if not isinstance(tensor, self.tf.Tensor) or not tensor.dtype.is_floating:
            raise InvalidParamsError(
                "%s is %s, by which nothing can be differentiated; it must be a dense tensor of floating point numbers"
                % (tap.name, getattr(getattr(tensor, "dtype", None), "name", type(tensor).__name__))
            )
        graph = None if self.tf.executing_eagerly() else self.tf.compat.v1.get_default_graph()
        if graph is not None and getattr(tensor, "graph", graph) is not graph:
            raise InvalidParamsError(
                "%s is called inside a loop of the model, and its output exists only there; take the output of the layer that "
                "runs the loop" % tap.name
            )

    def put_together(self, params, seen, gradients, request):
        """Gradients by all weights, then by what is seen for each tap -> one item for each of ``params``."""
        wanted, weights = parted(params)
        by_weight = {id(weight): gradient for weight, gradient in zip(weights, gradients)}
        by_tap = self._by_tap(wanted, seen, gradients[len(weights):], request)
        return [by_tap[param] if isinstance(param, taps.Tap) else by_weight[id(param)] for param in params]

    def _by_tap(self, wanted, seen, gradients, request):
        gradients = iter(gradients)
        return {
            tap: [[self._of_tensor(tensor, next(gradients), request) for tensor in call] for call in calls]
            for tap, calls in zip(wanted, seen)
        }

    def _of_tensor(self, tensor, gradient, request):
        if gradient is None:
            return self.tf.zeros_like(tensor) if request.zeros else None
        return self.tf.convert_to_tensor(gradient)  # dense

    def clips(self, model):
        """Whether training clips gradients."""
        return optimizers.clips(model.optimizer)

    def preserved(self, variables):
        return preserved_values(variables, lambda variable: variable.read_value(), lambda variable, value: variable.assign(value))

    def _trace_only(self, call):
        """Trace ``call()`` without running it; the variables it creates stay."""

        def nothing():
            call()

        self.tf.function(nothing, autograph=False).get_concrete_function()

    # -- compiled passes ---------------------------------------------------------------------------------------------

    def _models(self, model):
        return self.cache.setdefault(model, _Compiled)

    def _function(self, model, data, step, key):
        compiled = self._models(model)
        fingerprint = self.fingerprint(model) + optimizers.options(getattr(model, "optimizer", None))
        leaves = self.nest.flatten(data)
        kind, items, request = key
        key = (
            kind,
            tuple(item if isinstance(item, (taps.Tap, taps.Of)) else id(item) for item in items),
            request.learning_phase,
            request.clip,
            request.zeros,
            _structure(data),
            tuple(None if leaf is None else (type(leaf).__name__, leaf.dtype, _rank(leaf)) for leaf in leaves),
        )
        with compiled.lock:
            if compiled.fingerprint != fingerprint:
                compiled.functions.clear()
                compiled.fingerprint = fingerprint
            function = compiled.functions.get(key)
            if function is None or not function.accepts(leaves):
                shapes = [self._relaxed(leaf, function and function.shapes[place]) for place, leaf in enumerate(leaves)]
                function = self._trace(model, data, step, shapes)
                compiled.forget_the_dead()
                compiled.functions[key] = function
        return function

    def _trace(self, model, data, step, shapes):
        try:
            return _Function(self, model, data, step, shapes)
        except Exception:
            # Code that reads a static batch size cannot be traced with an unknown one. Where the exact shapes fail as well, the
            # fault is in the data or the model, and this second error is the one to see.
            exact = [None if leaf is None else leaf.shape.as_list() for leaf in self.nest.flatten(data)]
            if exact == shapes:
                raise
            return _Function(self, model, data, step, exact)

    def _relaxed(self, leaf, shape):
        """The static shape to trace with: unknown batch size, and unknown wherever an earlier call differed."""
        if leaf is None or leaf.shape.rank is None:
            return None
        seen = leaf.shape.as_list()
        if shape is not None:
            return [size if size == old else None for size, old in zip(seen, shape)]
        return [None] + seen[1:] if seen else seen


class _Compiled(object):
    """The compiled passes of one model."""

    def __init__(self):
        self.fingerprint = None
        self.functions = {}
        self.lock = threading.RLock()

    def forget_the_dead(self):
        """Drop what was compiled for a callable that is gone."""
        for key in [key for key in self.functions if any(isinstance(item, taps.Of) and not item.alive for item in key[1])]:
            del self.functions[key]


class _Function(object):
    """One traced pass: a ``tf.function`` of the flat tensors of a batch, and the variables it may change."""

    def __init__(self, adapter, model, data, step, shapes):
        tf, nest = adapter.tf, adapter.nest
        self._flatten = nest.flatten
        self.shapes = shapes
        self._adapter = adapter
        self._lock = adapter._models(model).lock
        model_reference = weakref.ref(model)  # the trace must not keep the model
        leaves = nest.flatten(data)
        skeleton = nest.map_structure(lambda leaf: None, data)
        count = len(leaves)  # the closure below must not keep the data
        present = [place for place, leaf in enumerate(leaves) if leaf is not None]
        self._present = present
        specs = [_spec(tf, leaves[place], shapes[place]) for place in present]

        def run(*tensors):
            flat = [None] * count
            for place, tensor in zip(present, tensors):
                flat[place] = tensor
            return step(model_reference(), nest.pack_sequence_as(skeleton, flat))

        self._run = tf.function(run, input_signature=specs, autograph=False)
        with adapter.python_state(model), preserved_random_state():
            concrete = self._run.get_concrete_function()
        self.changed = _changed_variables(concrete)

    def accepts(self, leaves):
        return all(
            leaf is None or shape is None or all(size is None or size == seen for size, seen in zip(shape, leaf.shape.as_list()))
            for leaf, shape in zip(leaves, self.shapes)
        )

    def __call__(self, data):
        leaves = self._flatten(data)
        tensors = [leaves[place] for place in self._present]
        if not self.changed:
            return self._run(*tensors)
        with self._lock, self._adapter.preserved(self.changed):
            return self._run(*tensors)


def _vectorizes(tf):
    """Whether all samples can be done at once: before this option, too few operations can, and its flag must be on the command line."""
    return hasattr(tf, "vectorized_map") and "fallback_to_while_loop" in inspect.signature(tf.vectorized_map).parameters


def parted(params):
    """(taps, weights)."""
    wanted = [param for param in params if isinstance(param, taps.Tap)]
    return wanted, [param for param in params if not isinstance(param, taps.Tap)]


def _changed_variables(concrete):
    """The variables that a traced function may write to: those whose handle goes anywhere but into a read."""
    written = set()
    for outside, inside in zip(concrete.captured_inputs, concrete.graph.internal_captures):
        if any(operation.type not in _READS for operation in inside.consumers()):
            written.add(id(outside))
    return [variable for variable in unique(concrete.graph.variables) if id(variable.handle) in written]


def _structure(nest):
    """A hashable picture of a nest's structure."""
    if isinstance(nest, dict):
        return ("dict",) + tuple((key, _structure(nest[key])) for key in sorted(nest))
    if isinstance(nest, (list, tuple)):
        return (type(nest).__name__,) + tuple(_structure(item) for item in nest)
    return None if nest is None else "leaf"


def _rank(leaf):
    return leaf.shape.rank


def _spec(tf, leaf, shape):
    if isinstance(leaf, tf.Tensor):
        return tf.TensorSpec(shape, leaf.dtype)
    return tf.type_spec_from_value(leaf)  # ragged and sparse tensors
