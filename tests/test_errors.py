"""Errors say what was found and what to do, and Keras's own come through as they are."""
import numpy as np
import pytest

import models
import reference
import support
from checks import assert_trains_alike
from support import GRAPH, Model, assert_close, layers
from tfgradcompat import (
    InvalidParamsError,
    NotCompiledError,
    TfGradCompatError,
    UnsupportedModelError,
    feed_dict,
    get_gradients,
    gradient_function,
    value_and_gradients,
)


@pytest.mark.parametrize("thing", [None, 3, "model.h5", np.ones(3), object], ids=repr)
def test_not_a_model(thing):
    with pytest.raises(UnsupportedModelError) as caught:
        get_gradients(thing, np.ones((4, 3)), np.ones((4, 1)))
    assert isinstance(caught.value, TypeError) and isinstance(caught.value, TfGradCompatError)


def test_a_layer_is_not_a_model():
    with pytest.raises(UnsupportedModelError, match="Dense"):
        get_gradients(layers.Dense(2), np.ones((4, 3)), np.ones((4, 1)))


def _not_compiled():
    inputs = layers.Input(shape=(3,))
    return Model(inputs, layers.Dense(2)(inputs))


@pytest.mark.parametrize("function", [get_gradients, value_and_gradients], ids=lambda function: function.__name__)
def test_not_compiled(function):
    with pytest.raises(NotCompiledError, match="compile") as caught:
        function(_not_compiled(), models.data(4, 3), models.data(4, 2))
    assert isinstance(caught.value, RuntimeError)
    with pytest.raises(NotCompiledError):
        gradient_function(_not_compiled())


def test_not_compiled_and_unbuilt():
    support.requires(*models.DEFERRED)
    with pytest.raises(NotCompiledError):
        get_gradients(support.keras.models.Sequential([layers.Dense(2)]), models.data(4, 3), models.data(4, 2))


def test_a_weight_of_another_model():
    model, batch = models.dense()
    other, _ = models.linear()
    foreign = other.trainable_weights[0]
    with pytest.raises(InvalidParamsError) as caught:
        get_gradients(model, params=[model.trainable_weights[0], foreign], **batch)
    assert isinstance(caught.value, ValueError)
    assert getattr(foreign, "path", foreign.name) in str(caught.value) or foreign.name in str(caught.value)


@pytest.mark.parametrize("params", ["elsewhere", 1.5, np.ones(2)], ids=repr)
def test_params_that_are_no_weights(params):
    model, batch = models.dense()
    with pytest.raises(InvalidParamsError):
        get_gradients(model, params=params, **batch)


def _wrong_batches():
    x, y = models.data(4, 3), models.data(4, 2)
    yield "inputs too wide", x.repeat(2, axis=1), y, None
    yield "targets too wide", x, models.data(4, 5), None
    yield "fewer targets", x, y[:3], None
    yield "fewer weights", x, y, np.ones(3, "float32")
    yield "two inputs", [x, x], y, None


WRONG = list(_wrong_batches())


@pytest.mark.parametrize("wrong", WRONG, ids=[wrong[0] for wrong in WRONG])
def test_keras_own_errors_come_through(wrong):
    """The same type as ``train_on_batch`` raises, or the same result where it does not mind."""
    _, x, y, sample_weight = wrong
    model, batch = models.dense()
    error = assert_trains_alike(model, {"x": x, "y": y, "sample_weight": sample_weight})
    assert not isinstance(error, TfGradCompatError)
    twin, batch = models.dense()
    assert_close(get_gradients(model, **batch), reference.training_gradient(twin, **batch))


def test_nothing_to_feed_in_eager_mode():
    support.requires(not GRAPH, "graph mode has something to feed")
    model, batch = models.dense()
    with pytest.raises(UnsupportedModelError):
        feed_dict(model, **batch)
