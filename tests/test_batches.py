"""Many batches: the mean of the batches' training gradients, each taken from training by itself."""
import re

import numpy as np
import pytest

import models
import reference
import support
from support import GRAPH, Version, assert_close, keras, read, tf
from tfgradcompat import gradient_function, get_gradients, value_and_gradients

ROWS, SIZE = 7, 3  # batches of 3, 3 and 1


def _model(**kwargs):
    model, _ = models.dense(**kwargs)
    return model, models.data(ROWS, 3), models.data(ROWS, 2, seed=8)


def _pieces(*arrays, **options):
    rows, size = options.get("rows", ROWS), options.get("size", SIZE)
    return [tuple(array[start:start + size] for array in arrays) for start in range(0, rows, size)]


def _expected(model, batches, class_weight=None):
    """(loss, gradients): the means of what training on each batch gives, weighted by samples."""
    losses, gradients, sizes = [], [], []
    with reference.ordered(model):
        for batch in batches:
            loss, gradient = reference.training_loss_and_gradient(model, *batch, class_weight=class_weight)
            losses.append(loss)
            gradients.append([gradient[place] for place in sorted(gradient)])
            sizes.append(len(batch[0]))
    means = [np.average(parts, axis=0, weights=sizes) for parts in zip(*gradients)]
    return np.float32(np.average(losses, weights=sizes)), means


def _check(model, expected, *args, **kwargs):
    loss, gradients = value_and_gradients(model, *args, learning_phase=1, **kwargs)
    assert_close(loss, expected[0])
    assert_close(gradients, expected[1])
    assert all(one.dtype == value.dtype for one, value in zip(gradients, read(model.trainable_weights)))
    return gradients


def _has_datasets():
    return hasattr(tf, "data")


def _dataset(*arrays, **options):
    support.requires(_has_datasets(), "no tf.data")
    dataset = tf.data.Dataset.from_tensor_slices(arrays)
    return dataset.batch(options.get("size", SIZE))


class _Batches(object):
    """Elements by place and their number: what a ``keras.utils.Sequence`` is."""

    def __init__(self, batches):
        self.batches, self.asked = batches, []

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, place):
        self.asked.append(place)
        if place >= len(self.batches):
            raise IndexError(place)
        return self.batches[place]


def test_arrays():
    model, x, y = _model()
    expected = _expected(model, _pieces(x, y))
    _check(model, expected, x, y, batch_size=SIZE)
    _check(model, expected, x.tolist(), y.tolist(), batch_size=SIZE)
    _check(model, _expected(model, [(x, y)]), x, y, batch_size=100)


@pytest.mark.per_era
def test_arrays_with_sample_weights():
    model, x, y = _model()
    weights = models.data(ROWS, seed=3) + 1.5
    _check(model, _expected(model, _pieces(x, y, weights)), x, y, sample_weight=weights, batch_size=SIZE)


@pytest.mark.per_era
@pytest.mark.parametrize("shape", ["list", "dict"])
def test_several_inputs_and_outputs(shape):
    model, batch = models.two_by_two(shape=shape)
    whole = [get_gradients(model, learning_phase=1, **batch)]  # an even split: the mean is that of the whole
    assert_close(whole[0], reference.training_gradient(model, **batch))
    halves = get_gradients(model, learning_phase=1, batch_size=2, **batch)
    assert_close(halves, whole[0])


@pytest.mark.per_era
def test_memory_mapped_arrays_are_read_by_slices(tmp_path):
    model, x, y = _model()
    path = str(tmp_path / "x.npy")
    np.save(path, x)
    mapped, seen = np.load(path, mmap_mode="r"), []

    class Noting(np.memmap):
        def __getitem__(self, item):
            seen.append(item)
            return np.asarray(super(Noting, self).__getitem__(item))

        def __array_finalize__(self, obj):
            super(Noting, self).__array_finalize__(obj)

    _check(model, _expected(model, _pieces(x, y)), mapped.view(Noting), y, batch_size=SIZE)
    assert [(item.start, item.stop) for item in seen if isinstance(item, slice)] == [(0, 3), (3, 6), (6, 9)]


@pytest.mark.parametrize("form", [tuple, list])
def test_generator(form):
    model, x, y = _model()
    expected = _expected(model, _pieces(x, y))
    _check(model, expected, (form(batch) for batch in _pieces(x, y)))


@pytest.mark.per_era
def test_generator_with_sample_weights_and_class_weights():
    model, _ = models.classes()
    x = models.data(ROWS, 3)
    y = np.eye(3, dtype="float32")[[0, 2, 1, 2, 0, 1, 1]]
    class_weight = {0: 1.0, 1: 0.5, 2: 3.0}
    expected = _expected(model, _pieces(x, y), class_weight)
    _check(model, expected, iter(_pieces(x, y)), class_weight=class_weight)
    weights = models.data(ROWS, seed=3) + 1.5
    _check(model, _expected(model, _pieces(x, y, weights)), iter(_pieces(x, y, weights)))


@pytest.mark.per_era
def test_batches_without_targets():
    model, batch = models.no_targets()
    x = batch["x"]
    expected = [reference.training_gradient(model, x[:2]), reference.training_gradient(model, x[2:])]
    expected = [np.mean([one[place] for one in expected], axis=0) for place in sorted(expected[0])]
    for elements in ([(x[:2],), (x[2:],)], [x[:2], x[2:]]):
        assert_close(get_gradients(model, iter(elements), learning_phase=1), expected)


def test_steps_bound_what_is_taken():
    model, x, y = _model()
    pieces = _pieces(x, y)
    expected = _expected(model, pieces[:2])
    drawn = []

    def endless():
        while True:
            for piece in pieces:
                drawn.append(piece)
                yield piece

    _check(model, expected, endless(), steps=2)
    assert len(drawn) == 2
    _check(model, expected, x, y, batch_size=SIZE, steps=2)
    sequence = _Batches(pieces)
    _check(model, expected, sequence, steps=2)
    assert sequence.asked == [0, 1]


@pytest.mark.per_era
def test_fewer_batches_than_steps():
    model, x, y = _model()
    _check(model, _expected(model, _pieces(x, y)), iter(_pieces(x, y)), steps=10)


def test_sequence():
    model, x, y = _model()
    expected = _expected(model, _pieces(x, y))
    sequence = _Batches(_pieces(x, y))
    _check(model, expected, sequence)
    assert sequence.asked == [0, 1, 2]
    _check(model, expected, sequence)  # any number of times


def test_keras_sequence():
    model, x, y = _model()
    base = keras.utils.PyDataset if hasattr(keras.utils, "PyDataset") else keras.utils.Sequence
    sequence = type("Sequence", (_Batches, base), {})(_pieces(x, y))
    _check(model, _expected(model, _pieces(x, y)), sequence)


@pytest.mark.per_era
def test_sequence_without_end():
    support.requires(hasattr(keras.utils, "PyDataset"), "every Sequence has a length")

    class Endless(keras.utils.PyDataset):
        num_batches = None

        def __getitem__(self, place):
            return pieces[place % len(pieces)]

    model, x, y = _model()
    pieces = _pieces(x, y)
    _check(model, _expected(model, pieces + pieces[:1]), Endless(), steps=4)
    with pytest.raises(ValueError, match="`steps`"):
        get_gradients(model, Endless())


def test_dataset():
    model, x, y = _model()
    dataset = _dataset(x, y)
    expected = _expected(model, _pieces(x, y))
    _check(model, expected, dataset)
    _check(model, expected, dataset)
    _check(model, _expected(model, _pieces(x, y)[:2]), dataset, steps=2)
    _check(model, expected, dataset)  # from its beginning again


@pytest.mark.per_era
def test_dataset_with_sample_weights():
    model, x, y = _model()
    weights = models.data(ROWS, seed=3) + 1.5
    _check(model, _expected(model, _pieces(x, y, weights)), _dataset(x, y, weights))


@pytest.mark.per_era
def test_dataset_of_dicts():
    model, batch = models.two_by_two(shape="dict")
    expected = reference.training_gradient(model, **batch)
    assert_close(get_gradients(model, _dataset(batch["x"], batch["y"], size=2), learning_phase=1), expected)


@pytest.mark.per_era
def test_dataset_without_end():
    model, x, y = _model()
    pieces = _pieces(x, y)
    dataset = _dataset(x, y).repeat()
    with pytest.raises(ValueError, match="`steps`"):
        get_gradients(model, dataset)
    _check(model, _expected(model, pieces + pieces[:1]), dataset, steps=4)
    _check(model, _expected(model, pieces + pieces[:1]), dataset.take(4))


def test_a_dataset_is_built_once():
    support.requires(GRAPH and not (support.STANDALONE and support.TF >= Version("2.0")), "no graph to grow")
    model, x, y = _model()
    dataset = _dataset(x, y)
    get_gradients(model, dataset)
    size = support.graph_size(model)
    get_gradients(model, dataset)
    get_gradients(model, dataset, learning_phase=1, steps=1)
    get_gradients(model, dataset, learning_phase=1)
    assert support.graph_size(model) == size


@pytest.mark.per_era
def test_inference_phase():
    model, batch = models.batch_norm()
    whole = get_gradients(model, **batch)  # at inference the samples do not see each other
    assert_close(get_gradients(model, batch_size=2, **batch), whole)


@pytest.mark.per_era
def test_nothing_moves():
    model, batch = models.batch_norm()
    get_gradients(model, learning_phase=1, batch_size=2, **batch)
    before = support.snapshot(model)
    get_gradients(model, learning_phase=1, batch_size=2, **batch)
    after = support.snapshot(model)
    assert list(before) == list(after)
    for name in before:
        np.testing.assert_array_equal(before[name], after[name], err_msg=name)


@pytest.mark.per_era
def test_structures():
    model, x, y = _model()
    kernel, bias = model.trainable_weights[:2]
    gradients = get_gradients(model, x, y, params={"a": kernel, "b": [bias, kernel]}, batch_size=SIZE)
    assert sorted(gradients) == ["a", "b"] and isinstance(gradients["b"], list)
    assert_close(gradients["a"], gradients["b"][1])
    assert get_gradients(model, x, y, params=bias, batch_size=SIZE).shape == (4,)


@pytest.mark.per_era
def test_unconnected_in_every_batch():
    model, x, y = _model()
    support.requires(support.EAGER, "an unconnected weight cannot be made to train")
    extra = support.layers.Dense(1)
    extra.build((None, 3))
    model.extra = extra
    support.requires(any(weight is extra.kernel for weight in model.weights), "a functional model holds no further layers")
    assert get_gradients(model, x, y, params=extra.kernel, batch_size=SIZE) is None


@pytest.mark.per_era
def test_tensors():
    model, batch = models.embedding()
    if GRAPH:
        with pytest.raises(ValueError, match="symbolic"):
            get_gradients(model, evaluate=False, batch_size=2, **batch)
        return
    gradients = get_gradients(model, evaluate=False, batch_size=2, learning_phase=1, **batch)
    assert all(tf.is_tensor(one) if hasattr(tf, "is_tensor") else isinstance(one, tf.Tensor) for one in gradients)
    assert_close(gradients, get_gradients(model, learning_phase=1, **batch))


@pytest.mark.per_era
@pytest.mark.parametrize("source", ["arrays", "generator", "dataset"])
def test_progress_bar(source, capsys):
    model, x, y = _model()
    if source == "arrays":
        get_gradients(model, x, y, batch_size=SIZE, verbose=1)
    elif source == "generator":
        get_gradients(model, iter(_pieces(x, y)), verbose=1)
    else:
        get_gradients(model, _dataset(x, y), verbose=1)
    shown = capsys.readouterr().out
    assert re.search(r"3/3", shown) and "loss" in shown
    get_gradients(model, x, y, batch_size=SIZE)
    assert not capsys.readouterr().out


@pytest.mark.per_era
def test_no_batch():
    model, x, y = _model()
    for empty in (iter([]), _Batches([])):
        with pytest.raises(ValueError, match="empty"):
            get_gradients(model, empty)
    with pytest.raises(ValueError, match="empty"):
        get_gradients(model, x[:0], y[:0], batch_size=SIZE)


@pytest.mark.per_era
def test_arguments_that_do_not_go_together():
    model, x, y = _model()
    for source in [iter([]), _Batches([])] + ([_dataset(x, y)] if _has_datasets() else []):
        with pytest.raises(ValueError, match="`y` argument is not supported"):
            get_gradients(model, source, y)
        with pytest.raises(ValueError, match="`sample_weight` argument is not supported"):
            get_gradients(model, source, sample_weight=np.ones(3))
        with pytest.raises(ValueError, match="`batch_size`"):
            get_gradients(model, source, batch_size=2)
    with pytest.raises(ValueError, match="`batch_size`"):
        get_gradients(model, x, y, steps=2)
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="positive integer"):
            get_gradients(model, x, y, batch_size=wrong)
    with pytest.raises(ValueError, match="cardinality"):
        get_gradients(model, x, y[:6], batch_size=SIZE)
    with pytest.raises(ValueError, match="format"):
        get_gradients(model, iter([(x, y, y, y)]))


@pytest.mark.per_era
def test_nothing_is_drawn_for_a_model_without_loss():
    inputs = support.layers.Input(shape=(3,))
    model = support.Model(inputs, support.layers.Dense(1)(inputs))
    source = iter([(models.data(3, 3), models.data(3, 1))])
    with pytest.raises(RuntimeError):
        get_gradients(model, source)
    assert len(list(source)) == 1


def test_a_model_that_waits_for_its_first_batch():
    model, batch = models.deferred()
    twin, _ = models.deferred()
    twin.train_on_batch(**batch)
    for weight, value in zip(twin.weights, model.get_weights() if model.built and model.weights else []):
        support.write([weight], [value])
    halves = get_gradients(model, learning_phase=1, batch_size=2, **batch)
    assert_close(halves, reference.training_gradient(model, **batch))


@pytest.mark.per_era
def test_one_batch_stays_one_batch():
    model, x, y = _model()
    function = gradient_function(model)
    assert_close(function(x, y, learning_phase=1), get_gradients(model, x, y, learning_phase=1, batch_size=100))
