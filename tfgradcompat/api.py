"""The facade: arguments in, results out. What differs between versions is the adapters' affair."""
import warnings

from . import batches
from .adapters.base import Batch, Request
from .params import Params
from .registry import adapter_for

UNCONNECTED = ("none", "zero", "raise")


def get_gradients(
    model,
    x,
    y=None,
    params=None,
    sample_weight=None,
    learning_phase=0,
    evaluate=True,
    *,
    class_weight=None,
    clip=True,
    unconnected_gradients="none",
    batch_size=None,
    steps=None,
    verbose=0
):
    """The gradients of the model's training loss.

    Successor of ``model.optimizer.get_gradients(model.total_loss, params)`` with ``K.function``; the value is what
    ``model.train_on_batch(x, y, sample_weight, class_weight)`` hands to the optimizer's update rule.

    Arguments:
        model: a compiled Keras model of any flavour.
        x, y, sample_weight: one batch, as ``train_on_batch`` of the model's Keras takes it: arrays of shape
            ``(batch, ...)``, or lists or dicts of these. ``x`` may also be a dataset, generator or ``Sequence`` of batches.
        params: what to differentiate by: a weight, or any nest (list, tuple, dict) of weights; ``None`` is
            ``model.trainable_weights``.
        learning_phase: 0 or False runs Dropout, BatchNormalization and the like as at inference, 1 or True as in training.
        evaluate: True returns NumPy arrays, False the backend's tensors uncopied; in graph mode these are symbolic, to be
            run with ``feed_dict``.
        class_weight: dict from class index to weight, as in ``train_on_batch``.
        clip: True clips as the optimizer does in training (``clipnorm``, ``clipvalue``, ``global_clipnorm``), False
            returns raw gradients. Weights that training does not update are never clipped.
        unconnected_gradients: for a param the loss does not depend on: ``"none"`` gives ``None`` with a warning,
            ``"zero"`` zeros, ``"raise"`` raises ValueError naming it.
        batch_size: splits arrays into batches of this size; the result is then the mean of the batches' gradients,
            weighted by the number of samples in each.
        steps: with batches, how many to take at most.
        verbose: 1 shows Keras's progress bar over the batches.

    Returns the gradients in the structure of ``params``, each of its param's shape and dtype.

    Raises ``NotCompiledError``, ``UnsupportedModelError``, ``UnsupportedVersionError``, ``InvalidParamsError``, and
    whatever Keras raises for data that does not fit.
    """
    return value_and_gradients(
        model,
        x,
        y,
        params,
        sample_weight,
        learning_phase,
        evaluate,
        class_weight=class_weight,
        clip=clip,
        unconnected_gradients=unconnected_gradients,
        batch_size=batch_size,
        steps=steps,
        verbose=verbose,
    )[1]


def value_and_gradients(
    model,
    x,
    y=None,
    params=None,
    sample_weight=None,
    learning_phase=0,
    evaluate=True,
    *,
    class_weight=None,
    clip=True,
    unconnected_gradients="none",
    batch_size=None,
    steps=None,
    verbose=0
):
    """The training loss and its gradients: ``(loss, gradients)``. Arguments as for ``get_gradients``.

    The loss is the scalar that ``train_on_batch`` minimises (data losses times loss weights, regularisers, ``add_loss``),
    a NumPy scalar with ``evaluate=True``.
    """
    function = GradientFunction(model, params, clip, unconnected_gradients)
    if not batches.is_batched(x, batch_size, steps):
        return function.value_and_gradients(x, y, sample_weight, learning_phase, evaluate, class_weight)
    function.adapter.require_compiled(model)  # before anything is drawn from a generator
    return batches.mean(
        function,
        batches.iterate(function.adapter, model, x, y, sample_weight, batch_size=batch_size, steps=steps),
        learning_phase=learning_phase,
        evaluate=evaluate,
        class_weight=class_weight,
        verbose=verbose,
    )


def gradient_function(model, params=None, *, clip=True, unconnected_gradients="none"):
    """A ``GradientFunction`` of the model: what ``get_gradients`` does, with the arguments that stay the same bound.

    Arguments as for ``get_gradients``. The function holds the model; what it builds is kept per model and shared.
    """
    adapter_for(model).require_compiled(model)
    return GradientFunction(model, params, clip, unconnected_gradients)


class GradientFunction(object):
    """Gradients of one model's training loss by fixed params; see ``gradient_function``."""

    def __init__(self, model, params, clip, unconnected_gradients):
        if unconnected_gradients not in UNCONNECTED:
            raise ValueError("unconnected_gradients must be one of %s, got %r" % (", ".join(UNCONNECTED), unconnected_gradients))
        self.adapter = adapter_for(model)
        self._model = model
        self._requested = params
        self._clip = bool(clip)
        self._unconnected = unconnected_gradients

    def __repr__(self):
        return "GradientFunction(%r, params=%r)" % (getattr(self._model, "name", None), self._requested)

    @property
    def params(self):
        """The nest of params the gradients are by; for ``None`` the model's trainable weights as they are now."""
        return Params(self.adapter, self._model, self._requested).structure

    def __call__(self, x, y=None, sample_weight=None, learning_phase=0, evaluate=True, class_weight=None):
        """The gradients of one batch, in the structure of ``params``."""
        return self.value_and_gradients(x, y, sample_weight, learning_phase, evaluate, class_weight)[1]

    def value_and_gradients(self, x, y=None, sample_weight=None, learning_phase=0, evaluate=True, class_weight=None):
        """The loss and gradients of one batch."""
        adapter, model = self.adapter, self._model
        adapter.require_compiled(model)
        batch = Batch(x, y, sample_weight, class_weight)
        adapter.build(model, batch)
        params = Params(adapter, model, self._requested)
        request = Request(int(bool(learning_phase)), self._clip, bool(evaluate))
        loss, gradients = adapter.gradients(model, params.unique, batch, request)
        gradients = [
            self._connected(params, place, gradient, evaluate) for place, gradient in enumerate(gradients)
        ]
        if evaluate:
            loss = adapter.to_numpy(loss)
            gradients = [None if gradient is None else adapter.to_numpy(gradient) for gradient in gradients]
        return loss, params.pack(gradients)

    def _connected(self, params, place, gradient, evaluate):
        if gradient is not None:
            return gradient
        if self._unconnected == "zero":
            return self.adapter.zeros_like(params.unique[place], evaluate)
        message = "the training loss does not depend on %s: its gradient is None" % params.names[place]
        if self._unconnected == "raise":
            raise ValueError(message + "; pass unconnected_gradients='zero' or 'none' to allow this")
        warnings.warn(message, UserWarning, stacklevel=4)
        return None


def feed_dict(model, x, y=None, sample_weight=None, learning_phase=0):
    """What ``session.run`` needs to evaluate ``get_gradients(..., evaluate=False)`` in graph mode.

    Arguments as for ``get_gradients``. Returns a dict from placeholder to array. Raises ``UnsupportedModelError`` in eager
    mode, which has nothing to feed.
    """
    adapter = adapter_for(model)
    adapter.require_compiled(model)
    return adapter.feed_dict(model, Batch(x, y, sample_weight, None), int(bool(learning_phase)))
