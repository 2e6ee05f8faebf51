"""tf.keras and tf_keras in eager mode, TensorFlow 2.2 and later: the era of ``train_step``.

The loss is ``compiled_loss`` (2.2-2.7) or ``compute_loss`` (2.8 and later), which users may override. Data is prepared as
``data_adapter.single_batch_iterator`` does it, without the dataset it builds at every call.
"""
import contextlib
import random
import sys
import weakref

from ..state import preserved_attributes
from .base import Batch, unique
from .eager import EagerAdapter


class TapeV22Adapter(EagerAdapter):
    """Keras 2 models of TensorFlow 2.2-2.15 and of the package tf_keras."""

    def __init__(self, environment):
        super(TapeV22Adapter, self).__init__(environment)
        self._data_adapter = environment.module("engine.data_adapter")
        self._training_utils = environment.module("engine.training_utils")

    def build(self, model, batch):
        if model.built and _has_weights(model):
            return
        x = self.standardize(model, batch)[0]
        # Weights are made in an init scope, outside the trace, and the trace itself is never run.
        with self.python_state(model):
            self._trace_only(lambda: self._call(model, x))

    def _call(self, model, x):
        with autograph():
            model(x, training=False)

    def standardize(self, model, batch):
        tools = self._data_adapter
        x, y, sample_weight = tools._process_tensorlike((batch.x, batch.y, batch.sample_weight))
        x, y, sample_weight = self.tf.nest.map_structure(self._tensor, (x, y, sample_weight))
        data = (x,) if y is None else (x, y) if sample_weight is None else (x, y, sample_weight)
        if hasattr(tools, "_check_data_cardinality"):  # 2.3 and later
            tools._check_data_cardinality(data)
        if batch.class_weight:
            data = tools._make_class_weight_map_fn(batch.class_weight)(*data)
        if hasattr(tools, "expand_1d"):  # 2.2-2.6; later the loss container does it
            data = tools.expand_1d(data)
        return tuple(tools.unpack_x_y_sample_weight(data))

    def _tensor(self, leaf):
        if leaf is None or hasattr(leaf, "shape") and hasattr(leaf, "dtype") and not hasattr(leaf, "__array_interface__"):
            return leaf
        return self.tf.convert_to_tensor(leaf)

    def standardize_inputs(self, model, x):
        return self.standardize(model, Batch(x, None, None, None))[0]

    def outputs(self, model, x, training):
        with autograph():
            return model(x, training=bool(training))

    def loss(self, model, data, training):
        x, y, sample_weight = data
        with autograph():
            y_pred = self.outputs(model, x, training)
            if hasattr(model, "compute_loss"):  # 2.8 and later
                loss = model.compute_loss(x, y, y_pred, sample_weight)
                if hasattr(model, "_validate_target_and_loss"):
                    model._validate_target_and_loss(y, loss)
                return loss
            return model.compiled_loss(y, y_pred, sample_weight, regularization_losses=model.losses)

    def layers(self, model):
        return layers_of(model)

    def input_keys(self, model):
        structure = getattr(model, "_nested_inputs", None)
        return sorted(structure) if isinstance(structure, dict) else list(model.input_names)

    def converted(self, layer, call):
        if type(layer).__module__.startswith(self.environment.package):
            return call
        ag_ctx = sys.modules["tensorflow.python.autograph.core.ag_ctx"]
        return sys.modules["tensorflow.python.autograph.impl.api"].tf_convert(call, ag_ctx.control_status_ctx())

    def trained_weights(self, model):
        return list(model.trainable_weights)  # within training_scope: those of compile time

    def training_scope(self, model):
        return self._training_utils.RespectCompiledTrainableState(model)

    def fingerprint(self, model):
        return (
            identity(model.compiled_loss),
            identity(model.optimizer),
            self.layer_states(model),
        )

    def layer_states(self, model):
        """What of the layers a trace bakes in: which there are, whether they train, and what they add to the loss."""
        return tuple(
            (id(layer), layer.trainable, len(layer._callable_losses), len(layer._losses)) for layer in layers_of(model)
        )

    @contextlib.contextmanager
    def python_state(self, model):
        layers = layers_of(model)
        locals_ = [layer._thread_local for layer in layers]
        with preserved_attributes(layers, ("_losses", "_updates", "_metrics")):
            with preserved_attributes(locals_, ("_eager_losses",)), _random_state():
                yield

    def loss_metrics(self, model):
        """The metrics that computing the loss updates."""
        return list(model.compiled_loss.metrics) if model.compiled_loss is not None else []

    def changeable_variables(self, model):
        metrics = self.loss_metrics(model) + [metric for layer in layers_of(model) for metric in layer._metrics]
        states = [
            state
            for layer in layers_of(model)
            if getattr(layer, "stateful", False)
            for state in self.tf.nest.flatten(getattr(layer, "states", None))
        ]
        found = list(model.weights) + states + [weight for metric in metrics for weight in metric.variables]
        return unique([variable for variable in found if hasattr(variable, "read_value")])


def layers_of(model):
    """The model and all layers below it, each once."""
    if hasattr(model, "_flatten_layers"):  # 2.3 and later
        return list(model._flatten_layers())
    found = [model]
    for layer in found:  # grows while it is walked
        # 2.0-2.2: containers of layers hold layers, too
        found += [child for child in getattr(layer, "_layers", None) or () if not any(child is known for known in found)]
    return [layer for layer in found if hasattr(layer, "_thread_local")]


def _has_weights(model):
    try:
        return model.weights is not None
    except ValueError:  # "Weights for model ... have not yet been created"
        return False


def identity(item):
    """Stands for an object in a fingerprint without keeping it; a new object with the same id differs by its reference."""
    return None if item is None else _Identity(weakref.ref(item))


class _Identity(object):
    def __init__(self, reference):
        self._reference = reference

    def __eq__(self, other):
        item = self._reference()
        return item is not None and isinstance(other, _Identity) and other._reference() is item

    def __ne__(self, other):
        return not self == other

    __hash__ = None


def autograph():
    """Converts users' control flow in ``call`` and losses as it is when Keras traces its train function."""
    core = sys.modules["tensorflow.python.autograph.core.ag_ctx"]
    converter = sys.modules["tensorflow.python.autograph.core.converter"]
    return core.ControlStatusCtx(status=core.Status.ENABLED, options=converter.ConversionOptions(recursive=True))


@contextlib.contextmanager
def _random_state():
    """Operations made eagerly draw their seeds from a generator of their own instead of the user's.

    Putting the user's generator back afterwards would not do: the kernels made for its seeds have moved on.
    """
    context = sys.modules["tensorflow.python.eager.context"].context()
    generator = getattr(context, "_rng", None)
    if generator is None:
        yield
        return
    context._rng = random.Random(0)
    try:
        yield
    finally:
        context._rng = generator
