"""What to differentiate by, and what comes back."""
import numpy as np
import pytest

import models
import reference
import support
from support import GRAPH, KERAS3, assert_close, dense, tf
from tfgradcompat import get_gradients, gradient_function, value_and_gradients


def test_nests_of_weights_keep_their_structure():
    model, batch = models.dense()
    weights = model.trainable_weights
    results = {
        "default": get_gradients(model, **batch),
        "one": get_gradients(model, params=weights[2], **batch),
        "tuple": get_gradients(model, params=(weights[3], weights[0]), **batch),
        "nest": get_gradients(model, params={"a": weights[1], "b": [weights[0], (weights[3],)]}, **batch),
        "twice": get_gradients(model, params=[weights[0], weights[1], weights[0]], **batch),
    }
    expected = reference.training_gradient(model, **batch)
    assert_close(results["default"], expected)
    assert isinstance(results["default"], list)
    assert_close(results["one"], expected[2])
    assert isinstance(results["tuple"], tuple)
    assert_close(results["tuple"], [expected[3], expected[0]])
    nest = results["nest"]
    assert sorted(nest) == ["a", "b"] and isinstance(nest["b"], list) and isinstance(nest["b"][1], tuple)
    assert_close([nest["a"], nest["b"][0], nest["b"][1][0]], [expected[1], expected[0], expected[3]])
    assert_close(results["twice"], [expected[0], expected[1], expected[0]])


def test_results_are_arrays_of_the_weights_shapes():
    model, batch = models.embedding()
    for gradient, value in zip(get_gradients(model, **batch), support.read(model.trainable_weights)):
        assert isinstance(gradient, np.ndarray)
        assert gradient.shape == value.shape
        assert gradient.dtype == np.float32


def test_frozen_weights_may_be_asked_for():
    model, batch = models.dense()
    expected = reference.training_gradient(model, **batch)
    model, batch = models.dense()
    hidden = model.get_layer("hidden")
    kernel, bias = hidden.trainable_weights
    hidden.trainable = False
    support.compile(model, "mse")
    assert len(get_gradients(model, **batch)) == 2
    assert_close(get_gradients(model, params=[bias, kernel], **batch), [expected[1], expected[0]])


def test_moving_statistics_count_at_inference():
    model, batch = models.batch_norm(rate=None)
    norm = model.get_layer("norm")
    statistics = [weight for weight in norm.weights if not any(weight is known for known in norm.trainable_weights)]
    assert len(statistics) == 2
    mean = statistics[0]
    gradient = get_gradients(model, params=mean, **batch)
    assert_close(gradient, reference.finite_differences(model, weights=[mean], **batch)[0], absolute=1e-5)


@pytest.mark.parametrize("phase", [0, 1])
def test_the_loss_is_the_frameworks(phase):
    model, batch = models.batch_norm(rate=None)
    loss, gradients = value_and_gradients(model, learning_phase=phase, **batch)
    assert np.shape(loss) == () and not hasattr(loss, "graph")
    if phase:
        expected = reference.training_loss_and_gradient(model, **batch)[0]
    else:
        expected = reference.test_loss(model, **batch)
    assert_close(loss, expected)
    assert len(gradients) == len(model.trainable_weights)


def test_a_gradient_function_is_bound_once():
    model, batch = models.dense()
    kernel = model.trainable_weights[0]
    function = gradient_function(model, params={"kernel": kernel})
    assert function.params["kernel"] is kernel
    assert function.adapter is gradient_function(model).adapter
    first, second = function(**batch), function(**batch)
    assert_close(function.value_and_gradients(**batch)[1]["kernel"], first["kernel"])
    expected = reference.training_gradient(model, **batch)
    assert_close(first["kernel"], expected[0])
    assert_close(second["kernel"], expected[0])
    weighted = dict(batch, sample_weight=np.array([3, 3, 0, 0], "float32"))
    assert_close(function(**weighted)["kernel"], reference.training_gradient(model, **weighted)[0])


def test_tensors_uncopied():
    model, batch = models.embedding()
    loss, gradients = value_and_gradients(model, evaluate=False, **batch)
    expected_loss, expected = reference.training_loss_and_gradient(model, **batch)
    if not GRAPH:
        assert tf.is_tensor(loss) if hasattr(tf, "is_tensor") else isinstance(loss, tf.Tensor)
        assert not isinstance(gradients[1], np.ndarray)
        assert_close(loss, expected_loss)
        assert_close([dense(gradient) for gradient in gradients], expected)
    assert isinstance(gradients[0], tf.IndexedSlices) or not _sparse(), "an embedding's gradient stays sparse"


def _sparse():
    # Standalone Keras and tf.keras before 1.13 make it dense while they clip or update.
    return KERAS3 or not support.STANDALONE and support.TF >= support.Version("1.13")


def test_float64_models_have_float64_gradients():
    support.requires(support.FLAVOUR != "tf.keras" or not _mixes_types(), "the framework mixes float32 into the loss and fails")
    with support.float64():
        model, batch = models.dense()
        gradients = get_gradients(model, **batch)
        assert all(gradient.dtype == np.float64 for gradient in gradients)
        assert_close(gradients, reference.training_gradient(model, **batch), relative=1e-6)


def _mixes_types():
    return support.Version("1.7") <= support.TF < support.Version("1.11") or support.TRAIN_OPTIMIZERS
