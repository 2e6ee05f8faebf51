"""tf.keras 1.14-2.15 in graph mode, and tf_keras in graph mode.

Here the loss has no sample weights in it until a batch brings some, and Keras builds a new loss each time they come or go.
Building a loss of our own for the other case leaves the model as it is: what a call needs never depends on what was trained
before.
"""
import contextlib
import warnings

from packaging.version import Version

from ..errors import AdapterWarning
from ..weakcache import WeakCache
from .base import label
from .graph import GraphAdapter, LossGraph, building, references, same
from .graph_loops import unseen


class EndpointsAdapter(GraphAdapter):
    """tf.keras 1.14-2.15 (in 2.x with eager execution disabled) and tf_keras 2.15-2.21 in graph mode."""

    def __init__(self, environment):
        super(EndpointsAdapter, self).__init__(environment)
        self._warned_of_shift = WeakCache()

    def standardize(self, core, batch):
        inputs, targets, weights = core._standardize_user_data(
            batch.x, batch.y, sample_weight=batch.sample_weight, class_weight=batch.class_weight
        )
        if isinstance(inputs, dict):  # a subclassed model that takes a dict
            inputs = [inputs[name] for name in core._feed_input_names]
        weights = list(weights or [])
        if self.environment.tensorflow < Version("1.15") and len(set(weight is None for weight in weights)) > 1:
            weights = self._shifted(core, weights)
        return list(inputs), list(targets or []), weights

    def _shifted(self, core, weights):
        """The weights as training of 1.14 feeds them: it has placeholders for those given, and feeds the first ones of the list."""
        if self._warned_of_shift.get(core) is None:
            self._warned_of_shift.set(core, True)
            warnings.warn(
                "some outputs of %s have sample weights and others not; training of TensorFlow %s then feeds the weights to the wrong "
                "outputs, and so does this call; give weights, ones if need be, for all outputs" % (
                    label(core), self.environment.tensorflow),
                AdapterWarning,
                stacklevel=6,
            )
        values, weights = iter(weights), list(weights)
        return [None if weight is None else next(values) for weight in weights]

    def loss_graph(self, core, weights, symbolic):
        takers = [endpoint for endpoint in core._training_endpoints if not endpoint.should_skip_target_weights()]
        # As in Keras: a weight for one output makes a placeholder for each.
        weighted = bool(takers) and (symbolic or any(weight is not None for weight in weights))
        as_model = all((endpoint.sample_weight is not None) == weighted for endpoint in takers)
        built = self.cache.setdefault(core, dict)
        loss, recipe = built.get(weighted, (None, None))
        training = self.training_key(core)
        if loss is not None and loss.built_for(training):
            # The loss of the model is right whatever its recipe is now: Keras itself goes on using it. Any other is right for
            # as long as Keras would build an equal one.
            if loss.total is core.total_loss if as_model else same(recipe, self._recipe(core)):
                return loss
        if as_model:
            total, placeholders = core.total_loss, [endpoint.sample_weight for endpoint in takers if weighted]
        else:
            total, placeholders = self._own_total(core, takers, weighted)
        loss = LossGraph(
            self, total, core._feed_inputs, core._feed_targets, placeholders, core._collected_trainable_weights, training
        )
        built[weighted] = loss, references(self._recipe(core))
        return loss

    def compared_outputs(self, core):
        return [endpoint.output for endpoint in core._training_endpoints if not endpoint.should_skip_target()]

    def total_of(self, core, loss, replace):
        takers = [endpoint for endpoint in core._training_endpoints if not endpoint.should_skip_target_weights()]
        outputs = [replace(endpoint.output) for endpoint in core._training_endpoints]
        with _lent(core, takers, loss.weights or [None] * len(takers), outputs):
            return core._prepare_total_loss(core._prepare_output_masks())

    def differentiable(self, total, trained):
        if self.environment.tensorflow < Version("2.5"):  # Keras makes its loops ready for gradients
            return super(EndpointsAdapter, self).differentiable(total, trained)
        return unseen(self.tf, total, trained)

    def _own_total(self, core, takers, weighted):
        """What ``_compile_weights_loss_and_weighted_metrics`` would make ``total_loss``, and its weights' placeholders."""
        with building(core.total_loss.graph):
            placeholders = [self._placeholder(endpoint) for endpoint in takers] if weighted else []
            with _lent(core, takers, placeholders or [None] * len(takers)):
                return core._prepare_total_loss(core._prepare_output_masks()), placeholders

    def _placeholder(self, endpoint):
        # Keras's own is of this shape and default; an outer product with ones leaves a loss of any rank what it is.
        rank = _rank(endpoint)
        default = self.tf.constant(1.0, dtype=self.backend.floatx(), shape=[1] * rank)
        return self.tf.placeholder_with_default(default, [None] * rank, name=endpoint.output_name + "_sample_weights")

    def _recipe(self, core):
        """What an own loss is made of."""
        endpoints = list(core._training_endpoints)
        return endpoints + [_rank(endpoint) for endpoint in endpoints] + _added_losses(core)

    @contextlib.contextmanager
    def _session(self, core):
        # Standardizing resets the modes to what compile said; train_on_batch then sets them by the weights it got.
        endpoints = list(getattr(core, "_training_endpoints", ()))
        modes = [endpoint.sample_weight_mode for endpoint in endpoints]
        try:
            with super(EndpointsAdapter, self)._session(core):
                yield
        finally:
            for endpoint, mode in zip(endpoints, modes):
                endpoint.sample_weight_mode = mode


def _rank(endpoint):
    return 2 if endpoint.sample_weight_mode == "temporal" else 1


@contextlib.contextmanager
def _lent(core, endpoints, placeholders, outputs=None):
    """The model with other sample weights, and outputs, and with metrics that do not notice a loss being built."""
    every = list(core._training_endpoints)
    kept = [(endpoint, endpoint.sample_weight, endpoint.output_loss_metric, endpoint._output) for endpoint in every]
    tensors = getattr(core, "_compile_metrics_tensors", None)  # 1.14 only
    kept_tensors = None if tensors is None else dict(tensors)
    try:
        for endpoint in every:
            endpoint.output_loss_metric = _ignore
        for endpoint, placeholder in zip(endpoints, placeholders):
            endpoint.sample_weight = placeholder
        for endpoint, output in zip(every, outputs or ()):
            endpoint._output = output
        yield
    finally:
        for endpoint, weight, metric, output in kept:
            endpoint.sample_weight, endpoint.output_loss_metric, endpoint._output = weight, metric, output
        if tensors is not None:
            tensors.clear()
            tensors.update(kept_tensors)


def _ignore(loss):
    return None


def _added_losses(layer):
    """The regularizers and ``add_loss`` terms of a layer and those in it, as they were given.

    ``layer.losses`` would call the callable ones, which adds operations.
    """
    layers = layer._flatten_layers() if hasattr(layer, "_flatten_layers") else _nested(layer)  # 2.3+, up to 2.2
    losses = []
    for one in layers:
        losses += list(getattr(one, "_losses", None) or ()) + list(getattr(one, "_callable_losses", None) or ())
    return losses


def _nested(layer):
    yield layer
    for child in getattr(layer, "_layers", None) or getattr(layer, "layers", None) or ():
        for one in _nested(child):
            yield one
