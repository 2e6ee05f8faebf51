"""The learning phase: Dropout and BatchNormalization at inference and in training."""
import numpy as np
import pytest

import models
import reference
from support import assert_close, read
from tfgradcompat import get_gradients, value_and_gradients


@pytest.mark.parametrize("phase", [1, True])
def test_batch_normalization_in_training(phase):
    model, batch = models.batch_norm(rate=None)
    gradient = get_gradients(model, learning_phase=phase, **batch)
    assert_close(gradient, reference.training_gradient(model, **batch))


def test_batch_normalization_and_dropout_at_inference():
    model, batch = models.batch_norm()
    gradient = get_gradients(model, **batch)
    assert_close(get_gradients(model, learning_phase=False, **batch), gradient, relative=1e-6)
    assert_close(gradient, reference.finite_differences(model, **batch), absolute=1e-5)


def test_dropout_in_training():
    """The gradient tells which inputs were dropped; with these left out it must be the linear layer's, and so must the loss."""
    model, batch = models.dropout()
    kernel, bias = read(model.trainable_weights)
    for _ in range(3):
        loss, (gradient, bias_gradient) = value_and_gradients(model, learning_phase=1, **batch)
        kept = gradient[:, 0] != 0
        assert 0 < kept.sum() < len(kept)
        inputs = np.where(kept, 2.0, 0.0)  # Dropout scales what it keeps by 1 / (1 - rate)
        error = inputs.dot(kernel[:, 0]) + bias[0] - batch["y"][0, 0]
        assert_close(loss, error ** 2)
        assert_close(gradient, (2 * error * inputs).reshape(-1, 1))
        assert_close(bias_gradient, np.array([2 * error]))


def test_no_dropout_at_inference():
    model, batch = models.dropout()
    kernel, bias = read(model.trainable_weights)
    error = kernel.sum() + bias[0] - batch["y"][0, 0]
    loss, (gradient, bias_gradient) = value_and_gradients(model, **batch)
    assert_close(loss, error ** 2)
    assert_close(gradient, np.full((16, 1), 2 * error))
    assert_close(bias_gradient, np.array([2 * error]))


def test_phases_take_turns():
    model, batch = models.batch_norm(rate=None)
    inference = get_gradients(model, **batch)
    training = get_gradients(model, learning_phase=1, **batch)
    assert_close(get_gradients(model, **batch), inference, relative=1e-6)
    assert_close(get_gradients(model, learning_phase=1, **batch), training, relative=1e-6)
    assert np.max(np.abs(inference[0] - training[0])) > 1e-3
