"""Gradients of single samples, and norms of gradients."""
import warnings
from collections import namedtuple

import numpy as np

from . import batches
from .adapters.base import Batch
from .api import GradientFunction, value_and_gradients
from .errors import AdapterWarning
from .params import flatten
from .weakcache import WeakCache

_taken_singly = WeakCache()  # model -> why it could not do all samples at once

GradientNorms = namedtuple("GradientNorms", "total norms")
GradientNorms.__doc__ = """Euclidean norms: ``total`` of all gradients together, ``norms`` of each, in the structure of ``params``."""


def per_sample_gradients(
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
    as_dict=False
):
    """The gradients of the training loss of each sample alone: what a batch of that one sample gives.

    For importance sampling, Fisher information, influence and privacy. In eager TensorFlow 2 all samples are done at once
    (``tf.vectorized_map``) where that can be: a model that cannot, is run sample by sample after one warning, as models always are
    in graph mode, on TensorFlow 1, and with ``run_eagerly=True``.

    Arguments: as for ``get_gradients``, with ``params`` weights, since layer outputs and inputs have an entry for each sample
        anyway, and ``x`` one batch. ``clip=True`` clips each sample's gradients by themselves.

    Returns the gradients in the structure of ``params``, each of shape ``(samples,) + weight.shape``: as much memory as the
    weights take, times the number of samples.

    Raises what ``get_gradients`` raises.
    """
    function = GradientFunction(model, params, clip, unconnected_gradients, as_dict)
    return _per_sample(function, Batch(x, y, sample_weight, class_weight), learning_phase, evaluate)


def gradient_norms(
    model,
    x,
    y=None,
    params=None,
    sample_weight=None,
    learning_phase=0,
    *,
    class_weight=None,
    clip=True,
    unconnected_gradients="none",
    per_sample=False,
    batch_size=None,
    steps=None,
    verbose=0,
    as_dict=False
):
    """The Euclidean norms of the gradients of the training loss, in double precision.

    Arguments: as for ``get_gradients``, and
        per_sample: True gives the norms of each sample's own gradients, as arrays of shape ``(samples,)``. ``batch_size`` is then
            how many samples are done at once (default: 32), which bounds the memory and changes no result.

    Returns ``GradientNorms(total, norms)``: one number, or array, for all gradients together, and one for each of ``params`` in its
    structure, ``None`` where the gradient is. A gradient that is ``None`` counts as zero in ``total``.
    """
    if not per_sample:
        gradients = value_and_gradients(
            model,
            x,
            y,
            params,
            sample_weight,
            learning_phase,
            class_weight=class_weight,
            clip=clip,
            unconnected_gradients=unconnected_gradients,
            batch_size=batch_size,
            steps=steps,
            verbose=verbose,
            as_dict=as_dict,
        )[1]
        return _norms(gradients, axes_kept=0)
    function = GradientFunction(model, params, clip, unconnected_gradients, as_dict)
    function.adapter.require_compiled(model)  # before anything is drawn from a generator
    if batch_size is None and not batches.is_batched(x, None, None):
        batch_size = 32
    found = []
    for part in batches.iterate(function.adapter, model, x, y, sample_weight, batch_size=batch_size, steps=steps):
        gradients = _per_sample(function, Batch(*(tuple(part) + (class_weight,))), learning_phase, True)
        found.append(_norms(gradients, axes_kept=1))
    if not found:
        raise ValueError("there is no sample in `x`: it is empty, or a generator that has been used up")
    columns = [[one.total] + flatten(one.norms) for one in found]
    joined = [None if column[0] is None else np.concatenate(column) for column in zip(*columns)]
    return GradientNorms(joined[0], batches.pack(found[0].norms, joined[1:]))


def _per_sample(function, batch, learning_phase, evaluate):
    adapter, model = function.adapter, function.model
    if not evaluate and adapter.environment.mode == "graph":
        raise ValueError("gradients of single samples are not symbolic in graph mode; pass evaluate=True for arrays")
    adapter.require_compiled(model)
    if batches.is_batched(batch.x, None, None):
        raise ValueError("x must be one batch of arrays; pass the batches of a dataset, generator or Sequence one by one")
    params, request = function.resolve(batch, learning_phase, evaluate)
    params.require_weights("layer outputs and inputs have an entry for each sample in what get_gradients gives; pass weights")
    gradients = _taken_singly.get(model) or _at_once(adapter, model, params, batch, request)
    failure = gradients if isinstance(gradients, Exception) else None
    if gradients is None or failure is not None:
        gradients = _one_by_one(adapter, model, params, batch, request)  # if the data's at fault, this says so better
    if failure is not None and _taken_singly.get(model) is None:
        _taken_singly.set(model, failure)
        warnings.warn(
            "the samples cannot be done all at once, so they are from now on done one by one, which is slower: %s: %s"
            % (type(failure).__name__, str(failure)[:500]),
            AdapterWarning,
            stacklevel=3,
        )
    if request.zeros:
        gradients = _with_zeros(adapter, params, gradients, batches.sample_count(batch.x), evaluate)
    return function.packed(params, gradients, evaluate)


def _at_once(adapter, model, params, batch, request):
    """One stacked gradient, or ``None``, for each of ``params.unique``; an exception if that fails, ``None`` if it is never done."""
    try:
        result = adapter.per_sample_gradients(model, params.unique, batch, request)
    except Exception as error:  # anything: what cannot be vectorised fails in many ways, and what fails otherwise will do so again
        return error.with_traceback(None)
    return None if result is None else result[1]


def _with_zeros(adapter, params, gradients, count, evaluate):
    stack = _stacker(adapter, evaluate)
    return [
        stack([adapter.zeros_like(param, evaluate)] * count) if gradient is None else gradient
        for param, gradient in zip(params.unique, gradients)
    ]


def _stacker(adapter, evaluate):
    return np.stack if evaluate else adapter.stack


def _one_by_one(adapter, model, params, batch, request):
    """One stacked gradient, or ``None``, for each of ``params.unique``."""
    found = []
    for part in batches.iterate(adapter, model, batch.x, batch.y, batch.sample_weight, batch_size=1):
        single = Batch(*(tuple(part) + (batch.class_weight,)))
        gradients = adapter.gradients(model, params.unique, single, request)[1]
        if request.evaluate:
            gradients = [None if gradient is None else adapter.to_numpy(gradient) for gradient in gradients]
        found.append(gradients)
    if not found:
        raise ValueError("there is no sample in `x`")
    stack = _stacker(adapter, request.evaluate)
    return [None if column[0] is None else stack(column) for column in zip(*found)]


def _norms(gradients, axes_kept):
    """``GradientNorms`` of a nest of arrays, over all their axes but the first ``axes_kept``."""
    squares = []
    for gradient in flatten(gradients):
        if gradient is not None:
            gradient = np.asarray(gradient, "float64")
            gradient = np.sum(np.square(gradient), axis=tuple(range(axes_kept, gradient.ndim)))
        squares.append(gradient)
    total = sum([square for square in squares if square is not None], 0.0)
    return GradientNorms(np.sqrt(total), batches.pack(gradients, [None if square is None else np.sqrt(square) for square in squares]))
