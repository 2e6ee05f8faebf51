"""A call leaves no trace: in no variable, in no function, in no graph, in no generator of random numbers."""
import gc
import random
import weakref

import numpy as np
import pytest

import models
import reference
import support
from support import GRAPH, KERAS3, Model, assert_close, layers, sgd, snapshot, tf
from tfgradcompat import get_gradients, gradient_function, value_and_gradients

WEIGHT = np.array([3, 3, 0, 0], "float32")


def _busy(rate=0.5, momentum=True):
    """Stateful RNN, BatchNormalization, Dropout, two outputs with metrics and, where the mode takes it, momentum."""
    shape = (4, 3, 2)
    inputs = layers.Input(batch_shape=shape)
    hidden = layers.SimpleRNN(2, stateful=True)(inputs)
    hidden = layers.BatchNormalization(name="norm")(hidden)
    if rate:
        hidden = layers.Dropout(rate)(hidden)
    model = support.set_weights(Model(inputs, [layers.Dense(1, name="p")(hidden), layers.Dense(2, name="q")(hidden)]))
    model.get_layer("norm").set_weights([models.data(2, seed=seed) + 1.5 for seed in range(4)])
    metrics = {"p": ["mae"], "q": ["mae"]} if not KERAS3 else [["mae"], ["mae"]]
    options = {} if support.TRAIN_OPTIMIZERS or not momentum else {"momentum": 0.5}
    support.compile(model, ["mse", "mse"], sgd(0.1, **options), metrics=metrics)
    return model, {"x": models.data(*shape), "y": [models.data(4, 1, seed=8), models.data(4, 2, seed=9)]}


def _calls(model, batch):
    get_gradients(model, **batch)
    value_and_gradients(model, learning_phase=1, sample_weight=[WEIGHT, WEIGHT], **batch)


def test_no_variable_changes():
    model, batch = _busy()
    with support.untraced():
        model.train_on_batch(**batch)  # makes what the framework makes at the first step
    before, attributes = snapshot(model), sorted(vars(model))
    random_states = random.getstate(), np.random.get_state()
    _calls(model, batch)
    after = snapshot(model)
    assert list(after) == list(before)
    for name in before:
        assert np.array_equal(before[name], after[name]), name
    assert sorted(vars(model)) == attributes
    assert random.getstate() == random_states[0]
    for one, other in zip(np.random.get_state(), random_states[1]):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("trained", [False, True], ids=["fresh", "trained"])
def test_training_goes_on_as_without_the_call(trained):
    results = []
    for asked in (True, False):
        support.clear()
        support.seed()
        model, batch = _busy(rate=None) if trained else models.two_by_two()
        with reference.ordered(model):
            if trained:
                model.train_on_batch(**batch)
            if asked:
                _calls(model, batch)
            returned = [model.train_on_batch(**batch), model.test_on_batch(**batch)]
        results.append((snapshot(model), returned))
    (with_call, returned), (without, expected) = results
    assert_close(returned, expected)
    assert_close(list(with_call.values()), list(without.values()))


@pytest.mark.parametrize("phase", [0, 1])
def test_dropout_goes_on_as_without_the_call(phase):
    """The masks training draws next are those it would have drawn."""
    support.requires(
        not phase or KERAS3, "random operations of a graph and of TensorFlow's global seed count their runs in the training phase"
    )
    results = []
    for asked in (True, False):
        support.clear()
        support.seed()
        model, batch = models.dropout()
        model.train_on_batch(**batch)
        if asked:
            get_gradients(model, learning_phase=phase, **batch)
        results.append(reference.training_gradient(model, **batch))
    assert_close(*results)


@pytest.mark.per_era
def test_a_call_that_raises_leaves_no_trace():
    model, batch = _busy()
    with support.untraced():
        model.train_on_batch(**batch)
    before, attributes = snapshot(model), sorted(vars(model))
    for wrong in (dict(batch, y=[batch["y"][0][:3], batch["y"][1]]), dict(batch, x=models.data(4, 3, 7))):
        for phase in (0, 1):
            with pytest.raises(Exception):
                get_gradients(model, learning_phase=phase, **wrong)
    assert sorted(vars(model)) == attributes
    after = snapshot(model)
    for name in before:
        assert np.array_equal(before[name], after[name]), name
    get_gradients(model, **batch)


def test_nothing_grows():
    """After the first calls of each kind neither the graph nor the number of traces grows, training in between included."""
    model, batch, count = _counting()
    function = gradient_function(model)

    def calls():
        for phase in (0, 1):
            get_gradients(model, learning_phase=phase, **batch)
            get_gradients(model, learning_phase=phase, sample_weight=WEIGHT, **batch)
            function(learning_phase=phase, **batch)
            get_gradients(model, params=model.trainable_weights[0], learning_phase=phase, **batch)

    calls()
    calls()
    first = count()
    for _ in range(3):
        calls()
    assert count() == first


def _counting():
    """A model, its batch, and a function that counts operations of its graph or traces of one of its layers."""
    traces = []

    class Counts(layers.Layer):
        def call(self, inputs):
            if not GRAPH and not tf.executing_eagerly():
                traces.append(1)
            return inputs * 1.0

        def compute_output_shape(self, input_shape):
            return input_shape

    inputs = layers.Input(shape=(3,))
    model = support.set_weights(Model(inputs, layers.Dense(2)(Counts()(inputs))))
    support.compile(model, "mse")
    batch = {"x": models.data(4, 3), "y": models.data(4, 2, seed=8)}
    return model, batch, lambda: support.graph_size(model) if GRAPH else len(traces)


def test_the_model_can_be_collected():
    """The package keeps no model alive that the framework lets go."""
    alive = []
    for asked in (False, True):
        model, batch = models.dense()
        model.train_on_batch(**batch)
        if asked:
            get_gradients(model, learning_phase=1, **batch)
            gradient_function(model)(**batch)
        reference_to_it = weakref.ref(model)
        del model
        support.clear()
        gc.collect()
        alive.append(reference_to_it() is not None)
    assert alive[1] <= alive[0]


@pytest.mark.per_era
def test_metrics_of_the_model_do_not_see_the_call():
    model, batch = models.two_by_two(metrics={"p": "mae"} if not KERAS3 else [["mae"], []])
    expected = model.test_on_batch(**batch)
    get_gradients(model, sample_weight=[WEIGHT, WEIGHT], **batch)
    get_gradients(model, learning_phase=1, **batch)
    assert_close(model.test_on_batch(**batch), expected)


@pytest.mark.per_era
def test_seeds_that_keras_takes_from_numpy():
    """Keras 2 asks NumPy for the seeds of the masks within recurrent layers."""
    inputs = layers.Input(shape=(3, 2))
    within = layers.Input(shape=(3, 2))
    inner = Model(within, layers.SimpleRNN(2, dropout=0.5, recurrent_dropout=0.5, name="rnn")(within))
    model = support.compile(Model(inputs, layers.Dense(1)(inner(inputs))), "mse")
    batch = {"x": models.data(4, 3, 2), "y": models.data(4, 1, seed=8)}
    states = random.getstate(), np.random.get_state()
    get_gradients(model, params=[model.weights[0], inner.layers[-1]], learning_phase=1, **batch)
    assert random.getstate() == states[0]
    for one, other in zip(np.random.get_state(), states[1]):
        assert np.array_equal(one, other)
