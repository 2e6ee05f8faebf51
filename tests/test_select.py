"""Parts of a model by words."""
import numpy as np
import pytest

import models
import reference
import support
from support import KERAS3, Model, assert_close, layers
from tfgradcompat import InvalidParamsError, get_gradients, select

pytestmark = pytest.mark.per_era


def _is(found, expected):
    return found is expected


def _are(found, expected):
    return len(found) == len(expected) and all(map(_is, found, expected))


def test_weights():
    model, _ = models.dense()
    hidden, out = model.get_layer("hidden"), model.get_layer("out")
    assert _are(select(model, "*"), model.weights)
    for name in ("hidden/kernel", "hidden/kernel:0", getattr(hidden.weights[0], "path", hidden.weights[0].name)):
        assert select(model, name) is hidden.weights[0]
    assert _are(select(model, "out"), out.weights)
    assert _are(select(model, hidden), hidden.weights)
    assert select(model, 3) is model.weights[3] and select(model, -1) is model.weights[-1]
    assert _are(select(model, ["hidden/bias", out, 0]), [hidden.weights[1]] + out.weights + [model.weights[0]])


def test_trainable_weights():
    model, _ = models.batch_norm()
    assert _are(select(model, "*", "trainable_weights"), model.trainable_weights)
    assert len(select(model, "norm", "weights")) == 4 and len(select(model, "norm", "trainable_weights")) == 2
    with pytest.raises(InvalidParamsError, match="gamma"):
        select(model, "moving_mean", "trainable_weights")


def test_outputs():
    support.requires(not (support.EAGER and support.TF < support.Version("1.8")), "Layer.output not supported in Eager mode")
    model, _ = models.dense()
    hidden, out = model.get_layer("hidden"), model.get_layer("out")
    assert select(model, "hidden", "outputs") is hidden.output
    assert select(model, "hid", "outputs") is hidden.output
    assert select(model, out, "outputs") is out.output
    assert select(model, 1, "outputs") is model.layers[1].output
    assert _are(select(model, "*", "outputs"), [hidden.output, out.output])
    assert _are(select(model, [2, "hidden"], "outputs"), [out.output, hidden.output])


def test_inputs():
    model, _ = models.two_by_two()
    assert select(model, "second", "inputs") is model.inputs[1]
    assert _are(select(model, "*", "inputs"), model.inputs)
    assert select(model, 0, "inputs") is model.inputs[0]


def test_outputs_of_a_subclassed_model_are_its_layers():
    support.requires(support.SUBCLASSING, "no subclassed models")
    model, batch = models.subclassed()
    get_gradients(model, **batch)
    assert _are(select(model, "*", "outputs"), [model.first, model.second])


def test_weights_of_recurrent_layers_by_either_name():
    """``lstm/kernel`` in one release, ``lstm/lstm_cell/kernel`` in another."""
    inputs = layers.Input(shape=(3, 2))
    model = Model(inputs, layers.LSTM(2, name="memory")(inputs))
    layer = model.get_layer("memory")
    for text, place in (("memory/kernel", 0), ("memory/recurrent_kernel", 1), ("memory/lstm_cell/bias:0", 2)):
        assert select(model, text) is layer.weights[place]


def test_errors_list_the_candidates():
    model, _ = models.dense()
    with pytest.raises(InvalidParamsError, match="ambiguous.*hidden/kernel.*out/kernel"):
        select(model, "kernel")
    with pytest.raises(InvalidParamsError, match="none of the outputs.*hidden"):
        select(model, "elsewhere", "outputs")
    with pytest.raises(InvalidParamsError, match="no number 4"):
        select(model, 4)
    with pytest.raises(ValueError, match="kind"):
        select(model, "*", "gradients")
    with pytest.raises(InvalidParamsError):
        select(model, models.linear()[0].layers[-1])


def test_words_among_params():
    model, batch = models.dense()
    found = get_gradients(model, params={"all": ["*"], "kernel": "out/kernel", "layer": "hidden"}, **batch)
    expected = reference.training_gradient(model, **batch)
    assert_close(found["all"][0], expected)
    assert_close(found["kernel"], expected[2])
    assert_close(found["layer"], get_gradients(model, params=model.get_layer("hidden"), **batch))
    with pytest.raises(InvalidParamsError, match="hidden/bias"):
        get_gradients(model, params="bias", **batch)


def test_gradients_by_name():
    model, batch = models.dense()
    found = get_gradients(model, as_dict=True, **batch)
    assert list(found) == [getattr(weight, "path", weight.name) if KERAS3 else weight.name for weight in model.trainable_weights]
    assert_close(list(found.values()), reference.training_gradient(model, **batch))
    twice = get_gradients(model, params=["out", "out"], as_dict=True, **batch)
    assert list(twice) == ["out"] and isinstance(twice["out"], np.ndarray)
