"""The facade: arguments in, results out. What differs between versions is the adapters' affair."""
import numbers

from . import batches, selectors
from .adapters.base import Batch, Request
from .adapters.taps import Of
from .errors import InvalidParamsError
from .params import Params, tap, unconnected
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
    verbose=0,
    as_dict=False
):
    """The gradients of the model's training loss.

    Successor of ``model.optimizer.get_gradients(model.total_loss, params)`` with ``K.function``; the value is what
    ``model.train_on_batch(x, y, sample_weight, class_weight)`` hands to the optimizer's update rule.

    Arguments:
        model: a compiled Keras model of any flavour.
        x, y, sample_weight: one batch, as ``train_on_batch`` of the model's Keras takes it: arrays of shape
            ``(batch, ...)``, or lists or dicts of these. ``x`` may also be a dataset, generator or ``Sequence`` of batches.
        params: what to differentiate by: a weight, a layer output (``layer.output``), a model input (``model.inputs[i]``), a
            layer, which means its output, a name (see ``select``), or any nest (list, tuple, dict) of these; ``None`` is
            ``model.trainable_weights``. A layer that is called several times in one pass gives a list in the order of calls.
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
        as_dict: True returns an ordered dict by readable name instead: a weight's name (Keras 3: path), a layer's, an input's.

    Returns the gradients in the structure of ``params``, each of its param's shape and dtype. Of a layer output or an input
    that is the shape it has in this batch: entry ``[i, ...]`` is the derivative of the loss by that entry, summed over nothing.

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
        as_dict=as_dict,
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
    verbose=0,
    as_dict=False
):
    """The training loss and its gradients: ``(loss, gradients)``. Arguments as for ``get_gradients``.

    The loss is the scalar that ``train_on_batch`` minimises (data losses times loss weights, regularisers, ``add_loss``),
    a NumPy scalar with ``evaluate=True``.
    """
    function = GradientFunction(model, params, clip, unconnected_gradients, as_dict)
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

    def __init__(self, model, params, clip, unconnected_gradients, as_dict=False):
        _require_choice(unconnected_gradients)
        self.adapter = adapter_for(model)
        self._model = model
        self._requested = params
        self._clip = bool(clip)
        self._unconnected = unconnected_gradients
        self._as_dict = as_dict

    def __repr__(self):
        return "GradientFunction(%r, params=%r)" % (getattr(self._model, "name", None), self._requested)

    @property
    def model(self):
        return self._model

    @property
    def params(self):
        """The nest of params the gradients are by; for ``None`` the model's trainable weights as they are now."""
        return Params(self.adapter, self._model, self._requested).structure

    def __call__(self, x, y=None, sample_weight=None, learning_phase=0, evaluate=True, class_weight=None):
        """The gradients of one batch, in the structure of ``params``."""
        return self.value_and_gradients(x, y, sample_weight, learning_phase, evaluate, class_weight)[1]

    def value_and_gradients(self, x, y=None, sample_weight=None, learning_phase=0, evaluate=True, class_weight=None):
        """The loss and gradients of one batch."""
        batch = Batch(x, y, sample_weight, class_weight)
        params, request = self.resolve(batch, learning_phase, evaluate)
        loss, gradients = self.adapter.gradients(self._model, params.unique, batch, request)
        found = self.packed(params, gradients, evaluate)
        return self.adapter.to_numpy(loss) if evaluate else loss, found

    def resolve(self, batch, learning_phase, evaluate):
        """(``Params``, ``Request``) for a batch, whose shapes make the weights of a model that has none yet."""
        self.adapter.require_compiled(self._model)
        self.adapter.build(self._model, batch)
        request = Request(int(bool(learning_phase)), self._clip, bool(evaluate), self._unconnected == "zero")
        return Params(self.adapter, self._model, self._requested), request

    def require_weights(self, reason):
        """Raise ``InvalidParamsError`` with ``reason`` if one of the params is no weight; the model has been built."""
        Params(self.adapter, self._model, self._requested).require_weights(reason)

    def packed(self, params, gradients, evaluate):
        """What the caller gets for the gradients of ``params.unique``."""
        return _packed(params, gradients, evaluate, self._unconnected, "the training loss", self._as_dict)


def _packed(params, gradients, evaluate, choice, what, as_dict):
    results = params.results(gradients, evaluate, lambda place: unconnected(params, place, choice, evaluate, what))
    return params.named(results) if as_dict else params.pack(results)


def _require_choice(unconnected_gradients):
    if unconnected_gradients not in UNCONNECTED:
        raise ValueError("unconnected_gradients must be one of %s, got %r" % (", ".join(UNCONNECTED), unconnected_gradients))


def gradients_of(
    model, x, of=None, params=None, learning_phase=0, evaluate=True, *, unconnected_gradients="none", as_dict=False
):
    """The derivative of anything the model computes; neither a loss nor a compiled model is needed.

    Successor of ``K.gradients(model.output[:, c], params)``: class activation maps, saliency, deep dream.

    Arguments:
        model: a Keras model of any flavour.
        x: one batch of inputs, as ``predict_on_batch`` of the model's Keras takes it.
        of: what to differentiate. ``None``: the sum of all outputs. An int or a tuple of ints and slices: that entry of the
            output of each sample, summed over the batch (``of=3`` is ``output[:, 3]``). A layer output, a layer or its name: the
            sum of that. A callable: it gets the model's outputs, as the model returns them, and returns a tensor, which is summed;
            keep the callable, since what is compiled for it is dropped with it.
        params, evaluate, unconnected_gradients, as_dict: as for ``get_gradients``. In graph mode with ``evaluate=False`` the
            tensors are to be run with ``feed_dict(model, x)``.
        learning_phase: 0 or False runs the model as ``predict`` does, 1 or True as in training.

    Returns the gradients in the structure of ``params``.

    Raises ``UnsupportedModelError``, ``UnsupportedVersionError``, ``InvalidParamsError``, ValueError for an ``of`` that does not
    fit the outputs, and whatever Keras raises for data that does not fit.
    """
    _require_choice(unconnected_gradients)
    adapter = adapter_for(model)
    adapter.build(model, Batch(x, None, None, None))
    resolved = Params(adapter, model, params)
    request = Request(int(bool(learning_phase)), False, bool(evaluate), unconnected_gradients == "zero")
    target = Of(_target(adapter, model, of))
    _, gradients = adapter.gradients_of(model, target, resolved.unique, x, request)
    return _packed(resolved, gradients, evaluate, unconnected_gradients, "what is differentiated", as_dict)


def _target(adapter, model, of):
    if of is None:
        return None
    if isinstance(of, numbers.Integral):
        return (int(of),)
    if isinstance(of, (tuple, list)):
        return tuple(of)
    if isinstance(of, str):
        of = selectors.select(adapter, model, of, "outputs")
    found = tap(adapter, model, of)
    if found is None and (not callable(of) or hasattr(of, "get_weights")):
        raise InvalidParamsError(
            "%r is no output, no layer of the model %r and no function of its outputs" % (of, getattr(model, "name", "?"))
        )
    return of if found is None else found


def get_outputs(model, layers, x, learning_phase=0, *, evaluate=True, as_dict=False):
    """The outputs of layers (activations) for one batch.

    Arguments:
        model: a Keras model of any flavour; it need not be compiled.
        layers: what to compute: a layer output, a layer, its name or index in ``model.layers``, ``"*"`` for all layers, or any
            nest of these. A layer that is called several times gives a list in the order of calls.
        x: one batch of inputs, as ``predict_on_batch`` of the model's Keras takes it.
        learning_phase: 0 or False runs the model as ``predict`` does, 1 or True as in training.
        evaluate: True returns NumPy arrays, False the backend's tensors; in graph mode to be run with ``feed_dict(model, x)``.
        as_dict: True returns an ordered dict by the layers' names instead.

    Returns the outputs in the structure of ``layers``.

    Raises ``UnsupportedModelError``, ``UnsupportedVersionError``, ``InvalidParamsError``, and whatever Keras raises for data that
    does not fit.
    """
    adapter = adapter_for(model)
    adapter.build(model, Batch(x, None, None, None))

    def words(leaf):
        is_word = isinstance(leaf, (str, numbers.Integral))
        return selectors.select(adapter, model, leaf, "outputs") if is_word else leaf

    wanted = Params(adapter, model, layers, words)
    weights = [name for param, name in zip(wanted.unique, wanted.names) if param not in wanted.taps]
    if weights:
        raise InvalidParamsError("%s is a weight, not the output of a layer" % weights[0])
    values = adapter.values(model, wanted.unique, x, Request(int(bool(learning_phase)), False, bool(evaluate), False))
    results = wanted.results(values, evaluate, None)
    return wanted.named(results) if as_dict else wanted.pack(results)


def select(model, which, kind="weights"):
    """Parts of a model by words, as what ``params`` takes.

    Arguments:
        model: a Keras model of any flavour.
        which: ``"*"`` for all; a name, or a part of one that only one has; the name of a layer, or a layer, for all that is its;
            an index, for outputs that in ``model.layers``; or a list of these.
        kind: ``"weights"``, ``"trainable_weights"``, ``"outputs"`` or ``"inputs"``.

    A weight is called ``dense/kernel:0`` by Keras 2, ``dense/kernel`` or, by its path, ``sequential/dense/kernel`` by Keras 3; all
    versions take each of these, and ``lstm/kernel`` for ``lstm/lstm_cell/kernel``.

    Returns a weight or a symbolic tensor, or for ``"*"``, a list, or a layer with several, a list of these. Of a model without
    symbolic tensors (a subclassed one) outputs are the layers themselves.

    Raises ``InvalidParamsError`` if nothing or more than one thing has the name; it lists the candidates.
    """
    return selectors.select(adapter_for(model), model, which, kind)


def feed_dict(model, x, y=None, sample_weight=None, learning_phase=0):
    """What ``session.run`` needs to evaluate ``get_gradients(..., evaluate=False)`` in graph mode.

    The same for ``gradients_of`` and ``get_outputs``, with ``x`` and ``learning_phase`` alone.

    Arguments as for ``get_gradients``. Returns a dict from placeholder to array. Raises ``UnsupportedModelError`` in eager
    mode, which has nothing to feed.
    """
    adapter = adapter_for(model)
    if y is not None or sample_weight is not None:
        adapter.require_compiled(model)
    return adapter.feed_dict(model, Batch(x, y, sample_weight, None), int(bool(learning_phase)))
