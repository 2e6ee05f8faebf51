"""tf.keras in eager mode, TensorFlow 2.0 and 2.1: the loss is ``training_eager._model_loss``.

Training here ignores ``clipnorm`` and ``clipvalue`` without a word; so does the call, with one warning that says so.
"""
import contextlib
import warnings

from ..errors import AdapterWarning
from ..weakcache import WeakCache
from . import optimizers
from .base import label
from .tape_v22 import TapeV22Adapter, autograph, identity


class TapeV20Adapter(TapeV22Adapter):
    """tf.keras models of TensorFlow 2.0 and 2.1: functional, sequential and subclassed."""

    def __init__(self, environment):
        super(TapeV20Adapter, self).__init__(environment)
        self._backend = environment.module("backend")
        self._training_eager = environment.module("engine.training_eager")
        self._warned_optimizers = WeakCache()

    def build(self, model, batch):
        if not (model.built and model.inputs):
            self._standardized(model, batch)  # sets inputs, builds, and finishes a postponed compile

    def _standardized(self, model, batch):
        return model._standardize_user_data(
            batch.x, batch.y, sample_weight=batch.sample_weight, class_weight=batch.class_weight, extract_tensors_from_dataset=True
        )

    def standardize(self, model, batch):
        x, y, sample_weights = self.tf.nest.map_structure(self._tensor, self._standardized(model, batch))
        return self._training_utils.cast_to_model_input_dtypes(x, model), y, sample_weights

    def standardize_inputs(self, model, x):
        x = self.tf.nest.map_structure(self._tensor, model._standardize_user_data(x, extract_tensors_from_dataset=True)[0])
        return self._training_utils.cast_to_model_input_dtypes(x, model)

    def outputs(self, model, x, training):
        # As predict does it: a single input is not in a list.
        if isinstance(x, (list, tuple)) and len(x) == 1:
            x = x[0]
        with self._backend.eager_learning_phase_scope(training), autograph():
            return model(x, training=bool(training))

    def in_order(self, model, x):
        return self.tf.nest.flatten(x)  # standardised to a list in the order of the inputs

    def loss(self, model, data, training):
        x, y, sample_weights = data
        with self._backend.eager_learning_phase_scope(training), autograph():
            return self._training_eager._model_loss(
                model,
                x,
                y,
                output_loss_metrics=model._output_loss_metrics,
                sample_weights=sample_weights,
                training=bool(training),
            )[1]

    @contextlib.contextmanager
    def training_scope(self, model):
        if not hasattr(model, "_compiled_trainable_state"):
            yield
            return
        current = model._get_trainable_state()
        model._set_trainable_state(model._compiled_trainable_state)
        try:
            yield
        finally:
            model._set_trainable_state(current)

    def clips(self, model):
        if optimizers.clips(model.optimizer) and self._warned_optimizers.get(model.optimizer) is None:
            self._warned_optimizers.set(model.optimizer, True)
            warnings.warn(
                "the optimizer of %s has clipnorm or clipvalue, which eager training of TensorFlow %s ignores; the gradients are "
                "unclipped, as in training" % (label(model), self.environment.tensorflow),
                AdapterWarning,
                stacklevel=6,
            )
        return False

    def fingerprint(self, model):
        endpoints = tuple(identity(endpoint) for endpoint in getattr(model, "_training_endpoints", ()))
        return endpoints + (identity(model.optimizer), self.layer_states(model))

    def loss_metrics(self, model):
        return list(getattr(model, "_output_loss_metrics", None) or [])
