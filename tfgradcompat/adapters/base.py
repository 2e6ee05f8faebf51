"""What every adapter answers. The facade knows only this.

An adapter serves all models of one ``Environment`` and keeps nothing of a model but what its weak cache holds.
"""
import numbers
from collections import namedtuple

import numpy as np

from ..errors import InvalidParamsError, NotCompiledError, UnsupportedModelError
from ..selectors import Candidate
from ..weakcache import WeakCache
from . import taps

Batch = namedtuple("Batch", "x y sample_weight class_weight")
Batch.__doc__ = "One batch as the caller gave it; each field is whatever train_on_batch of the model's Keras takes."

Request = namedtuple("Request", "learning_phase clip evaluate zeros")
Request.__doc__ = """How a result is wanted: ``learning_phase`` 0 or 1; ``clip``, ``evaluate`` and ``zeros``, zeros instead of ``None`` for a tap
that has no gradient, booleans."""


class Adapter(object):
    """One era of Keras behind one small protocol.

    Subclasses implement the methods that raise ``NotImplementedError``.
    """

    def __init__(self, environment):
        self.environment = environment
        self.cache = WeakCache()

    # -- what the model is -------------------------------------------------------------------------------------------

    def require_compiled(self, model):
        """Raise ``NotCompiledError`` if the model has no training loss."""
        if getattr(model, "optimizer", None) is None:
            raise NotCompiledError(
                "%s has not been compiled, so it has no training loss; call model.compile(optimizer, loss) first" % label(model)
            )

    def build(self, model, batch):
        """Create the weights of a model that waits for its first batch; leaves a built one alone."""
        raise NotImplementedError

    def trainable_weights(self, model):
        return list(model.trainable_weights)

    def weights(self, model):
        """All weights of the model, trainable or not, each once."""
        return list(model.weights)

    def weight_name(self, weight):
        return getattr(weight, "path", None) or weight.name

    def layers(self, model):
        """The model, which is first, and all layers in it, each once."""
        raise NotImplementedError

    def inputs(self, model):
        """The model's symbolic inputs; none if it was built by calling it."""
        return list(getattr(model, "inputs", None) or ())

    def tap(self, model, leaf):
        """The ``Tap`` for a layer output, a model input or a layer; ``None`` if ``leaf`` is none of this model's."""
        return taps.resolve(self.layers(model), self.inputs(model), leaf)

    def positional_input(self, model, which):
        """The ``Tap`` of the input at a position, of a model that has no symbolic inputs."""
        if isinstance(which, bool) or not isinstance(which, numbers.Integral) or which < 0:
            raise InvalidParamsError(
                "%s was built by calling it and has no names for its inputs; select one by its position, 0 or more, got %r"
                % (label(model), which)
            )
        return taps.Tap("input_%d" % which, index=int(which))

    def candidates(self, model, kind):
        """The ``Candidate`` objects of one kind of ``selectors.KINDS``, in order."""
        layers = self.layers(model)
        if kind == "inputs":
            return [Candidate(taps.input_name(tensor, index), tensor) for index, tensor in enumerate(self.inputs(model))]
        if kind == "outputs":
            return taps.output_candidates(model, layers)
        weights = self.weights(model) if kind == "weights" else self.trainable_weights(model)
        owners = {}
        for layer in layers:  # a wrapper comes before what it wraps
            if not hasattr(layer, "get_layer"):  # a model
                for weight in layer.weights:
                    owners.setdefault(id(weight), layer)
        return [Candidate(self.weight_name(weight), weight, owners.get(id(weight))) for weight in weights]

    # -- the main job ------------------------------------------------------------------------------------------------

    def gradients(self, model, params, batch, request):
        """Return (loss, gradients): a scalar and one gradient, or ``None`` where unconnected, for each of ``params``.

        Arguments:
            params: flat list of the model's weights and of taps, without duplicates.
            batch: a ``Batch``.
            request: a ``Request``. With ``evaluate`` the results are host values that ``to_numpy`` takes, without it the
                backend's tensors.

        The gradient of a tap is a list, for each call of its layer, of lists, of one value for each flat output.
        """
        raise NotImplementedError

    def per_sample_gradients(self, model, params, batch, request):
        """What ``gradients`` gives for each sample of ``batch`` alone, stacked: all at once, ``params`` being weights.

        ``None`` where samples have to be taken one by one. May raise whatever it is that cannot be done at once.
        """
        return None

    def stack(self, values):
        """Backend tensors of equal shape as one with one more dimension in front; eager mode only."""
        raise NotImplementedError

    def gradients_of(self, model, of, params, x, request):
        """Return (sum, gradients) like ``gradients``, of what ``of``, a ``taps.Of``, gives; needs no compiled model."""
        raise NotImplementedError

    def values(self, model, wanted, x, request):
        """The values of taps, as lists of lists like the gradients of taps."""
        raise NotImplementedError

    def to_numpy(self, value):
        """A dense NumPy array of one loss or gradient; ``IndexedSlices`` become dense."""
        if hasattr(value, "indices") and hasattr(value, "values"):
            return densify(value)
        return value.numpy() if hasattr(value, "numpy") else np.asarray(value)

    def zeros_like(self, weight, evaluate):
        """Zeros of a weight's shape and dtype, for ``unconnected_gradients="zero"``."""
        raise NotImplementedError

    def feed_dict(self, model, batch, learning_phase):
        """What ``session.run`` must be fed to evaluate symbolic gradients; graph mode only."""
        raise UnsupportedModelError(
            "%s runs eagerly, there is no session to feed; call get_gradients with evaluate=False and use its tensors" % label(model)
        )

    # -- many batches ------------------------------------------------------------------------------------------------

    def dataset(self, model, dataset):
        """``(elements, length)`` of a ``tf.data.Dataset``: an iterator, and a number, infinity, or ``None`` if unknown."""
        raise NotImplementedError

    def dense(self, value):
        """A dense tensor of a loss or gradient that is one, or ``IndexedSlices``; ``None`` stays ``None``."""
        raise NotImplementedError

    def progress_bar(self, target, verbose):
        """The flavour's own progress bar, for ``target`` steps or, with ``None``, for nobody knows how many."""
        options = {} if target is not None else {"interval": 0}  # standalone Keras 2.0 compares a target with its interval
        bar_class = self.environment.module("utils.generic_utils").Progbar
        if target is None and self.environment.flavour == "tf.keras" and self.environment.tensorflow.release[:2] in ((1, 5), (1, 6)):
            bar_class, target = _grown(bar_class), 1
        return bar_class(target, verbose=verbose, **options)

    def describe(self, model):
        """Facts worth printing, name -> text, beyond what the environment says."""
        return {}


def _grown(bar_class):
    """A progress bar whose target is what has been done, for releases whose own bar fails without a target."""

    class Progbar(bar_class):
        def update(self, current, *arguments, **options):
            self.target = max(self.target, current)
            bar_class.update(self, current, *arguments, **options)

    return Progbar


def densify(slices):
    """The dense array of an ``IndexedSlices`` or session ``IndexedSlicesValue``: rows that occur twice are added up."""
    indices, values, shape = (
        part.numpy() if hasattr(part, "numpy") else np.asarray(part) for part in (slices.indices, slices.values, slices.dense_shape)
    )
    dense = np.zeros(tuple(int(size) for size in shape), values.dtype)
    np.add.at(dense, indices, values)
    return dense


def label(model):
    """How messages call a model."""
    return "the model %r" % getattr(model, "name", type(model).__name__)


def unique(items):
    """The items by identity, each once, in order of first appearance."""
    seen = {}
    for item in items:
        seen.setdefault(id(item), item)
    # Insertion order: an implementation fact of CPython 3.6, a promise from 3.7 on.
    return list(seen.values())
