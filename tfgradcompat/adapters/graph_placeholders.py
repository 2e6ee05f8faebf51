"""tf.keras 1.4-1.13 in graph mode, and standalone Keras 2.0-2.3.

``compile`` builds the whole loss, with a placeholder for each output's sample weights in it, and only ``compile`` builds a
new one. Up to tf.keras 1.6 and in standalone Keras these placeholders must be fed and ``_standardize_user_data`` gives ones;
from 1.7 on they default to one and may be left out.
"""
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


class StandaloneAdapter(PlaceholdersAdapter):
    """Standalone Keras 2.0-2.3 on TensorFlow 1.0-1.15 and 2.0-2.2."""
