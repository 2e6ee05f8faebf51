"""The eager engine: one tape over the flavour's own loss, compiled once per signature, and nothing left behind.

Serves TensorFlow 2.0 and later, through the subclasses in tape_v20, tape_v22 and keras3. They say what the loss is, how data
is prepared and what a pass may change; tape, scaling, clipping, compiling and caching are here.
"""
import contextlib
import importlib
import threading
import weakref

from ..errors import TfGradCompatError
from ..state import preserved_values
from . import datasets, optimizers
from .base import Adapter, unique

# Operations that read a variable's resource handle. Any other consumer in a trace may write to it.
_READS = frozenset(
    ["ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape", "VarIsInitializedOp", "NoOp", "Identity"]
)


class EagerAdapter(Adapter):
    """Base of the adapters for eager TensorFlow 2."""

    def __init__(self, environment):
        super(EagerAdapter, self).__init__(environment)
        self.tf = importlib.import_module("tensorflow")

    # -- what a subclass says ----------------------------------------------------------------------------------------

    def standardize(self, model, batch):
        """The (x, y, sample_weight) that the model's train step would see; leaves are tensors or None."""
        raise NotImplementedError

    def loss(self, model, data, training):
        """The training loss of one standardised batch, as a tensor; called under a tape."""
        raise NotImplementedError

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

    # -- the protocol ------------------------------------------------------------------------------------------------

    def gradients(self, model, params, batch, request):
        if self.tf.executing_eagerly():
            data = self.standardize(model, batch)
            if self.runs_uncompiled(model):
                return self._uncompiled(model, params, data, request, self.changeable_variables(model))
            return self._function(model, params, data, request)(data)
        if request.evaluate:
            raise TfGradCompatError(
                "inside a tf.function there are no values yet to return as NumPy arrays; pass evaluate=False to get tensors"
            )
        # AutoGraph, which converts all that a user's tf.function calls, has nothing to do in here.
        return self.tf.autograph.experimental.do_not_convert(self._inlined)(model, params, batch, request)

    def _inlined(self, model, params, batch, request):
        # The snapshot becomes part of the user's function: leave out what only an unusual layer changes.
        changeable = [variable for variable in self.changeable_variables(model) if not variable.trainable]
        return self._uncompiled(model, params, self.standardize(model, batch), request, changeable)

    def _uncompiled(self, model, params, data, request, changeable):
        with self._models(model).lock, self.python_state(model), self.preserved(changeable):
            return self.step(model, params, data, request)

    def zeros_like(self, weight, evaluate):
        return self.tf.zeros_like(self.variable(weight))

    def dataset(self, model, dataset):
        return datasets.eager_elements(dataset), datasets.eager_length(self.tf, dataset)

    def dense(self, value):
        return None if value is None else self.tf.convert_to_tensor(value)

    def describe(self, model):
        return {"compiled": "no: run_eagerly" if self.runs_uncompiled(model) else "yes: tf.function"}

    # -- one pass ----------------------------------------------------------------------------------------------------

    def step(self, model, params, data, request):
        """Forward pass, loss and gradients; runs under a trace or eagerly."""
        tf, optimizer = self.tf, model.optimizer
        with self.training_scope(model):
            trained = self.trained_weights(model) if request.clip and self.clips(model) else []
            wanted = unique(params + trained) if trained and optimizers.clips_jointly(optimizer) else params
            sources = [self.variable(weight) for weight in wanted]
            with tf.GradientTape() as tape:
                tape.watch(sources)  # the tape watches trainable variables by itself, the others not
                loss = self.loss(model, data, request.learning_phase)
                scaled = optimizers.scaled_loss(optimizer, loss)
            gradients = optimizers.unscaled_gradients(tf, optimizer, tape.gradient(scaled, sources))
            by_weight = {id(weight): gradient for weight, gradient in zip(wanted, gradients)}
            if trained:
                clipped = [weight for weight in trained if by_weight.get(id(weight)) is not None]
                results = optimizers.clipped_gradients(
                    optimizer,
                    [by_weight[id(weight)] for weight in clipped],
                    [self.variable(weight) for weight in clipped],
                )
                by_weight.update((id(weight), gradient) for weight, gradient in zip(clipped, results))
            # A loss without reduction is a vector; differentiating it sums it.
            return tf.reduce_sum(loss), [by_weight[id(weight)] for weight in params]

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

    def _function(self, model, params, data, request):
        compiled = self._models(model)
        fingerprint = self.fingerprint(model) + optimizers.options(model.optimizer)
        leaves = self.tf.nest.flatten(data)
        key = (
            tuple(id(weight) for weight in params),
            request.learning_phase,
            request.clip,
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
                function = self._trace(model, params, data, request, shapes)
                compiled.functions[key] = function
        return function

    def _trace(self, model, params, data, request, shapes):
        try:
            return _Function(self, model, params, data, request, shapes)
        except Exception:
            # Code that reads a static batch size cannot be traced with an unknown one. Where the exact shapes fail as well, the
            # fault is in the data or the model, and this second error is the one to see.
            exact = [None if leaf is None else leaf.shape.as_list() for leaf in self.tf.nest.flatten(data)]
            if exact == shapes:
                raise
            return _Function(self, model, params, data, request, exact)

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


class _Function(object):
    """One traced pass: a ``tf.function`` of the flat tensors of a batch, and the variables it may change."""

    def __init__(self, adapter, model, params, data, request, shapes):
        tf = self._tf = adapter.tf
        self.shapes = shapes
        self._adapter = adapter
        self._lock = adapter._models(model).lock
        model_reference = weakref.ref(model)  # the trace must not keep the model
        leaves = tf.nest.flatten(data)
        skeleton = tf.nest.map_structure(lambda leaf: None, data)
        count = len(leaves)  # the closure below must not keep the data
        present = [place for place, leaf in enumerate(leaves) if leaf is not None]
        self._present = present
        specs = [_spec(tf, leaves[place], shapes[place]) for place in present]

        def run(*tensors):
            flat = [None] * count
            for place, tensor in zip(present, tensors):
                flat[place] = tensor
            owner = model_reference()
            return adapter.step(owner, params, tf.nest.pack_sequence_as(skeleton, flat), request)

        self._run = tf.function(run, input_signature=specs, autograph=False)
        with adapter.python_state(model):
            concrete = self._run.get_concrete_function()
        self.changed = _changed_variables(concrete)

    def accepts(self, leaves):
        return all(
            leaf is None or shape is None or all(size is None or size == seen for size, seen in zip(shape, leaf.shape.as_list()))
            for leaf, shape in zip(leaves, self.shapes)
        )

    def __call__(self, data):
        leaves = self._tf.nest.flatten(data)
        tensors = [leaves[place] for place in self._present]
        if not self.changed:
            return self._run(*tensors)
        with self._lock, self._adapter.preserved(self.changed):
            return self._run(*tensors)


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
