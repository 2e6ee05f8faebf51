"""After a change of the model the next call is right."""
import numpy as np
import pytest

import models
import reference
import support
from checks import assert_trains_alike
from support import Model, assert_close, layers, sgd
from tfgradcompat import get_gradients, gradient_function


@pytest.mark.per_era
def test_another_loss():
    model, batch = models.dense()
    assert_trains_alike(model, batch)
    support.compile(model, "mae")
    assert_trains_alike(model, batch)


def test_another_clip():
    support.requires(not support.TRAIN_OPTIMIZERS, "tf.train optimizers clip nothing")
    model, batch = models.dense()
    assert_trains_alike(model, batch)
    support.compile(model, "mse", sgd(clipnorm=0.1))
    assert_trains_alike(model, batch)
    support.compile(model, "mse", sgd(clipvalue=0.05))
    assert_trains_alike(model, batch)


def test_a_function_made_before_compile_changed():
    model, batch = models.dense()
    function = gradient_function(model)
    function(**batch)
    support.compile(model, "mae")
    assert_close(function(**batch), reference.training_gradient(model, **batch))


@pytest.mark.per_era
def test_weights_set_and_trained():
    model, batch = models.dense()
    first = get_gradients(model, **batch)
    support.set_weights(model, number=5)
    second = assert_trains_alike(model, batch)
    assert np.max(np.abs(first[0] - second[0])) > 1e-3
    model.train_on_batch(**batch)
    assert_trains_alike(model, batch)


def test_trainable_changed_and_compiled():
    model, batch = models.dense()
    assert len(get_gradients(model, **batch)) == 4
    model.get_layer("hidden").trainable = False
    support.compile(model, "mse")
    assert len(get_gradients(model, **batch)) == 2
    assert_trains_alike(model, batch)
    model.get_layer("hidden").trainable = True
    support.compile(model, "mse")
    assert len(get_gradients(model, **batch)) == 4
    assert_trains_alike(model, batch)


def test_trainable_changed_without_compiling():
    """``params=None`` follows ``model.trainable_weights``; the values stay those of the loss."""
    model, batch = models.dense()
    before = get_gradients(model, **batch)
    model.get_layer("hidden").trainable = False
    after = get_gradients(model, **batch)
    assert len(after) == len(model.trainable_weights)
    assert_close(after[-2:], before[2:])


def test_a_layer_added():
    support.requires(*models.DEFERRED)
    model, batch = models.sequential()
    assert_trains_alike(model, batch)
    model.add(layers.Dense(2, activation="tanh", name="added"))
    support.set_weights(model)
    support.compile(model, "mse")
    assert len(assert_trains_alike(model, batch)) == 6


def test_a_loss_added():
    support.requires(*models.ADD_LOSS)
    support.requires(not support.KERAS3, "Keras 3 takes no symbolic loss of a functional model")
    inputs = layers.Input(shape=(3,))
    hidden = layers.Dense(2, activation="tanh")(inputs)
    model = support.set_weights(Model(inputs, layers.Dense(2)(hidden)))
    support.compile(model, "mse")
    batch = {"x": models.data(4, 3), "y": models.data(4, 2, seed=8)}
    assert_trains_alike(model, batch)
    model.add_loss(0.1 * support.tf.reduce_sum(support.tf.square(hidden)))
    support.compile(model, "mse")
    assert_trains_alike(model, batch)


@pytest.mark.per_era
def test_two_models_of_shared_layers():
    inputs = layers.Input(shape=(3,))
    hidden = layers.Dense(2, activation="tanh")(inputs)
    one = support.set_weights(Model(inputs, layers.Dense(2)(hidden)))
    other = support.set_weights(Model(inputs, layers.Dense(1)(hidden)))
    support.compile(one, "mse")
    support.compile(other, "mae")
    for _ in range(2):
        assert_trains_alike(one, {"x": models.data(4, 3), "y": models.data(4, 2, seed=8)})
        assert_trains_alike(other, {"x": models.data(4, 3), "y": models.data(4, 1, seed=8)})
