"""The reference against closed forms: a linear layer under a mean squared error."""
import numpy as np
import pytest

import models
import reference
import support
from support import GRAPH, KERAS, STANDALONE, TF, Version, assert_close, keras


def _closed_form(model, x, y, weight=1.0, l2=0.0):
    kernel, bias = support.read(model.layers[-1].trainable_weights)
    error = x.dot(kernel) + bias - y
    weight = np.broadcast_to(np.asarray(weight, "float64").reshape(-1, 1), (len(x), 1))
    loss = np.mean(weight * error ** 2) + l2 * np.sum(kernel ** 2)
    scaled = 2 * weight * error / error.size
    return loss, {0: x.T.dot(scaled) + 2 * l2 * kernel, 1: scaled.sum(axis=0)}


def test_training_gradient_of_a_linear_layer():
    model, batch = models.linear()
    loss, gradient = reference.training_loss_and_gradient(model, **batch)
    expected_loss, expected = _closed_form(model, **batch)
    assert_close(loss, expected_loss)
    assert_close(gradient, expected)


def test_training_gradient_with_regularizer():
    model, batch = models.linear(regularizer=keras.regularizers.l2(0.3))
    loss, gradient = reference.training_loss_and_gradient(model, **batch)
    expected_loss, expected = _closed_form(model, l2=0.3, **batch)
    assert_close(loss, expected_loss)
    assert_close(gradient, expected)


@pytest.mark.parametrize("weight", [(3, 3, 0, 0), (0.5, 1, 2, 4)])
def test_training_gradient_with_sample_weights(weight):
    """Each era divides by something else: all samples, those with a weight, the sum of weights."""
    weight = np.array(weight, "float32")
    model, batch = models.linear()
    gradient = reference.training_gradient(model, sample_weight=weight, **batch)
    if STANDALONE and KERAS < Version("2.3") or not STANDALONE and TF < Version("1.11"):
        factor = 1 / np.mean(weight != 0)
    elif not STANDALONE and TF < Version("1.13"):
        factor = 1 / np.mean(weight)
    else:
        factor = 1
    assert_close(gradient, _closed_form(model, weight=weight * factor, **batch)[1])


def test_training_gradient_puts_everything_back():
    model, batch = models.stateful()
    first = reference.training_gradient(model, **batch)
    assert_close(reference.training_gradient(model, **batch), first)


def test_finite_differences_of_a_linear_layer():
    model, batch = models.linear(regularizer=keras.regularizers.l2(0.3))
    gradient = reference.finite_differences(model, **batch)
    assert_close(gradient, _closed_form(model, l2=0.3, **batch)[1], absolute=1e-5)


def test_finite_differences_equal_training_without_phases():
    support.requires(FLOAT64, "the loss is computed in float32 whatever the model's type")
    with support.float64():
        model, batch = models.dense()
        assert_close(reference.training_gradient(model, **batch), reference.finite_differences(model, step=1e-4, **batch))


# Keras 2 casts losses to float32 and back (losses_utils.compute_weighted_loss) from tf.keras 1.13 on; before, tf.keras mixes types.
FLOAT64 = STANDALONE and KERAS < Version("2.3") or support.KERAS3


def test_the_mode_is_the_one_asked_for():
    model, _ = models.dense()
    if GRAPH:
        assert support.graph_size(model) > 0
    else:
        assert support.tf.executing_eagerly()
