"""tf.keras of TensorFlow 1.7-1.15 after ``tf.enable_eager_execution()``.

Two ways of training meet here. 1.7-1.12, 1.15, and 1.13-1.14 with ``run_eagerly=True`` record a tape over
``training_eager._model_loss``; so does this adapter, over the same function. 1.13-1.14 otherwise (1.15: if compiled with
``sample_weight_mode``, ``target_tensors`` or a session-era optimizer) train by a function over a graph that Keras keeps in
the background; there the adapters of the graph eras find the loss and its gradients.
"""
import contextlib
import random
import warnings
import weakref
from collections.abc import Mapping, Sequence

import numpy as np
from packaging.version import Version

from ..errors import AdapterWarning, UnsupportedModelError
from ..state import preserved_attributes, preserved_random_state, preserved_values
from ..weakcache import WeakCache
from . import datasets, taps
from .base import label
from .eager import EagerAdapter, parted
from .graph import arranged, layers_of
from .graph_endpoints import EndpointsAdapter
from .graph_placeholders import PlaceholdersAdapter
from .optimizers import CLIP_OPTIONS


class TapeV1Adapter(EagerAdapter):
    """tf.keras 1.7-1.15, eager."""

    def __init__(self, environment):
        super(TapeV1Adapter, self).__init__(environment)
        self.backend = environment.module("backend")
        self.loop = environment.module("engine.training_eager")
        graph = PlaceholdersAdapter if environment.tensorflow < Version("1.14") else EndpointsAdapter
        self.by_graph = graph(environment)
        self._warned = WeakCache()

    # -- protocol ----------------------------------------------------------------------------------------------------

    def build(self, model, batch):
        core = _core(model)
        if not (core.inputs and (core.optimizer is None or getattr(core, "_is_compiled", True))):
            # Looks at the data, makes weights (up to 1.12 by calling the model on them) and finishes compile.
            with self._untouched(core):
                self._standardize(core, batch)

    def layers(self, model):
        return layers_of(_core(model))

    def input_keys(self, model):
        return list(model.input_names)

    def tape(self):
        return self.loop.GradientTape(persistent=True)

    def tape_gradients(self, tape, target, variables, tensors):
        # Up to 1.8 a tape does not go on beyond a tensor that is one of its sources.
        gradients = list(tape.gradient(target, variables)) if variables else []
        return gradients + [tape.gradient(target, [tensor])[0] for tensor in tensors]

    def _pass(self, model, standardize, step, key, evaluate):
        core = _core(model)
        with self._untouched(core):
            return step(core, standardize())

    def standardize_inputs(self, model, x):
        core = _core(model)
        return self._as_tensors(core, core._standardize_user_data(x)[0], [], [])[0]

    def outputs(self, model, x, training):
        # As predict does it: a single input is not in a list.
        if isinstance(x, (list, tuple)) and len(x) == 1:
            x = x[0]
        options = {"training": bool(training)} if model._expects_training_arg else {}
        with self._phase(training):
            return model.call(x, **options)

    def gradients(self, model, params, batch, request):
        core = _core(model)
        if getattr(core, "_distribution_strategy", None) is not None:
            raise UnsupportedModelError(
                "%s was compiled under a tf.distribute strategy, where Keras of TensorFlow %s has no train_on_batch; compile "
                "it without one" % (label(model), self.environment.tensorflow)
            )
        with self._untouched(core):
            if _trains_by_graph(core):
                return self._graph_gradients(core, params, batch, request)
            return self._tape_gradients(core, params, batch, request)

    def per_sample_gradients(self, model, params, batch, request):
        return None

    def zeros_like(self, weight, evaluate):
        zeros = np.zeros(weight.shape.as_list(), weight.dtype.base_dtype.as_numpy_dtype)
        return zeros if evaluate else self.tf.constant(zeros)

    def dataset(self, model, dataset):
        # Arrays, since train_on_batch up to 1.10 makes tensors of another dtype an error.
        return map(datasets.as_numpy, datasets.eager_elements(dataset)), datasets.eager_length(self.tf, dataset)

    def dense(self, value):
        return None if value is None else self.tf.convert_to_tensor(value)

    def describe(self, model):
        return {"training": "function of a background graph" if _trains_by_graph(_core(model)) else "tape"}

    # -- models that train by a tape ---------------------------------------------------------------------------------

    def _tape_gradients(self, core, params, batch, request):
        inputs, targets, weights = self._as_tensors(core, *self._standardize(core, batch))
        options = {"sample_weights": weights, "training": bool(request.learning_phase)}
        if self.environment.tensorflow >= Version("1.14"):
            # It wants a metric for the loss of each of several outputs; 1.13 makes do without.
            options["output_loss_metrics"] = [_identity] * len(core.outputs)
        wanted, variables = parted(params)
        with self._phase(request.learning_phase), _trainable_as_compiled(core), self.tape() as tape:
            tape.watch(variables)  # those that do not train are not watched by themselves
            with self.tapped(core, wanted, (inputs,), tape) as (data, seen):
                loss = self.loop._model_loss(core, data[0], targets, **options)[1]
            scaled, unscale = self._loss_scaling(core.optimizer, loss)
        calls = [seen(tap) for tap in wanted]
        gradients = unscale(self.tape_gradients(tape, scaled, variables, taps.flat(calls)))
        if request.clip:
            self._warn_of_ignored_clipping(core)
        return loss, self.put_together(params, calls, gradients, request)

    def _standardize(self, core, batch):
        return core._standardize_user_data(
            batch.x, batch.y, sample_weight=batch.sample_weight, class_weight=batch.class_weight
        )

    def _as_tensors(self, core, inputs, targets, weights):
        """As ``training_eager.train_on_batch`` hands them to ``_model_loss``."""
        utils = self.environment.module("engine.training_utils")
        if hasattr(utils, "cast_to_model_input_dtypes"):  # 1.15 converts the others later
            return utils.cast_to_model_input_dtypes(inputs, core), targets, weights
        convert = self.tf.convert_to_tensor
        to_float = getattr(utils, "cast_if_floating_dtype", _identity)  # 1.11+; before, tensors must have the right type
        if self.environment.tensorflow >= Version("1.13"):
            to_input = lambda values: to_float([convert(value) for value in values])  # noqa: E731
            to_target = to_weight = to_input
            if hasattr(utils, "cast_if_floating_to_model_input_dtypes"):  # 1.14
                to_input = lambda values: utils.cast_if_floating_to_model_input_dtypes(  # noqa: E731
                    [convert(value) for value in values], core
                )
        else:
            def to_input(values):
                if values and isinstance(values[0], self.tf.Tensor):
                    return to_float(values)
                return [convert(value, dtype=self.backend.floatx()) for value in values]

            to_target = to_input
            to_weight = lambda values: [convert(value, dtype=self.backend.floatx()) for value in values]  # noqa: E731
        if not isinstance(inputs, dict):  # 1.12-1.14 leave the values of a dict, and the targets beside it, as they are
            inputs, targets = to_input(inputs), to_target(targets) if targets else []
        return inputs, targets, [None if weight is None else to_weight([weight])[0] for weight in weights or []]

    def _phase(self, learning_phase):
        # eager_learning_phase_scope: 1.14+, where the other one would also set the background graph's phase.
        scope = getattr(self.backend, "eager_learning_phase_scope", None) or self.backend.learning_phase_scope
        return scope(learning_phase)

    def _loss_scaling(self, optimizer, loss):
        """Return (scaled loss, function that unscales gradients)."""
        if hasattr(optimizer, "get_scaled_loss"):  # 1.15
            return optimizer.get_scaled_loss(loss), optimizer.get_unscaled_gradients
        if any(cls.__name__ == "LossScaleOptimizer" for cls in type(optimizer).__mro__):  # 1.14
            module = self.environment.module("mixed_precision.experimental.loss_scale_optimizer")
            scale = optimizer._loss_scale()
            return module.scale_loss(loss, scale), lambda gradients: module.unscale_grads(gradients, scale)
        return loss, _identity

    def _warn_of_ignored_clipping(self, core):
        options = [name for name in CLIP_OPTIONS if getattr(core.optimizer, name, None) is not None]
        told = self._warned.get(core)
        if options and (told is None or told() is not core.optimizer):
            self._warned.set(core, weakref.ref(core.optimizer))
            warnings.warn(
                "%s of the optimizer of %s is set, but eager training of TensorFlow %s ignores it; so do these gradients"
                % (" and ".join(options), label(core), self.environment.tensorflow),
                AdapterWarning,
                stacklevel=6,
            )

    # -- models that train by a function over the background graph -----------------------------------------------------

    def _graph_gradients(self, core, params, batch, request):
        graph = self.by_graph
        with graph._session(core):
            inputs, targets, weights = graph.standardize(core, batch)
            with graph.lock:
                loss = graph.loss_graph(core, weights, symbolic=False)
                graph._require_phase(core, loss, request.learning_phase)
                layout, sources = graph.sources(core, params)
                gradients = graph.training_gradients(core, loss, sources, request)
                fed = [(place, weight) for place, weight in zip(loss.weights, weights) if weight is not None]
                parts = [(source, part) for source, gradient in zip(sources, gradients) for part in _parts(gradient)]
                function = loss.function(
                    [source for source, _ in parts], [part for _, part in parts], [place for place, _ in fed]
                )
            phases = loss.phase_values(request.learning_phase)
            try:
                values = function(inputs + targets + [weight for _, weight in fed] + phases)
            except Exception:
                loss.discard_functions()  # 1.13: a function that has failed once is cancelled ever after
                raise
        values = iter([self.tf.constant(value) for value in values])
        loss_value = next(values)
        return loss_value, arranged(
            layout, [self._put_together(source, gradient, values) for source, gradient in zip(sources, gradients)]
        )

    def _put_together(self, source, gradient, values):
        if gradient is None:
            return None
        parts = [next(values) for _ in _parts(gradient)]
        return parts[0] if len(parts) == 1 else self.tf.IndexedSlices(*parts, dense_shape=source.shape.as_list())

    # -- leaving no trace --------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _untouched(self, core):
        layers, variables = self._contents(core)
        # What read_value gives shares the variable's memory until one of the two is written to.
        values = preserved_values(variables, lambda variable: variable.read_value(), lambda variable, value: variable.assign(value))
        locals_ = [layer._thread_local for layer in layers if hasattr(layer, "_thread_local")]  # 1.15
        attributes = preserved_attributes(layers + locals_, NOTED)
        with values, attributes, preserved_random_state(), self._other_random_numbers():
            yield

    def _contents(self, core):
        """All layers and metrics in a model, itself included, and all variables they hold, RNN states too."""
        layer_class = self.environment.module("engine.base_layer").Layer
        layers, variables, seen = [], [], set()
        queue = [core]
        while queue:
            item = queue.pop()
            if id(item) in seen:
                continue
            seen.add(id(item))
            if isinstance(item, layer_class):
                layers.append(item)
                queue.extend(vars(item).values())
            elif hasattr(item, "read_value"):
                variables.append(item)
            elif isinstance(item, Mapping):
                queue.extend(item.values())
            elif isinstance(item, Sequence) and not isinstance(item, (str, bytes)):
                queue.extend(item)
        return layers, variables

    @contextlib.contextmanager
    def _other_random_numbers(self):
        """Random operations draw from other sequences than the ones training draws from.

        Eager operations with equal seeds share a generator, those without a seed of their own take one from the context.
        """
        context = self._context()
        seed, generator = context._seed, getattr(context, "_rng", None)  # there is none before the first set_random_seed
        context._seed = _other_seed(seed)
        context._rng = random.Random(context._seed)
        try:
            yield
        finally:
            context._seed = seed
            if generator is None:
                del context._rng
            else:
                context._rng = generator

    def _context(self):
        from tensorflow.python.eager import context

        return context.context()


def _core(model):
    """The model that trains: ``Sequential`` of 1.7 wraps another one."""
    inner = getattr(model, "model", None)
    return inner if any(cls.__name__ == "Sequential" for cls in type(model).__mro__) and inner is not None else model


def _trains_by_graph(core):
    # run_eagerly: 1.13+. Where the other one is set, 1.15 runs its loop over tapes.
    return not getattr(core, "run_eagerly", True) and not getattr(core, "_experimental_run_tf_function", False)


@contextlib.contextmanager
def _trainable_as_compiled(core):
    """1.15 trains with the layers' ``trainable`` as it was when the model was compiled."""
    if not hasattr(core, "_compiled_trainable_state"):
        yield
        return
    current = core._get_trainable_state()
    core._set_trainable_state(core._compiled_trainable_state)
    try:
        yield
    finally:
        core._set_trainable_state(current)


# What a layer notes down when it is called.
NOTED = ("_losses", "_eager_losses", "_callable_losses", "_updates", "_metrics", "_metrics_tensors")


def _parts(gradient):
    """The tensors a symbolic gradient is made of."""
    if gradient is None:
        return []
    return [gradient.values, gradient.indices] if hasattr(gradient, "indices") else [gradient]


def _identity(value):
    return value


_unseeded = random.SystemRandom().randrange(2 ** 31)


def _other_seed(seed):
    """A seed that belongs to ``seed``, the same each time; for None one that is new in each process."""
    return _unseeded if seed is None else random.Random(seed).randrange(2 ** 31)
