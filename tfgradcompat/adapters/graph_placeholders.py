"""tf.keras 1.4-1.13 in graph mode, and standalone Keras 2.0-2.3.

``compile`` builds the whole loss, with a placeholder for each output's sample weights in it, and only ``compile`` builds a
new one. Up to tf.keras 1.6 and in standalone Keras these placeholders must be fed and ``_standardize_user_data`` gives ones;
from 1.7 on they default to one and may be left out.
"""
import contextlib
import sys

from .graph import GraphAdapter, LossGraph


class PlaceholdersAdapter(GraphAdapter):
    """tf.keras 1.4-1.13 in graph mode."""

    def core(self, model):
        # Sequential of tf.keras 1.4-1.7 and of standalone Keras 2.0-2.1 trains an inner functional model.
        if not hasattr(model, "_feed_targets") and any(cls.__name__ == "Sequential" for cls in type(model).__mro__):
            inner = getattr(model, "model", None)
            return model if inner is None else inner
        return model

    def loss_graph(self, core, weights, symbolic):
        key = [core.total_loss] + self.training_key(core)
        loss = self.cache.get(core)
        if loss is None or not loss.built_for(key):
            loss = LossGraph(
                self,
                core.total_loss,
                core._feed_inputs,
                core._feed_targets,
                core._feed_sample_weights,
                core._collected_trainable_weights,
                key,
            )
            self.cache.set(core, loss)
        return loss

    def call_again(self, core, inputs):
        return core.call(inputs)  # as _set_inputs does


class StandaloneAdapter(PlaceholdersAdapter):
    """Standalone Keras 2.0-2.3 on TensorFlow 1.0-1.15 and 2.0-2.2."""

    def compared_outputs(self, core):
        if not hasattr(core, "_prepare_total_loss"):  # before 2.3 losses take probabilities as such
            return []
        return [output for index, output in enumerate(core.outputs) if index not in core.skip_target_indices]

    def total_of(self, core, loss, replace):
        masks = core.compute_mask(core.inputs, mask=None)
        if not isinstance(masks, list):
            masks = [masks] * len(core.outputs)  # one, or None for all
        kept = core.outputs, core._output_loss_metrics
        core.outputs = [replace(output) for output in core.outputs]
        core._output_loss_metrics = [_NoMetric()] * len(core.outputs)
        try:
            return core._prepare_total_loss(masks)
        finally:
            core.outputs, core._output_loss_metrics = kept

    @contextlib.contextmanager
    def _session(self, core):
        # 2.3: set in the thread that imported Keras, and missing in all others.
        scope = getattr(sys.modules[self.backend.learning_phase.__module__], "_SYMBOLIC_SCOPE", None)
        missing = scope is not None and not hasattr(scope, "value")
        if missing:
            scope.value = True
        try:
            with super(StandaloneAdapter, self)._session(core):
                yield
        finally:
            if missing:
                del scope.value


class _NoMetric(object):
    """Takes no notice of a loss being built."""

    def update_state(self, loss):
        return []

    def result(self):
        return None
