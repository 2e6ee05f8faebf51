"""Keras 3 on TensorFlow: ``StatelessScope`` keeps every Keras variable as it was, and gradients still reach them.

Written for Keras 3.0 and later on TensorFlow 2.16 and later.
"""
import contextlib

from ..errors import NotCompiledError, UnsupportedModelError
from ..state import preserved_attributes
from . import taps
from .base import label, unique
from .eager import EagerAdapter
from .tape_v22 import identity


class Keras3Adapter(EagerAdapter):
    """Keras 3 models on the TensorFlow backend."""

    def __init__(self, environment):
        super(Keras3Adapter, self).__init__(environment)
        if not self.tf.compat.v1.executing_eagerly_outside_functions():
            raise UnsupportedModelError(
                "Keras 3 cannot work with eager execution disabled; do not call disable_eager_execution() or "
                "disable_v2_behavior(), or use the package tf_keras (Keras 2) in graph mode"
            )
        self._stateless_scope = environment.module("backend").StatelessScope
        self._data = environment.module("trainers.data_adapters.data_adapter_utils")

    def require_compiled(self, model):
        if not getattr(model, "compiled", False) or model.optimizer is None:
            raise NotCompiledError(
                "%s has not been compiled, so it has no training loss; call model.compile(optimizer, loss) first" % label(model)
            )

    def build(self, model, batch):
        if model.built:
            return
        x = self.standardize(model, batch)[0]
        # Variables are made in an init scope, outside the trace, and the trace itself is never run.
        with self.python_state(model):
            self._trace_only(lambda: self._call(model, x, 0))

    def progress_bar(self, target, verbose):
        return self.environment.module("utils.progbar").Progbar(target, verbose=verbose)

    def weight_name(self, weight):
        return weight.path

    def variable(self, weight):
        return weight.value

    def standardize(self, model, batch):
        x, y, sample_weight = batch.x, batch.y, batch.sample_weight
        if batch.class_weight is not None:
            if sample_weight is not None:
                # train_on_batch of Keras 3 refuses this too
                raise ValueError("Arguments `sample_weight` and `class_weight` cannot be specified at the same time.")
            sample_weight = self._data.class_weight_to_sample_weights(y, batch.class_weight)
        return tuple(self.tf.nest.map_structure(self._tensor, (x, y, sample_weight)))

    def _tensor(self, leaf):
        return leaf if leaf is None or isinstance(leaf, self.tf.Tensor) or hasattr(leaf, "_type_spec") else self.tf.convert_to_tensor(leaf)

    def _call(self, model, x, training):
        if model._call_has_training_arg:
            return model(x, training=bool(training))
        return model(x)

    def layers(self, model):
        layers = list(model._flatten_layers())
        # A Sequential runs a functional model that it does not count among its layers.
        return unique(layers + [taps.functional_of(layer) for layer in layers if taps.functional_of(layer) is not None])

    def input_keys(self, model):
        structure = model._inputs_struct
        return sorted(structure) if isinstance(structure, dict) else [tensor.name for tensor in model.inputs]

    def standardize_inputs(self, model, x):
        return self.tf.nest.map_structure(self._tensor, x)

    def outputs(self, model, x, training):
        with self._stateless_scope(collect_losses=True):
            return self._call(model, x, training)

    def loss(self, model, data, training):
        x, y, sample_weight = data
        # Weight regularisers take their variable's value from the scope, and from nowhere else.
        regularized = [(weight, weight) for weight in model.trainable_weights if weight.regularizer is not None]
        with self._stateless_scope(state_mapping=regularized, collect_losses=True):
            y_pred = self._call(model, x, training)
            if hasattr(model, "_compute_loss"):  # 3.4 and later: leaves `training` out where an override lacks it
                return model._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=bool(training))
            return model.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight)

    def fingerprint(self, model):
        return (
            identity(getattr(model, "_compile_loss", None)),  # those of a model that has not been compiled do not exist
            identity(getattr(model, "optimizer", None)),
            tuple((id(layer), layer.trainable) for layer in model._flatten_layers()),
            tuple(id(weight) for weight in model.trainable_weights),
        )

    @contextlib.contextmanager
    def python_state(self, model):
        with preserved_attributes(list(model._flatten_layers()), ("_losses", "_loss_ids")):
            yield

    def changeable_variables(self, model):
        return []  # the stateless scope keeps them all
