"""Symbolic gradients and how to run them; models in graphs of their own."""
import contextlib

import numpy as np
import pytest

import models
import reference
import support
from checks import assert_trains_alike
from support import GRAPH, Version, assert_close, tf
from tfgradcompat import UnsupportedModelError, feed_dict, get_gradients, value_and_gradients

pytestmark = pytest.mark.skipif(not GRAPH, reason="graph mode only")

WEIGHT = np.array([3, 3, 0, 0], "float32")


def _run(tensors, model, learning_phase, batch):
    support.requires(support.SESSIONS, "`get_session` is not available when using TensorFlow 2.0")
    return support.session().run(tensors, feed_dict(model, learning_phase=learning_phase, **batch))


def test_no_session_no_feeds():
    support.requires(not support.SESSIONS, "a session runs the model")
    model, batch = models.dense()
    with pytest.raises(UnsupportedModelError, match="no session can run"):
        feed_dict(model, **batch)


def test_symbolic_gradients():
    model, batch = models.embedding()
    loss, gradients = value_and_gradients(model, evaluate=False, learning_phase=1, **batch)
    assert all(hasattr(gradient, "graph") or hasattr(gradient, "indices") for gradient in gradients)
    support.read(model.weights)  # initialises
    results = _run([loss] + list(gradients), model, 1, batch)
    expected_loss, expected = reference.training_loss_and_gradient(model, **batch)
    assert_close(results[0], expected_loss)
    assert_close(results[1:], expected)


@pytest.mark.parametrize("phase", [0, 1])
def test_symbolic_gradients_take_the_phase_fed(phase):
    model, batch = models.batch_norm(rate=None)
    gradients = get_gradients(model, evaluate=False, learning_phase=phase, **batch)
    results = _run(list(gradients), model, phase, batch)
    assert_close(results, get_gradients(model, learning_phase=phase, **batch))


def test_symbolic_gradients_with_weights():
    model, batch = models.dense()
    weighted = dict(batch, sample_weight=WEIGHT)
    gradients = get_gradients(model, evaluate=False, learning_phase=1, **weighted)
    results = _run(list(gradients), model, 1, weighted)
    assert_close(results, reference.training_gradient(model, **weighted))


def test_several_inputs_and_outputs():
    model, batch = models.loss_weights(shape="dict")
    gradients = get_gradients(model, evaluate=False, learning_phase=1, **batch)
    results = _run(list(gradients), model, 1, batch)
    assert_close(results, reference.training_gradient(model, **batch))


def test_a_model_in_another_graph():
    """The model's graph is not the default one when the call is made."""
    support.requires(not support.STANDALONE or support.TF < Version("2.0"), "Keras has one graph of its own")
    graph = tf.Graph()
    with graph.as_default():
        session = (tf.Session if support.TF < Version("2.0") else tf.compat.v1.Session)(graph=graph)
        with session.as_default():
            model, batch = models.dense()
            support.read(model.weights)
            first = get_gradients(model, learning_phase=1, **batch)
            default_size = len(support.tf.Graph().get_operations())
    assert default_size == 0
    with session.as_default():
        second = get_gradients(model, learning_phase=1, **batch)
    with graph.as_default(), session.as_default():
        assert_close(first, reference.training_gradient(model, **batch))
    assert_close(second, first)
    session.close()


def _recurrent():
    inputs = support.layers.Input(shape=(3, 2))
    model = support.Model(inputs, support.layers.Dense(1)(support.layers.LSTM(2)(inputs)))
    return support.compile(model, "mse"), {"x": models.data(4, 3, 2), "y": models.data(4, 1, seed=8)}


@contextlib.contextmanager
def _loops_by_default():
    """Loops as users have them; support makes them ready for gradients."""
    support.requires(support.TF >= Version("2.4") and not support.STANDALONE, "loops may always get their gradients later")
    intermediates = tf.compat.v1.experimental.output_all_intermediates
    intermediates(None)
    try:
        yield
    finally:
        intermediates(True)


def test_recurrent_gradients_before_anything_ran():
    """Newer releases cannot add a gradient to a loop that has run; one that is built before is fine, and training after it."""
    with _loops_by_default():
        assert_trains_alike(*_recurrent())


def test_recurrent_gradients_after_something_ran():
    """Weights were set, say. Training itself fails from now on, so the reference is a twin whose loops are ready."""
    with _loops_by_default():
        model, batch = _recurrent()
        support.set_weights(model)
        gradients = get_gradients(model, learning_phase=1, **batch)
        assert_close(get_gradients(model, learning_phase=1, **batch), gradients)
        weights = model.get_weights()
    support.clear()
    twin, batch = _recurrent()
    twin.set_weights(weights)
    assert_close(gradients, reference.training_gradient(twin, **batch))
