"""Models of two flavours in one process: the model decides, never what is installed."""
import numpy as np
import pytest

import models
import support
from support import GRAPH, KERAS3, STANDALONE, TF, Version, assert_close, tf
from tfgradcompat import get_gradients, gradient_function


def _others():
    """Other flavours of Keras that may be imported here, each with whether it works in this mode."""
    if STANDALONE and TF >= Version("1.4"):
        return tf.keras
    if support.FLAVOUR == "tf_keras" and not GRAPH:
        import keras

        return keras if keras.__version__.startswith("3.") else None
    if KERAS3:
        pytest.importorskip("tf_keras", reason="no tf_keras for this TensorFlow")
        import tf_keras

        return tf_keras
    if support.FLAVOUR == "tf.keras" and not GRAPH and TF < Version("2.0"):
        return None  # standalone keras makes placeholders, which an eager TensorFlow 1.x refuses
    # Standalone Keras needs placeholders, which eager TensorFlow 1.x refuses; in 2.x it works in a graph of its own.
    if support.FLAVOUR == "tf.keras" and TF < Version("2.3") and (GRAPH or TF >= Version("2.0")):
        return pytest.importorskip("keras", reason="no standalone keras beside this TensorFlow")
    return None


def test_two_flavours():
    other = _others()
    support.requires(other is not None, "no second flavour works in this process")
    if not KERAS3 and hasattr(other.backend, "clear_session"):
        other.backend.clear_session()  # each flavour has a session of its own, for the graph it was made in
        support.clear()
    model, batch = models.dense()
    # Before the twin exists: standalone Keras marks the variables of all Kerases initialised, in its own session.
    weights = model.get_weights()
    twin = _dense(other)
    twin.set_weights(weights)
    mine, theirs = get_gradients(model, **batch), get_gradients(twin, **batch)
    assert type(model) is not type(twin)
    assert_close(theirs, mine)
    assert_close(get_gradients(model, **batch), mine)
    assert gradient_function(model).adapter is not gradient_function(twin).adapter
    assert np.all(np.isfinite(mine[0]))


def _dense(keras):
    layers = keras.layers
    inputs = layers.Input(shape=(3,))
    model = keras.models.Model(inputs, layers.Dense(2)(layers.Dense(4, activation="tanh")(inputs)))
    eager = hasattr(tf, "executing_eagerly") and tf.executing_eagerly()
    if keras is getattr(tf, "keras", None) and eager and TF < Version("1.13"):
        model.compile(tf.train.GradientDescentOptimizer(1.0), "mse")
    else:
        model.compile("sgd", "mse")
    return model
