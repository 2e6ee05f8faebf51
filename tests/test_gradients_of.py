"""Derivatives of what a model computes, without loss and compile: against differences of ``predict_on_batch``."""
import gc
import weakref

import numpy as np
import pytest

import models
import support
from support import GRAPH, Model, assert_close, keras, layers, read, write
from tfgradcompat import InvalidParamsError, feed_dict, get_outputs, gradients_of

ROWS = 2
STEP = 1e-4


def _input(*shape, **options):
    return layers.Input(shape=shape, dtype=keras.backend.floatx(), **options)


def _uncompiled(activation="tanh"):
    """2 inputs, 3 hidden units, 2 outputs, in float64 if built so."""
    inputs = _input(2)
    hidden = layers.Dense(3, activation="tanh", name="hidden")(inputs)
    model = Model(inputs, layers.Dense(2, activation=activation, name="out")(hidden))
    return support.set_weights(model), models.data(ROWS, 2)


def _differences(array, function, put=lambda array: None):
    """Central differences of ``function()``, a number, by each entry of an array; ``put`` makes a changed one count."""
    result = np.zeros(array.shape)
    for entry in np.ndindex(*array.shape):
        kept, sides = array[entry], []
        for sign in (1, -1):
            array[entry] = kept + sign * STEP
            put(array)
            sides.append(function())
        array[entry] = kept
        result[entry] = (sides[0] - sides[1]) / (2 * STEP)
    put(array)
    return result


def _assert_differences(model, x, of, number):
    """By the input and a kernel: ``number`` is, of what predict returns, the number that ``of`` means."""
    kernel = model.trainable_weights[0]

    def of_predict():
        return number(support.predict(model, x))

    expected = [
        _differences(x, of_predict),
        _differences(read([kernel])[0], of_predict, lambda value: write([kernel], [value])),
    ]
    actual = gradients_of(model, x, of, [model.inputs[0], kernel])
    assert_close(actual, expected, relative=1e-6, absolute=1e-8)


@pytest.mark.parametrize(
    "of, number",
    [
        (None, np.sum),
        (1, lambda outputs: np.sum(outputs[:, 1])),
        ((slice(0, 1),), lambda outputs: np.sum(outputs[:, 0])),
        ("out", np.sum),
    ],
    ids=["all", "index", "slice", "name"],
)
def test_the_output(of, number):
    with support.float64():
        _assert_differences(*_uncompiled(), of=of, number=number)


def _squares(outputs):
    return outputs ** 2


def test_a_function_of_the_outputs():
    with support.float64():
        _assert_differences(*_uncompiled(), of=_squares, number=lambda outputs: np.sum(outputs ** 2))


def test_a_class_score_behind_a_softmax():
    with support.float64():
        _assert_differences(*_uncompiled("softmax"), of=0, number=lambda outputs: np.sum(outputs[:, 0]))


def test_a_layer_by_weights_before_and_behind_it():
    with support.float64():
        model, x = _uncompiled()
        layer = model.get_layer("hidden")
        tensor, kernel = support.output(layer), layer.trainable_weights[0]
        part = Model(model.inputs[0], layer(model.inputs[0]))
        expected = _differences(
            read([kernel])[0], lambda: np.sum(support.predict(part, x)), lambda value: write([kernel], [value])
        )
        for of in (layer, tensor):
            with pytest.warns(UserWarning, match="does not depend on"):
                actual = gradients_of(model, x, of, [kernel, model.get_layer("out").trainable_weights[0]])
            assert_close(actual[0], expected, relative=1e-6, absolute=1e-8)
            assert actual[1] is None


def test_a_class_score_by_a_convolution():
    """What class activation maps are made of; the rest of the model is linear, so its weights are the derivative."""
    inputs = _input(4, 4, 1)
    hidden = layers.Conv2D(2, 3, activation="relu", name="conv")(inputs)
    model = support.set_weights(Model(inputs, layers.Dense(3, name="scores")(layers.Flatten()(hidden))))
    x = models.data(ROWS, 4, 4, 1)
    actual = gradients_of(model, x, 2, support.output(model.get_layer("conv")))
    kernel = model.get_layer("scores").get_weights()[0]
    assert_close(actual, np.stack([kernel[:, 2].reshape(2, 2, 2)] * ROWS))
    assert_close(gradients_of(model, x, 2, "conv"), actual)


def test_subclassed_models():
    support.requires(support.SUBCLASSING, "no subclassed models")
    model, batch = models.subclassed()
    actual = gradients_of(model, batch["x"], params=[model.first, model.second.weights[0] if model.second.weights else model.second])
    kernel, _ = model.second.get_weights()
    assert_close(actual[0], np.repeat(kernel.T, len(batch["x"]), axis=0))
    hidden = get_outputs(model, model.first, batch["x"])
    assert_close(gradients_of(model, batch["x"], params=model.second.weights[0])[:, 0], hidden.sum(axis=0))


@pytest.mark.per_era
def test_subclassed_models_that_were_never_compiled():
    support.requires(support.SUBCLASSING, "no subclassed models")
    model = models.subclass()()
    x = models.data(ROWS, 3)
    actual = gradients_of(model, x, params=model.first)
    assert_close(actual, np.repeat(model.second.get_weights()[0].T, ROWS, axis=0))
    hidden, output = get_outputs(model, [model.first, model.second], x)
    kernel, bias = model.second.get_weights()
    assert_close(output, hidden.dot(kernel) + bias)


@pytest.mark.per_era
def test_models_with_several_outputs():
    model, batch = models.two_by_two()
    kernels = [model.get_layer(name).get_weights()[0] for name in "pq"]
    by = support.output(model.get_layer("hidden"))
    rows = len(batch["x"][0])
    actual = gradients_of(model, batch["x"], None, by)
    assert_close(actual, np.stack([sum(kernel.sum(axis=1) for kernel in kernels)] * rows))
    actual = gradients_of(model, batch["x"], _second, by)
    assert_close(actual, np.stack([kernels[1].sum(axis=1)] * rows))
    with pytest.raises(ValueError, match="2 outputs"):
        gradients_of(model, batch["x"], 0, by)


def _second(outputs):
    return outputs[1]


def test_the_learning_phase():
    model, batch = models.dropout()
    kernel = model.get_layer("out").get_weights()[0][:, 0]
    assert_close(gradients_of(model, batch["x"], params=model.inputs[0])[0], kernel)
    dropped = gradients_of(model, batch["x"], params=model.inputs[0], learning_phase=1)[0]
    assert 0 < np.sum(dropped == 0) < 16
    assert_close(dropped[dropped != 0], 2 * kernel[dropped != 0])


@pytest.mark.per_era
def test_nothing_changes():
    model, batch = models.stateful()
    before = support.snapshot(model)
    gradients_of(model, batch["x"], params="rnn", learning_phase=1)
    get_outputs(model, "*", batch["x"], learning_phase=1)
    after = support.snapshot(model)
    assert list(after) == list(before)
    for name in before:
        assert np.array_equal(before[name], after[name]), name
    assert not any("call" in vars(layer) for layer in model.layers)


@pytest.mark.per_era
def test_a_function_that_is_gone_is_forgotten():
    model, x = _uncompiled()
    held = np.zeros(3)

    class Held(object):
        def of(self, outputs):
            return outputs * float(held[0] + 2)

    one = Held()
    expected = 2 * gradients_of(model, x, None, "hidden")
    assert_close(gradients_of(model, x, one.of, "hidden"), expected)
    reference = weakref.ref(one)
    del one
    gc.collect()
    assert reference() is None
    other = Held()
    held[0] = 1
    assert_close(gradients_of(model, x, other.of, "hidden"), expected * 1.5)


@pytest.mark.per_era
def test_names():
    model, x = _uncompiled()
    found = gradients_of(model, x, params=["hidden", "out/bias"], as_dict=True)
    assert list(found)[0] == "hidden" and "out" in list(found)[1]
    zeros = gradients_of(model, x, "hidden", "out", unconnected_gradients="zero")
    assert zeros.shape == (ROWS, 2) and not zeros.any()


@pytest.mark.per_era
def test_tensors():
    model, x = _uncompiled()
    expected = gradients_of(model, x, params="hidden")
    outputs = get_outputs(model, "hidden", x)
    tensors = gradients_of(model, x, params="hidden", evaluate=False), get_outputs(model, "hidden", x, evaluate=False)
    if not GRAPH:
        values = [tensor.numpy() for tensor in tensors]
    else:
        support.requires(support.SESSIONS, "`get_session` is not available when using TensorFlow 2.0")
        values = support.session().run(list(tensors), feed_dict(model, x))
    assert_close(values, [expected, outputs])


@pytest.mark.per_era
def test_what_is_no_part_of_the_model():
    model, x = _uncompiled()
    other, _ = _uncompiled()
    for of in (3.5, other.get_layer("out")):
        with pytest.raises(InvalidParamsError):
            gradients_of(model, x, of, model.inputs[0])
    with pytest.raises(ValueError, match="dimensions"):
        gradients_of(model, x, (0, 1), model.inputs[0])


# -- get_outputs ------------------------------------------------------------------------------------------------------------


def test_outputs_are_those_of_a_model_that_ends_there():
    model, batch = models.batch_norm(rate=None)
    tensors = [support.output(layer) for layer in model.layers[1:]]
    found = get_outputs(model, {"list": tensors, "last": -1}, batch["x"])
    for layer, value in zip(model.layers[1:], found["list"]):
        assert_close(value, support.predict(Model(model.inputs[0], _again(model, layer)), batch["x"]))
    assert_close(found["last"], support.predict(model, batch["x"]))


def _again(model, last):
    """The output of a layer of a chain, made anew."""
    tensor = model.inputs[0]
    for layer in model.layers[1:]:
        tensor = layer(tensor)
        if layer is last:
            return tensor


def test_outputs_in_the_training_phase():
    model, batch = models.batch_norm(rate=None)
    hidden, norm = get_outputs(model, ["hidden", "norm"], batch["x"], learning_phase=1)
    gamma, beta = model.get_layer("norm").get_weights()[:2]
    normal = (hidden - hidden.mean(axis=0)) / np.sqrt(hidden.var(axis=0) + 1e-3)
    assert_close(norm, normal * gamma + beta, relative=1e-3)
    inference = get_outputs(model, "norm", batch["x"])
    assert np.abs(inference - norm).max() > 0.1


@pytest.mark.per_era
def test_outputs_by_name():
    model, batch = models.dense()
    found = get_outputs(model, "*", batch["x"], as_dict=True)
    assert list(found) == ["hidden", "out"]
    assert_close(found["out"], support.predict(model, batch["x"]))
    with pytest.raises(InvalidParamsError, match="weight"):
        get_outputs(model, model.weights[0], batch["x"])
