"""Elements of a ``tf.data.Dataset``, eagerly and by session, and how many there are."""
import contextlib
import math

from ..weakcache import WeakCache

INFINITE = math.inf  # what a length may be beside a number, or None for unknown


def eager_elements(dataset):
    """An iterator over the elements of a dataset of eager TensorFlow."""
    try:
        return iter(dataset)
    except TypeError:  # 1.7
        import tensorflow as tf

        return iter(tf.contrib.eager.Iterator(dataset))


def as_numpy(element):
    """An element with arrays in place of eager tensors; what is no plain tensor stays."""
    if isinstance(element, dict):
        return {key: as_numpy(value) for key, value in element.items()}
    if isinstance(element, (list, tuple)):
        return tuple(as_numpy(item) for item in element)
    return element.numpy() if hasattr(element, "numpy") and not hasattr(element, "row_splits") else element


def eager_length(tf, dataset):
    """How many elements an eager dataset has: a number, ``INFINITE``, or ``None`` if nobody knows."""
    cardinality = getattr(getattr(tf.data, "experimental", None), "cardinality", None)  # 1.13+
    if cardinality is not None:
        return _length(cardinality(dataset).numpy())
    return _length_by_kind(dataset, lambda count: count.numpy())


class SessionDatasets(object):
    """Iterators over datasets in graph mode, built once per dataset.

    Arguments:
        tf: TensorFlow, or its ``compat.v1``.
    """

    def __init__(self, tf):
        self._tf = tf
        self._built = WeakCache()

    def elements(self, dataset, graph, session_of):
        """A generator of the elements, as a session returns them.

        Arguments:
            graph: the model's graph, or ``None``; where the dataset is in one graph with it, the model's session runs it.
            session_of: ``session_of()`` is the session of the default graph.
        """
        initializer, element, _ = self._build(dataset, graph)
        with self._session(initializer.graph, graph, session_of) as session:
            session.run(initializer)
            while True:
                try:
                    values = session.run(element)
                except self._tf.errors.OutOfRangeError:
                    return
                yield values

    def length(self, dataset, graph, session_of):
        _, element, cardinality = self._build(dataset, graph)
        if cardinality is None:
            return _length_by_kind(dataset, self._constant)
        with self._session(cardinality.graph, graph, session_of) as session:
            return _length(session.run(cardinality))

    def _build(self, dataset, graph):
        def make():
            # 1.13 and later say which graph a dataset is in; before, it had better be the model's.
            own = getattr(getattr(dataset, "_variant_tensor", None), "graph", None)
            with own.as_default() if own is not None else graph.as_default() if graph is not None else _nothing():
                with self._tf.name_scope("tfgradcompat"), self._tf.control_dependencies(None):
                    return self._make(dataset)

        return self._built.setdefault(dataset, make)

    def _make(self, dataset):
        data = getattr(self._tf, "data", None)
        if hasattr(data, "make_initializable_iterator"):  # 1.13+
            iterator = data.make_initializable_iterator(dataset)
        else:
            iterator = dataset.make_initializable_iterator()
        experimental = getattr(data, "experimental", None)
        cardinality = experimental.cardinality(dataset) if hasattr(experimental, "cardinality") else None
        return iterator.initializer, iterator.get_next(), cardinality

    @contextlib.contextmanager
    def _session(self, graph, model_graph, session_of):
        if model_graph is None or graph is model_graph:
            with graph.as_default():
                session = session_of()
            yield session
        else:
            with self._tf.Session(graph=graph) as session:
                yield session

    def _constant(self, tensor):
        from tensorflow.python.framework import tensor_util

        return tensor_util.constant_value(tensor)


def _length(cardinality):
    cardinality = int(cardinality)
    return INFINITE if cardinality == -1 else None if cardinality < 0 else cardinality


def _length_by_kind(dataset, value):
    """Whether a dataset repeats without end, told by how it was made: TensorFlow up to 1.12 has no cardinality."""
    while dataset is not None:
        kind = type(dataset).__name__
        if kind == "RepeatDataset" and _negative(value(dataset._count)):
            return INFINITE
        if kind == "TakeDataset" and not _negative(value(dataset._count)):
            return None
        dataset = getattr(dataset, "_input_dataset", None)
    return None


def _negative(count):
    return count is not None and int(count) < 0


@contextlib.contextmanager
def _nothing():
    yield
