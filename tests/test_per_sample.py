"""Gradients of single samples, against batches of one sample, and norms of gradients."""
import warnings

import numpy as np
import pytest

import models
import reference
import support
from support import KERAS3, Model, Version, assert_close, layers
from tfgradcompat import (
    AdapterWarning,
    InvalidParamsError,
    get_gradients,
    gradient_norms,
    per_sample_gradients,
)

# One by one it is what get_gradients gives for batches of one sample, so that few cases do.
AT_ONCE = support.EAGER and support.TF >= Version("2.3") and support.MODE != "run_eagerly"
ROWS = 2


def weighted():
    model, batch = models.dense()
    return model, dict(batch, sample_weight=np.array([0.5, 3, 1, 1], "float32"))


def batch_statistics():
    return models.batch_norm(rate=None)


def clipped():
    return models.dense(support.sgd(clipnorm=0.05))


CASES = [models.two_by_two, models.embedding] + [models.conv, weighted, batch_statistics, clipped] * AT_ONCE


def _rows(nest, start, stop):
    if isinstance(nest, list):
        return [_rows(item, start, stop) for item in nest]
    return nest[start:stop]


def _assert_per_sample(build):
    model, batch = build()
    batch = {name: _rows(value, 0, ROWS) for name, value in batch.items()}
    found = per_sample_gradients(model, learning_phase=1, **batch)
    assert len(found[0]) == ROWS
    for place in range(ROWS):
        single = {name: _rows(value, place, place + 1) for name, value in batch.items()}
        expected = reference.training_gradient(model, **single)
        assert_close([gradient[place] for gradient in found], expected)
    return model, batch


@pytest.mark.parametrize("build", CASES, ids=lambda build: build.__name__)
def test_each_sample(build):
    """All at once where TensorFlow can, so that nothing needs to be said about it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _assert_per_sample(build)
    assert not [str(warning.message) for warning in caught if "one by one" in str(warning.message)]


@pytest.mark.per_era
def test_structure_and_names():
    model, batch = models.dense()
    weights = model.trainable_weights
    found = per_sample_gradients(model, params={"a": weights[0], "b": ["out/bias"]}, **batch)
    assert found["a"].shape == (4, 3, 4) and found["b"][0].shape == (4, 2)
    named = per_sample_gradients(model, params=[weights[3]], as_dict=True, **batch)
    assert "bias" in list(named)[0]
    assert_close(list(named.values()), [found["b"][0]])
    with pytest.raises(InvalidParamsError, match="hidden"):
        per_sample_gradients(model, params="hidden", **batch)


@pytest.mark.per_era
def test_tensors():
    model, batch = models.embedding()
    if support.GRAPH:
        with pytest.raises(ValueError, match="not symbolic"):
            per_sample_gradients(model, evaluate=False, **batch)
        return
    tensors = per_sample_gradients(model, evaluate=False, **batch)
    assert_close([tensor.numpy() for tensor in tensors], per_sample_gradients(model, **batch))


@pytest.mark.per_era
def test_nothing_changes():
    model, batch = models.batch_norm()
    before = support.snapshot(model)
    per_sample_gradients(model, learning_phase=1, **batch)
    after = support.snapshot(model)
    for name in before:
        assert np.array_equal(before[name], after[name]), name


@pytest.mark.per_era
def test_dropout_is_drawn_for_each_sample():
    model, batch = models.dropout()
    batch = {"x": np.repeat(batch["x"], 8, axis=0), "y": np.repeat(batch["y"], 8, axis=0)}
    kernel = per_sample_gradients(model, learning_phase=1, **batch)[0][:, :, 0]
    if KERAS3:  # what is drawn follows from the state of a seed, which no call changes
        single = get_gradients(model, batch["x"][:1], batch["y"][:1], learning_phase=1)[0][:, 0]
        assert_close(kernel, np.stack([single] * 8))
        return
    dropped = kernel == 0
    assert 0.2 < dropped.mean() < 0.8
    assert len(set(map(bytes, np.ascontiguousarray(dropped)))) > 4


@pytest.mark.per_era
def test_one_by_one_with_a_warning_where_all_at_once_fails():
    support.requires(AT_ONCE, "samples are always done one by one")

    def build():
        inputs = layers.Input(shape=(3,))
        hidden = layers.Lambda(_raises_if_vectorised, output_shape=lambda shape: shape)(layers.Dense(2, activation="tanh")(inputs))
        model = support.set_weights(Model(inputs, layers.Dense(1)(hidden)))
        return support.compile(model, "mse"), {"x": models.data(4, 3), "y": models.data(4, 1, seed=8)}

    with pytest.warns(AdapterWarning, match="(?s)one by one.*not at once"):
        model, batch = _assert_per_sample(build)
    with warnings.catch_warnings():
        warnings.simplefilter("error", AdapterWarning)
        per_sample_gradients(model, **batch)


def _raises_if_vectorised(inputs):
    """Refuses the static batch size of one that only the vectorised pass has; with one sample it is unknown."""
    if not support.tf.executing_eagerly() and inputs.shape[0] == 1:
        raise NotImplementedError("not at once")
    return inputs * 1.0


@pytest.mark.per_era
def test_errors_are_those_of_the_data():
    model, batch = models.dense()
    with warnings.catch_warnings():
        warnings.simplefilter("error", AdapterWarning)
        with pytest.raises(Exception) as caught:
            per_sample_gradients(model, batch["x"].repeat(2, axis=1), batch["y"])
    assert not isinstance(caught.value, Warning)
    with pytest.raises(ValueError, match="same number of samples"):
        per_sample_gradients(model, batch["x"], batch["y"][:3])


# -- norms ------------------------------------------------------------------------------------------------------------------


def _norm(arrays):
    return np.sqrt(sum(np.sum(np.asarray(array, "float64") ** 2) for array in arrays))


@pytest.mark.per_era
def test_norms_of_a_batch():
    model, batch = models.dense()
    norms = gradient_norms(model, **batch)
    expected = reference.training_gradient(model, **batch)
    assert_close(norms.total, _norm(expected.values()))
    assert_close(norms.norms, {place: _norm([gradient]) for place, gradient in expected.items()})
    named = gradient_norms(model, params={"k": "out/kernel"}, **batch)
    assert_close(named.norms["k"], _norm([expected[2]]))


@pytest.mark.per_era
def test_norms_of_samples():
    model, batch = models.dense()
    gradients = per_sample_gradients(model, **batch)
    for size in (None, 3):
        norms = gradient_norms(model, per_sample=True, batch_size=size, **batch)
        assert norms.total.shape == (4,)
        assert_close(norms.total, [_norm([gradient[place] for gradient in gradients]) for place in range(4)])
        assert_close(norms.norms[0], [_norm([gradients[0][place]]) for place in range(4)])


@pytest.mark.per_era
def test_norms_of_what_has_no_gradient():
    support.requires(not KERAS3 and not support.TRAIN_OPTIMIZERS, "every output needs a loss or a target")
    model, batch = models.two_by_two(loss=["mse", None])
    batch["y"] = batch["y"][:1] if support.GRAPH or support.EARLY_EAGER else batch["y"]
    params = [model.get_layer("q").weights[0], model.get_layer("p").weights[0]]
    with pytest.warns(UserWarning, match="does not depend on"):
        norms = gradient_norms(model, params=params, **batch)
    assert norms.norms[0] is None and norms.norms[1] == norms.total
    zeros = gradient_norms(model, params=params, unconnected_gradients="zero", per_sample=True, **batch)
    assert not zeros.norms[0].any() and zeros.norms[0].shape == (4,)
