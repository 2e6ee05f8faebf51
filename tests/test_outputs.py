"""Gradients by layer outputs and inputs: the derivative of the whole training loss by each entry."""
import threading

import numpy as np
import pytest

import models
import reference
import shifts
import support
from support import GRAPH, KERAS3, Model, Version, assert_close, keras, layers, read
from tfgradcompat import InvalidParamsError, get_gradients, get_outputs, gradient_function

ROWS = 3


def _input(*shape, **options):
    return layers.Input(shape=shape, dtype=keras.backend.floatx(), **options)


def _y(*shape):
    return models.data(ROWS, *shape, seed=8)


# Each function builds a model; it calls ``see`` on the outputs of interest. Returns (inputs, outputs, x, y).


def _feed_forward(see):
    """Activations as arguments and as layers, an output that goes two ways, and all that adds to the loss."""
    inputs = _input(2)
    hidden = see(layers.Dense(3, activation="tanh")(inputs))
    hidden = see(layers.Activation("sigmoid")(hidden))
    hidden = see(layers.Multiply()([hidden, layers.Dense(3, activation="tanh")(hidden)]))
    if models.ACTIVITY[0]:
        hidden = layers.ActivityRegularization(l2=0.3)(hidden)
    hidden = see(layers.Dense(2)(hidden))
    if models.ADD_LOSS[0]:
        hidden = see(models.adding_layer()()(hidden))
    return [inputs], layers.Dense(1)(hidden), [models.data(ROWS, 2)], _y(1)


def _convolution(see):
    inputs = _input(4, 4, 1)
    hidden = see(layers.Conv2D(1, 3, activation="tanh")(inputs))
    hidden = see(layers.MaxPooling2D()(hidden))
    return [inputs], layers.Dense(1)(layers.Flatten()(hidden)), [models.data(ROWS, 4, 4, 1)], _y(1)


def _recurrent(see):
    inputs = _input(2, 1)
    hidden = see(layers.Bidirectional(layers.SimpleRNN(1, return_sequences=True))(inputs), 2, 2)
    hidden = see(layers.TimeDistributed(layers.Dense(2))(hidden), 2, 2)
    hidden = see(layers.SimpleRNN(1)(hidden))
    return [inputs], layers.Dense(1)(hidden), [models.data(ROWS, 2, 1)], _y(1)


def _masked(see):
    inputs = layers.Input(shape=(3,), dtype="int32")
    hidden = see(layers.Embedding(4, 2, mask_zero=True)(inputs))
    hidden = see(layers.SimpleRNN(2, return_sequences=True)(hidden), 3, 2)
    x = np.array([[1, 2, 0], [3, 0, 0], [2, 2, 1]], "int32")
    return [inputs], layers.TimeDistributed(layers.Dense(1))(hidden), [x], _y(3, 1)


def _shared(see):
    """A layer used twice, and two losses."""
    first, second = _input(2), _input(2)
    layer = layers.Dense(2, activation="tanh")
    joined = layers.Concatenate()([see(layer(first)), see(layer(second))])
    outputs = [see(layers.Dense(1)(joined)), layers.Dense(2)(joined)]
    x = [models.data(ROWS, 2), models.data(ROWS, 2, seed=6)]
    return [first, second], outputs, x, [_y(1), models.data(ROWS, 2, seed=9)]


def _several_outputs(see):
    inputs = _input(2, 1)
    output, state = layers.SimpleRNN(1, return_state=True)(inputs)
    joined = layers.Concatenate()([see(output), see(state)])
    return [inputs], layers.Dense(1)(joined), [models.data(ROWS, 2, 1)], _y(1)


BUILDERS = [_feed_forward, _convolution, _recurrent, _masked, _shared, _several_outputs]
STATES = (not support.STANDALONE or support.KERAS >= Version("2.0.5"), "return_state does not exist")


def _assert_alike(build, sample_weight=None, **options):
    """Gradients by all that ``build`` sees are those by shifts of it. Returns them."""
    batch = {}

    def build_only(see):
        inputs, outputs, batch["x"], batch["y"] = build(see)
        return inputs, outputs

    model, tensors, twin, shift_layers = shifts.pair(build_only, ROWS, **options)
    actual = get_gradients(model, params=tensors, sample_weight=sample_weight, learning_phase=1, **batch)
    assert_close(actual, shifts.gradients(twin, shift_layers, sample_weight=sample_weight, **batch))
    return actual


@pytest.mark.parametrize("build", BUILDERS, ids=lambda build: build.__name__[1:])
def test_outputs(build):
    if build is _several_outputs:
        support.requires(*STATES)
    assert all(np.any(value) for value in _assert_alike(build, loss=["mse", "mae"] if build is _shared else "mse"))


def _softmax(see):
    inputs = _input(2)
    outputs = see(layers.Dense(3, activation="softmax")(inputs))
    return [inputs], outputs, [models.data(ROWS, 2)], np.eye(3)[[0, 2, 1]]


def _sigmoid(see):
    inputs = _input(2)
    outputs = see(layers.Dense(1, activation="sigmoid")(inputs))
    return [inputs], outputs, [models.data(ROWS, 2)], np.array([[0.0], [1.0], [1.0]])


@pytest.mark.parametrize("build", [_softmax, _sigmoid], ids=lambda build: build.__name__[1:])
def test_probabilities_whose_logits_the_loss_may_look_for(build):
    """The loss as a function of the probabilities, although training computes it from the logits behind them."""
    _assert_alike(build, loss="binary_crossentropy" if build is _sigmoid else "categorical_crossentropy")


@pytest.mark.per_era
def test_sample_weights_count():
    actual = _assert_alike(_convolution, sample_weight=np.array([0, 3, 1], "float32"))
    assert not np.any(actual[0][0])


def _nested(see):
    within = _input(2)
    inner = Model(within, layers.Dense(2)(see(layers.Dense(2, activation="tanh")(within))))
    inputs = _input(2)
    return [inputs], layers.Dense(1)(inner(inputs)), [models.data(ROWS, 2)], _y(1)


def test_layers_of_a_model_within_a_model():
    """By the inner tensor, as the outer model uses it."""
    _assert_alike(_nested)


@pytest.mark.per_era
def test_a_model_used_twice_gives_a_list():
    within = _input(2)
    hidden = layers.Dense(2, activation="tanh")(within)
    inner = Model(within, layers.Dense(2)(hidden))
    first, second = _input(2), _input(2)
    last = layers.Dense(1)
    model = support.set_weights(Model([first, second], last(layers.Concatenate()([inner(first), inner(second)]))))
    kernel, bias = last.get_weights()
    kernel[2:] = 0
    last.set_weights([kernel, bias])
    support.compile(model, "mse")
    x = [models.data(ROWS, 2), models.data(ROWS, 2, seed=6)]
    gradient = get_gradients(model, x, _y(1), hidden)
    assert [np.any(one) for one in gradient] == [True, False]
    outputs = get_outputs(model, hidden, x)
    before = gradient[0] * (1 - outputs[0] ** 2)  # of the tanh
    expected = reference.training_gradient(model, x, _y(1))
    places = {id(weight): place for place, weight in enumerate(model.trainable_weights)}
    assert_close(x[0].T.dot(before), expected[places[id(inner.layers[1].weights[0])]])


def _bias_gradient(model, layer, batch):
    places = [weight is layer.weights[1] for weight in model.trainable_weights]
    return reference.training_gradient(model, **batch)[places.index(True)]


@pytest.mark.per_era
def test_sequential_and_functional_models_within_each_other():
    """By layers, by the models themselves and by what they are called on; the last layer is linear."""
    within = _input(3)
    last = layers.Dense(2, name="last")
    functional = Model(within, last(within))
    sequential = support.keras.models.Sequential([layers.Dense(3, activation="tanh", input_shape=(2,), name="first"), functional])
    inputs = _input(2)
    model = support.set_weights(Model(inputs, layers.Dense(1)(sequential(inputs))))
    batch = {"x": models.data(ROWS, 2), "y": _y(1)}
    support.compile(model, "mse")
    params = [last, functional, sequential, "last", "first", functional.inputs[0]]
    by_last, by_functional, by_sequential, by_name, first, given = get_gradients(model, params=params, **batch)
    assert_close(by_last.sum(axis=0), _bias_gradient(model, last, batch))
    assert_close([by_functional, by_sequential, by_name], [by_last] * 3)
    assert_close([first, given], [by_last.dot(read(last.weights[:1])[0].T)] * 2)
    own = get_gradients(model, params=model, **batch)
    assert_close(own, 2 * (support.predict(model, batch["x"]) - batch["y"]) / batch["y"].size)


def test_a_shared_layer_gives_a_list():
    model, batch = models.shared()
    shared = model.get_layer("shared")
    found, outputs = get_gradients(model, params=shared, **batch), get_outputs(model, shared, batch["x"])
    assert len(found) == len(outputs) == 2
    before = [gradient * (1 - output ** 2) for gradient, output in zip(found, outputs)]  # of the tanh
    assert_close(sum(before).sum(axis=0), _bias_gradient(model, shared, batch))


def test_activity_regularizers_count():
    support.requires(*models.ACTIVITY)
    model, batch = models.regularized()
    layer = model.layers[1]
    gradient = get_gradients(model, params=support.output(layer), learning_phase=1, **batch)
    outputs = get_outputs(model, layer, batch["x"])
    bias = read(layer.weights)[1]
    expected = reference.training_gradient(model, **batch)[1] - 0.2 * np.sign(bias)  # the bias has a regularizer of its own
    assert_close((gradient * (1 - outputs ** 2)).sum(axis=0), expected)


@pytest.mark.parametrize("build", [models.sequential, models.deferred, models.subclassed], ids=lambda build: build.__name__)
def test_of_linear_layers(build):
    """Summed over the batch it is the bias's gradient; times the layer's input, the kernel's."""
    model, batch = build()
    if build in (models.deferred, models.subclassed):
        get_gradients(model, **batch)  # makes the weights
    first, second = _dense_layers(model)
    gradient = get_gradients(model, params={"out": second, "in": first}, **batch)
    hidden = get_outputs(model, first, batch["x"])
    expected = reference.training_gradient(model, **batch)
    assert_close(gradient["out"].sum(axis=0), expected[3])
    assert_close(hidden.T.dot(gradient["out"]), expected[2])
    before = gradient["in"] * (1 - hidden ** 2)  # of the tanh
    assert_close(before.sum(axis=0), expected[1])
    assert_close(batch["x"].T.dot(before), expected[0])


def _dense_layers(model):
    return [layer for layer in model.layers if isinstance(layer, layers.Dense)]


def _calls_twice():
    class CallsTwice(Model):
        def __init__(self):
            super(CallsTwice, self).__init__()
            self.shared = layers.Dense(2, kernel_initializer=keras.initializers.Constant(0.3))
            self.last = layers.Dense(1, kernel_initializer=keras.initializers.Constant(-0.4))

        def call(self, inputs):
            return self.last(self.shared(self.shared(inputs)))

    return CallsTwice()


def test_a_layer_called_twice_gives_a_list():
    support.requires(support.SUBCLASSING, "no subclassed models")
    model, x, y = support.compile(_calls_twice(), "mse"), models.data(ROWS, 2), _y(1)
    get_gradients(model, x, y)
    first, second = get_gradients(model, x, y, model.shared)
    hidden = get_outputs(model, model.shared, x)
    kernel, _ = model.shared.get_weights()
    expected = reference.training_gradient(model, x, y)
    assert_close(first, second.dot(kernel.T))
    assert_close((first + second).sum(axis=0), expected[1])
    assert_close(x.T.dot(first) + hidden[0].T.dot(second), expected[0])


def _seen_inputs(see):
    first, second = _input(2), _input(3)
    joined = layers.Dense(3, activation="tanh")(layers.Concatenate()([see(first), see(second)]))
    return [first, second], layers.Dense(1)(joined), [models.data(ROWS, 2), models.data(ROWS, 3, seed=6)], _y(1)


def test_inputs():
    _assert_alike(_seen_inputs)


@pytest.mark.per_era
def test_inputs_of_a_batch_in_a_dict():
    model, batch = models.two_by_two(shape="dict")
    named = get_gradients(model, params={"b": model.inputs[1], "a": model.inputs[0]}, **batch)
    twin, batch = models.two_by_two()
    expected = get_gradients(twin, params=list(twin.inputs), **batch)
    assert_close([named["a"], named["b"]], expected)


def test_the_only_input_of_any_type():
    """Whole numbers for an input of real ones."""
    model, batch = models.dense()
    x = np.array([[1, 2, 3], [0, -1, 2], [4, 0, 0], [1, 1, 1]])
    expected = get_gradients(model, x.astype("float32"), batch["y"], model.inputs[0])
    assert_close(get_gradients(model, x, batch["y"], model.inputs[0]), expected)


def test_indices_have_no_gradient():
    model, batch = models.embedding()
    with pytest.raises(InvalidParamsError, match="embedding.*output"):
        get_gradients(model, params=model.inputs[0], **batch)
    assert get_gradients(model, params=support.output(model.get_layer("embedding")), **batch).shape == (4, 3, 2)


def test_what_runs_in_a_loop():
    """Has no output outside of it; where Python runs the loop, one for each step."""
    model, batch = models.stateful()
    layer = model.get_layer("rnn")
    support.requires(hasattr(layer, "cell"), "recurrent layers have no cells yet")
    try:
        found = get_gradients(model, params=layer.cell, **batch)
    except InvalidParamsError as error:
        assert "loop" in str(error)
    else:
        # Keras may run the first step once before, to see what it gives.
        assert support.EAGER and len(found) - batch["x"].shape[1] in (0, 1)


@pytest.mark.per_era
def test_all_kinds_in_one_nest():
    model, batch = models.dense()
    hidden, kernel = model.get_layer("hidden"), model.trainable_weights[0]
    params = {"h": [support.output(hidden), (hidden, kernel)], "x": model.inputs[0], "again": support.output(hidden), "name": "out"}
    together = get_gradients(model, params=params, **batch)
    assert sorted(together) == sorted(params) and isinstance(together["h"][1], tuple)
    assert_close(together["h"][0], get_gradients(model, params=support.output(hidden), **batch))
    assert_close(together["h"][1], [together["h"][0], reference.training_gradient(model, **batch)[0]])
    assert_close(together["again"], together["h"][0])
    assert_close(together["x"], get_gradients(model, params=model.inputs[0], **batch))
    assert_close(together["name"], get_gradients(model, params=support.output(model.get_layer("out")), **batch))


def test_clipping_is_for_weights():
    support.requires(not support.TRAIN_OPTIMIZERS, "tf.train optimizers clip nothing")
    model, batch = models.dense(support.sgd(clipnorm=1e-3))
    expected, batch = models.dense()
    params = ["hidden"]
    assert_close(get_gradients(model, params=params, **batch), get_gradients(expected, params=params, **batch))


@pytest.mark.per_era
def test_batches_of_other_sizes():
    model, batch = models.dense()
    function = gradient_function(model, support.output(model.get_layer("hidden")))
    for rows in (4, 1, 3):
        part = {name: value[:rows] for name, value in batch.items()}
        assert_close(function(**part) * rows, function(**batch)[:rows] * 4)  # the mean over the batch


@pytest.mark.per_era
def test_one_gradient_per_batch():
    model, batch = models.dense()
    with pytest.raises(InvalidParamsError, match="batch"):
        get_gradients(model, params=[model.trainable_weights[0], "hidden"], batch_size=2, **batch)


def _unused():
    """A model with an output that has no loss."""
    support.requires(not KERAS3 and not support.TRAIN_OPTIMIZERS, "every output needs a loss or a target")
    model, batch = models.two_by_two(loss=["mse", None])
    return model, {"x": batch["x"], "y": batch["y"][:1] if GRAPH or support.EARLY_EAGER else batch["y"]}


@pytest.mark.per_era
def test_outputs_the_loss_does_not_depend_on():
    model, batch = _unused()
    with pytest.warns(UserWarning, match="depend on q"):
        assert get_gradients(model, params=["q", "hidden"], **batch)[0] is None
    zeros = get_gradients(model, params="q", unconnected_gradients="zero", **batch)
    assert zeros.shape == (4, 2) and not zeros.any()
    with pytest.raises(ValueError, match="depend on q"):
        get_gradients(model, params="q", unconnected_gradients="raise", **batch)


def _hooks(model):
    return [name for layer in [model] + support.all_layers(model) for name in vars(layer) if name == "call"]


def test_no_hook_stays():
    model, batch = models.nested()
    get_gradients(model, params=list(model.layers[1:]), **batch)
    assert not _hooks(model)
    with pytest.raises(Exception):
        get_gradients(model, np.ones((4, 7), "float32"), batch["y"], "inner")
    assert not _hooks(model)


def _runs_in_threads(model, x):
    """Whether Keras itself does: in some versions each thread has a session of its own, without values for the weights."""
    found = []

    def predict():
        try:
            found.append(support.predict(model, x))
        except support.tf.errors.FailedPreconditionError:
            pass

    thread = threading.Thread(target=predict)
    thread.start()
    thread.join()
    return bool(found)


@pytest.mark.per_era
def test_threads():
    model, batch = models.dense()
    support.requires(_runs_in_threads(model, batch["x"]), "predict_on_batch fails in another thread")
    names = ["hidden", "out"] * 2
    expected = {name: get_gradients(model, params=name, **batch) for name in names}
    found, errors = [], []

    def ask(name):
        try:
            for _ in range(3):
                found.append((name, get_gradients(model, params=name, **batch)))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=ask, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(found) == 3 * len(names)
    for name, value in found:
        assert_close(value, expected[name])
    assert not _hooks(model)


@pytest.mark.per_era
def test_after_training_and_compiling_again():
    model, batch = models.dense()
    function = gradient_function(model, support.output(model.get_layer("out")))
    mean = 2 * (support.predict(model, batch["x"]) - batch["y"]) / batch["y"].size
    assert_close(function(**batch), mean)
    model.train_on_batch(**batch)
    mean = 2 * (support.predict(model, batch["x"]) - batch["y"]) / batch["y"].size
    assert_close(function(**batch), mean)
    support.compile(model, "mae")
    assert_close(function(**batch), np.sign(support.predict(model, batch["x"]) - batch["y"]) / batch["y"].size)
