"""Weights the loss does not depend on."""
import warnings

import numpy as np
import pytest

import models
import reference
import support
from support import Model, assert_close, keras, layers
from tfgradcompat import get_gradients


def _layer():
    class Spare(layers.Layer):
        """Has a weight it does not use."""

        def build(self, input_shape):
            ones = keras.initializers.Ones()
            self.spare = self.add_weight(name="spare", shape=(2,), initializer=ones, trainable=True)
            super(Spare, self).build(input_shape)

        def call(self, inputs):
            return inputs * 1.0

        def compute_output_shape(self, input_shape):
            return input_shape

    return Spare


def _model(connected=False):
    """Returns the model, the batch and the unused weight (None if ``connected``)."""
    inputs = layers.Input(shape=(3,))
    hidden = layers.Dense(2, name="hidden")(inputs)
    if not connected:
        hidden = _layer()(name="with_spare")(hidden)
    model = Model(inputs, layers.Dense(1, name="out")(hidden))
    values = iter([models.data(3, 2), models.data(2, seed=1), models.data(2, 1, seed=2), models.data(1, seed=3)])
    for name in ("hidden", "out"):
        model.get_layer(name).set_weights([next(values), next(values)])
    spare = None if connected else model.get_layer("with_spare").weights[0]
    return support.compile(model, "mse"), {"x": models.data(4, 3), "y": models.data(4, 1, seed=8)}, spare


def _connected(model, gradients, spare):
    return [gradient for weight, gradient in zip(model.trainable_weights, gradients) if weight is not spare]


def test_none_with_a_warning():
    model, batch, spare = _model()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gradients = get_gradients(model, **batch)
    place = [weight is spare for weight in model.trainable_weights].index(True)
    assert gradients[place] is None
    assert any("spare" in str(warning.message) and "tfgradcompat" not in str(warning.category) for warning in caught)
    twin, batch, _ = _model(connected=True)
    assert_close(_connected(model, gradients, spare), reference.training_gradient(twin, **batch))


def test_zero():
    model, batch, spare = _model()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        alone = get_gradients(model, params=[spare], unconnected_gradients="zero", **batch)
    assert_close(alone, [np.zeros(2, "float32")], absolute=0)
    assert alone[0].dtype == np.float32
    gradients = get_gradients(model, unconnected_gradients="zero", **batch)
    twin, batch, _ = _model(connected=True)
    assert_close(_connected(model, gradients, spare), reference.training_gradient(twin, **batch))


def test_raise_names_the_weight():
    model, batch, _ = _model()
    with pytest.raises(ValueError, match="spare"):
        get_gradients(model, unconnected_gradients="raise", **batch)


def test_connected_weights_do_not_raise():
    model, batch, spare = _model()
    weights = [weight for weight in model.trainable_weights if weight is not spare]
    gradients = get_gradients(model, params=weights, unconnected_gradients="raise", **batch)
    twin, batch, _ = _model(connected=True)
    assert_close(gradients, reference.training_gradient(twin, **batch))


def test_unconnected_weights_do_not_disturb_clipping():
    support.requires(not support.TRAIN_OPTIMIZERS, "no clipping in tf.train optimizers")
    model, batch, spare = _model()
    support.compile(model, "mse", support.sgd(clipnorm=0.1))
    gradients = get_gradients(model, unconnected_gradients="zero", **batch)
    twin, batch, _ = _model(connected=True)
    support.compile(twin, "mse", support.sgd(clipnorm=0.1))
    assert_close(_connected(model, gradients, spare), reference.training_gradient(twin, **batch))


def test_unknown_choice():
    model, batch, _ = _model()
    with pytest.raises(ValueError, match="unconnected_gradients"):
        get_gradients(model, unconnected_gradients="ignore", **batch)
