"""Many batches: where they come from, and the mean of their gradients.

The mean is weighted by the number of samples in each batch and kept as one running mean, however many batches there are.
"""
import itertools
import math
from collections.abc import Mapping

import numpy as np

from .params import flatten, pack

DATASET, SEQUENCE, ITERATOR, ARRAYS = "dataset", "`keras.utils.Sequence`", "Python generator or iterator", "arrays"


def is_batched(x, batch_size, steps):
    """Whether ``x`` is to be taken in batches: it yields them itself, or is split by ``batch_size``."""
    return batch_size is not None or steps is not None or kind(x) != ARRAYS


def kind(x):
    """What ``x`` is: ``DATASET``, ``SEQUENCE``, ``ITERATOR``, or ``ARRAYS`` and nests of these."""
    if any(cls.__name__ in ("Dataset", "DatasetV2") and cls.__module__.startswith("tensorflow") for cls in type(x).__mro__):
        return DATASET
    if x is None or hasattr(x, "shape") or isinstance(x, (list, tuple, Mapping, str, bytes)):
        return ARRAYS
    if hasattr(x, "__next__"):
        return ITERATOR
    # num_batches: Sequences of Keras 3 may have that and no length.
    if hasattr(x, "__getitem__") and (hasattr(x, "__len__") or hasattr(type(x), "num_batches")):
        return SEQUENCE
    return ITERATOR if hasattr(x, "__iter__") else ARRAYS


class Batches(object):
    """Batches of one source, one pass.

    Iterating gives ``(x, y, sample_weight)``, the latter two ``None`` where a batch has none. ``length`` is how many there
    will be, or ``None`` if only the end will tell.
    """

    def __init__(self, elements, length):
        self.length = length
        self._elements = elements

    def __iter__(self):
        return self._elements


def iterate(adapter, model, x, y=None, sample_weight=None, *, batch_size=None, steps=None):
    """The ``Batches`` of whatever ``x`` is.

    Arguments:
        adapter: the adapter that serves ``model``; it knows how to read a dataset.
        x, y, sample_weight: as for ``get_gradients``. Of a dataset, generator or ``Sequence`` each element is ``x``,
            ``(x,)``, ``(x, y)`` or ``(x, y, sample_weight)``.
        batch_size: for arrays, how many samples a batch has; the last one may have fewer.
        steps: how many batches to take at most. A source that ends earlier ends the pass; nothing is drawn beyond the last
            batch taken.
    """
    source = kind(x)
    for name, value in (("batch_size", batch_size), ("steps", steps)):
        if value is not None and (isinstance(value, bool) or int(value) != value or value < 1):
            raise ValueError("`%s` must be a positive integer, got %r" % (name, value))
    if source == ARRAYS:
        elements, length = _slices(x, y, sample_weight, batch_size)
    else:
        for name, value in (("y", y), ("sample_weight", sample_weight)):
            if value is not None:
                raise ValueError(
                    "`%s` argument is not supported when using %s as input: each of its elements is x, (x,), (x, y) or "
                    "(x, y, sample_weight)" % (name, source)
                )
        if batch_size is not None:
            raise ValueError(
                "The `batch_size` argument must not be specified when using %s as input, which makes the batches itself; got "
                "batch_size=%r" % (source, batch_size)
            )
        elements, length = _read(adapter, model, x, source)
        elements = map(_unpacked, elements)
    if length == math.inf and steps is None:
        raise ValueError(
            "When using %s without an end as input, specify the `steps` argument: how many of its batches to take" % source
        )
    if steps is not None:
        elements = itertools.islice(elements, int(steps))
        length = None if length is None else min(length, int(steps))
    return Batches(elements, length)


def mean(function, batches, *, learning_phase=0, evaluate=True, class_weight=None, verbose=0):
    """The loss and gradients of many batches: means weighted by the number of samples in each.

    Arguments:
        function: a ``GradientFunction``.
        batches: a ``Batches``.
        evaluate: True sums up in NumPy, in double precision; False in the backend's tensors.
        verbose: 1 shows the flavour's progress bar.

    A weight whose gradient is ``None`` in some batches counts as zero in these; ``None`` in all of them stays ``None``.
    Returns (loss, gradients in the structure of the function's params). Raises ValueError if there is no batch.
    """
    if not evaluate and function.adapter.environment.mode == "graph":
        raise ValueError(
            "many batches have no symbolic gradient in graph mode; pass evaluate=True for arrays, or one batch at a time"
        )
    bar = function.adapter.progress_bar(batches.length, verbose) if verbose else None
    samples, done, structure, means = 0, 0, None, None
    for done, (x, y, sample_weight) in enumerate(batches, 1):
        loss, structure = function.value_and_gradients(x, y, sample_weight, learning_phase, evaluate, class_weight)
        size = sample_count(x)
        samples += size
        values = [loss] + flatten(structure)
        if means is None:
            function.require_weights(
                "layer outputs and inputs have other entries in each batch, so there is no mean over batches; pass weights, or one "
                "batch at a time"
            )
            means = [_RunningMean(evaluate) for _ in values]
        for one, value in zip(means, values):
            one.add(value if evaluate else function.adapter.dense(value), size, samples)
        if bar is not None:
            if done == batches.length:
                bar.interval = 0  # old releases may hold back the last update, too, if it comes soon after another
            bar.update(done, [("loss", float(loss))])
    if not done:
        raise ValueError("there is no batch in `x`: it is empty, or a generator that has been used up; nothing to average")
    if bar is not None and done != batches.length:
        bar.target, bar.interval = done, 0  # now known, and what makes the bar end its line
        bar.update(done)
    loss, gradients = means[0].value, [one.value for one in means[1:]]
    return loss, pack(structure, gradients)


class _RunningMean(object):
    """A weighted mean of which every prefix is one, so that no sum can overflow."""

    def __init__(self, in_numpy):
        self._in_numpy = in_numpy
        self._mean = self._dtype = None

    def add(self, value, weight, total):
        """Count ``value`` ``weight`` times; ``total`` is the sum of all weights up to here. ``None`` counts as zero."""
        share = weight / float(total) if total else 0.0
        if value is None:
            if self._mean is not None:
                self._mean = self._mean * (1 - share)
            return
        if self._in_numpy:
            self._dtype = value.dtype
            value = np.asarray(value, "float64")
        if self._mean is None:
            self._mean = value * share
        else:
            self._mean = self._mean + (value - self._mean) * share

    @property
    def value(self):
        if self._mean is None or not self._in_numpy:
            return self._mean
        return np.asarray(self._mean, self._dtype)[()]


def _read(adapter, model, x, source):
    """(elements, length) of a source that makes batches itself."""
    if source == DATASET:
        return adapter.dataset(model, x)
    if source == ITERATOR:
        return iter(x), None
    length = len(x) if hasattr(x, "__len__") else x.num_batches  # None: without end
    if length is None:
        return (x[place] for place in itertools.count()), math.inf
    return (x[place] for place in range(length)), length


def _unpacked(element):
    """(x, y, sample_weight) of one element, by Keras's rules."""
    if not isinstance(element, (list, tuple)):
        return element, None, None
    if 1 <= len(element) <= 3:
        return (tuple(element) + (None, None))[:3]
    raise ValueError(
        "Data is expected to be in format `x`, `(x,)`, `(x, y)`, or `(x, y, sample_weight)`, found %d items" % len(element)
    )


def _slices(x, y, sample_weight, batch_size):
    """(elements, length) of arrays cut into batches; each is cut only when its turn comes."""
    if batch_size is None:
        raise ValueError("`steps` counts batches, and arrays are one: pass `batch_size`, too")
    data = [_with_arrays(part) for part in (x, y, sample_weight)]
    sizes = sorted(set(_length(leaf) for part in data for leaf in flatten(part) if leaf is not None))
    if len(sizes) > 1:
        raise ValueError(
            "Data cardinality is ambiguous: x, y and sample_weight hold arrays of %s samples. Make sure all arrays contain the "
            "same number of samples." % " and ".join(map(str, sizes))
        )
    starts = range(0, sizes[0] if sizes else 0, int(batch_size))
    return (tuple(_cut(part, start, start + int(batch_size)) for part in data) for start in starts), len(starts)


def _with_arrays(nest):
    """A nest in which lists of plain numbers are arrays, so that every leaf can be cut."""
    if isinstance(nest, (list, tuple)) and nest and not any(hasattr(leaf, "shape") or leaf is None for leaf in flatten(nest)):
        return np.asarray(nest)
    if isinstance(nest, Mapping):
        return {key: _with_arrays(nest[key]) for key in nest}
    if isinstance(nest, (list, tuple)):
        return [_with_arrays(item) for item in nest]
    return nest.tocsr() if hasattr(nest, "tocsr") else nest  # other sparse matrices have no rows


def _cut(nest, start, stop):
    if isinstance(nest, Mapping):
        return {key: _cut(nest[key], start, stop) for key in nest}
    if isinstance(nest, (list, tuple)):
        return [_cut(item, start, stop) for item in nest]
    if nest is None:
        return None
    return (nest.iloc if hasattr(nest, "iloc") else nest)[start:stop]  # iloc: DataFrames take slices as labels


def sample_count(x):
    """The number of samples in a batch."""
    leaves = [leaf for leaf in flatten(x) if leaf is not None]
    return _length(leaves[0]) if leaves else 0


def _length(leaf):
    shape = getattr(leaf, "shape", None)
    if shape is None:
        shape = np.shape(leaf)
    return int(shape[0]) if len(shape) else 1
