"""Small models for every flavour, mode and version.

Each function returns ``(model, batch)``: a compiled model with fixed weights, and the keyword arguments ``x``, ``y`` and, for
some, ``sample_weight``, which ``train_on_batch`` and ``get_gradients`` both take. Calling it twice gives twins. ``optimizer``
and further arguments go to ``compile``.
"""
import numpy as np

import support
from support import KERAS3, Model, Version, compile, keras, layers, set_weights, tf

ROWS = 4


def data(*shape, **options):
    """Fixed random numbers of a shape."""
    return np.random.RandomState(options.get("seed", 7)).uniform(-1, 1, shape).astype(keras.backend.floatx())


def _input(**options):
    # Old releases take the default dtype from the time of their import.
    return layers.Input(dtype=keras.backend.floatx(), **options)


def dense(optimizer=None, loss="mse", activation="tanh", **kwargs):
    """Functional: 3 inputs, 4 hidden units, 2 outputs."""
    inputs = _input(shape=(3,))
    hidden = layers.Dense(4, activation=activation, name="hidden")(inputs)
    model = set_weights(Model(inputs, layers.Dense(2, name="out")(hidden)))
    return compile(model, loss, optimizer, **kwargs), {"x": data(ROWS, 3), "y": data(ROWS, 2, seed=8)}


def linear(optimizer=None, loss="mse", regularizer=None, **kwargs):
    """One linear layer: the gradient has a closed form."""
    inputs = _input(shape=(3,))
    model = set_weights(Model(inputs, layers.Dense(2, kernel_regularizer=regularizer, name="out")(inputs)))
    return compile(model, loss, optimizer, **kwargs), {"x": data(ROWS, 3), "y": data(ROWS, 2, seed=8)}


def sequential(optimizer=None, **kwargs):
    model = keras.models.Sequential([layers.Dense(3, activation="tanh", input_shape=(3,), dtype=keras.backend.floatx()), layers.Dense(2)])
    return compile(set_weights(model), "mse", optimizer, **kwargs), {"x": data(ROWS, 3), "y": data(ROWS, 2, seed=8)}


def deferred(optimizer=None, **kwargs):
    """A Sequential that learns its input shape from the first batch; constant initial weights make twins equal."""
    support.requires(*DEFERRED)
    initializer = keras.initializers.Constant(0.3)
    model = keras.models.Sequential(
        [
            layers.Dense(2, activation="tanh", kernel_initializer=initializer),
            layers.Dense(1, kernel_initializer=keras.initializers.Constant(-0.4)),
        ]
    )
    return compile(model, "mse", optimizer, **kwargs), {"x": data(ROWS, 3), "y": data(ROWS, 1, seed=8)}


DEFERRED = (
    support.KERAS >= Version("2.2") if support.STANDALONE else support.TF >= Version("1.8"),
    "a Sequential needs the input shape",
)


def subclassed(optimizer=None, **kwargs):
    """A subclassed model that has not seen a batch; constant initial weights make twins equal."""
    support.requires(support.SUBCLASSING, "no subclassed models")
    return compile(subclass()(), "mse", optimizer, **kwargs), {"x": data(ROWS, 3), "y": data(ROWS, 1, seed=8)}


def subclass():
    constant = keras.initializers.Constant

    class Subclassed(Model):
        def __init__(self):
            super(Subclassed, self).__init__()
            self.first = layers.Dense(2, activation="tanh", kernel_initializer=constant(0.3))
            self.second = layers.Dense(1, kernel_initializer=constant(-0.4))

        # TensorFlow 1.7-1.9 want the first argument named "inputs".
        def call(self, inputs):
            return self.second(self.first(inputs))

    return Subclassed


def batch_norm(optimizer=None, rate=0.5, **kwargs):
    """BatchNormalization with statistics far from the batch's, and Dropout unless ``rate`` is None."""
    inputs = _input(shape=(3,))
    hidden = layers.Dense(4, name="hidden")(inputs)
    hidden = layers.BatchNormalization(name="norm")(hidden)
    if rate is not None:
        hidden = layers.Dropout(rate)(hidden)
    model = set_weights(Model(inputs, layers.Dense(2, name="out")(hidden)))
    model.get_layer("norm").set_weights([data(4, seed=1) + 1.5, data(4, seed=2), data(4, seed=3), data(4, seed=4) + 1.5])
    return compile(model, "mse", optimizer, **kwargs), {"x": data(ROWS, 3), "y": data(ROWS, 2, seed=8)}


def dropout(optimizer=None, **kwargs):
    """Dropout on 16 inputs that are all 1, then a linear unit: the gradient tells which were dropped."""
    inputs = _input(shape=(16,))
    hidden = layers.Dropout(0.5)(inputs)
    model = set_weights(Model(inputs, layers.Dense(1, name="out")(hidden)))
    return compile(model, "mse", optimizer, **kwargs), {"x": np.ones((1, 16), "float32"), "y": np.full((1, 1), 9.0, "float32")}


def lstm(optimizer=None, cell=layers.LSTM, **kwargs):
    """Masked sequences of 3, 2, 3 and 1 steps out of 3, one output per step."""
    inputs = _input(shape=(3, 2))
    hidden = layers.Masking(0.0)(inputs)
    hidden = cell(2, return_sequences=True)(hidden)
    model = set_weights(Model(inputs, layers.TimeDistributed(layers.Dense(1))(hidden)))
    x = data(ROWS, 3, 2)
    x[1, 2:] = x[3, 1:] = 0
    return compile(model, "mse", optimizer, **kwargs), {"x": x, "y": data(ROWS, 3, 1, seed=8)}


def stateful(optimizer=None, rate=None, **kwargs):
    """A stateful RNN, whose states move with every run."""
    shape = (ROWS, 3, 2)
    inputs = _input(batch_shape=shape)
    hidden = layers.SimpleRNN(2, stateful=True, name="rnn")(inputs)
    if rate is not None:
        hidden = layers.Dropout(rate)(hidden)
    model = set_weights(Model(inputs, layers.Dense(1)(hidden)))
    return compile(model, "mse", optimizer, **kwargs), {"x": data(*shape), "y": data(ROWS, 1, seed=8)}


def steps(optimizer=None, temporal=True, **kwargs):
    """One output per time step, without a mask: takes temporal sample weights."""
    support.requires(*TEMPORAL)
    inputs = _input(shape=(3, 2))
    model = set_weights(Model(inputs, layers.TimeDistributed(layers.Dense(1))(inputs)))
    batch = {"x": data(ROWS, 3, 2), "y": data(ROWS, 3, 1, seed=8), "sample_weight": data(ROWS, 3, seed=9) + 1.5}
    return compile(model, "mse", optimizer, temporal=temporal, **kwargs), batch


TEMPORAL = (not support.TRAIN_OPTIMIZERS or support.TF >= Version("1.11"), "eager mode refuses sample_weight_mode")


def embedding(optimizer=None, **kwargs):
    """Sparse gradients, with rows that occur more than once in a batch."""
    inputs = layers.Input(shape=(3,), dtype="int32")
    hidden = layers.Flatten()(layers.Embedding(5, 2, name="embedding")(inputs))
    model = set_weights(Model(inputs, layers.Dense(1, name="out")(hidden)))
    x = np.array([[0, 1, 1], [1, 2, 0], [1, 1, 1], [4, 0, 2]], "int32")
    return compile(model, "mse", optimizer, **kwargs), {"x": x, "y": data(ROWS, 1, seed=8)}


def two_by_two(optimizer=None, loss="mse", shape="list", **kwargs):
    """Two inputs, two outputs; the batch in lists, or in dicts by name."""
    first, second = _input(shape=(2,), name="first"), _input(shape=(3,), name="second")
    joined = layers.Dense(3, activation="tanh", name="hidden")(_concatenate([first, second]))
    outputs = [layers.Dense(1, name="p")(joined), layers.Dense(2, name="q")(joined)]
    model = set_weights(Model([first, second], outputs))
    # Keras 3 takes one loss per output together with loss weights, never one for all.
    compile(model, [loss, loss] if isinstance(loss, str) else loss, optimizer, **kwargs)
    x, y = [data(ROWS, 2), data(ROWS, 3, seed=6)], [data(ROWS, 1, seed=8), data(ROWS, 2, seed=9)]
    if shape == "dict":
        x, y = dict(zip(("first", "second"), x)), dict(zip("pq", y))
    return model, {"x": x, "y": y}


def _concatenate(tensors):
    return layers.Concatenate()(tensors)


def loss_weights(optimizer=None, **kwargs):
    return two_by_two(optimizer, loss=["mse", "mae"], loss_weights=[0.3, 2.0], **kwargs)


def regularized(optimizer=None, activity=True, **kwargs):
    """L2 on a kernel, L1 on a bias and, where the mode allows, an activity regulariser."""
    if activity:
        support.requires(*ACTIVITY)
    regularizers = keras.regularizers
    inputs = _input(shape=(3,))
    hidden = layers.Dense(
        4,
        activation="tanh",
        kernel_regularizer=regularizers.l2(0.3),
        bias_regularizer=regularizers.l1(0.2),
        activity_regularizer=regularizers.l2(0.1) if activity else None,
    )(inputs)
    model = set_weights(Model(inputs, layers.Dense(2)(hidden)))
    return compile(model, "mse", optimizer, **kwargs), {"x": data(ROWS, 3), "y": data(ROWS, 2, seed=8)}


ACTIVITY = (not support.TRAIN_OPTIMIZERS, "eager mode refuses activity regularisers")


def adding_layer():
    class AddsLoss(layers.Layer):
        def call(self, inputs):
            loss = 0.1 * tf.reduce_sum(tf.square(inputs))
            if KERAS3:
                self.add_loss(loss)
            else:
                self.add_loss(loss, inputs=inputs) if ADD_LOSS_INPUTS else self.add_loss(loss)
            return inputs * 1.0

        def compute_output_shape(self, input_shape):
            return input_shape

    return AddsLoss


# Without the inputs a loss counts as unconditional in the old code and is left out for a nested model.
ADD_LOSS_INPUTS = support.GRAPH and (support.STANDALONE or support.TF < Version("2.4"))
ADD_LOSS = (not support.TRAIN_OPTIMIZERS, "eager mode refuses add_loss")


def add_loss(optimizer=None, **kwargs):
    """A layer that adds a loss of its own to the data's."""
    support.requires(*ADD_LOSS)
    inputs = _input(shape=(3,))
    hidden = adding_layer()()(layers.Dense(2, activation="tanh")(inputs))
    model = set_weights(Model(inputs, layers.Dense(2)(hidden)))
    return compile(model, "mse", optimizer, **kwargs), {"x": data(ROWS, 3), "y": data(ROWS, 2, seed=8)}


def model_add_loss(optimizer=None, **kwargs):
    """A functional model with a loss of its own tensors."""
    support.requires(*ADD_LOSS)
    support.requires(not KERAS3, "Keras 3 takes no symbolic loss of a functional model")
    inputs = _input(shape=(3,))
    hidden = layers.Dense(2, activation="tanh")(inputs)
    model = set_weights(Model(inputs, layers.Dense(2)(hidden)))
    model.add_loss(0.1 * tf.reduce_sum(tf.square(hidden)))
    return compile(model, "mse", optimizer, **kwargs), {"x": data(ROWS, 3), "y": data(ROWS, 2, seed=8)}


def no_targets(optimizer=None, **kwargs):
    """All the loss comes from a layer; there is nothing to compare with."""
    support.requires(*ADD_LOSS)
    inputs = _input(shape=(3,))
    model = set_weights(Model(inputs, adding_layer()()(layers.Dense(2, activation="tanh")(inputs))))
    return compile(model, None, optimizer, **kwargs), {"x": data(ROWS, 3)}


def shared(optimizer=None, **kwargs):
    """One layer used twice."""
    first, second = _input(shape=(3,)), _input(shape=(3,))
    layer = layers.Dense(2, activation="tanh", name="shared")
    model = set_weights(Model([first, second], layers.Dense(1)(_concatenate([layer(first), layer(second)]))))
    return compile(model, "mse", optimizer, **kwargs), {"x": [data(ROWS, 3), data(ROWS, 3, seed=6)], "y": data(ROWS, 1, seed=8)}


def nested(optimizer=None, **kwargs):
    """A model within a model, with a regulariser inside."""
    within = _input(shape=(3,))
    inner = Model(within, layers.Dense(2, activation="tanh", kernel_regularizer=keras.regularizers.l2(0.3))(within), name="inner")
    inputs = _input(shape=(3,))
    model = set_weights(Model(inputs, layers.Dense(1)(inner(inputs))))
    return compile(model, "mse", optimizer, **kwargs), {"x": data(ROWS, 3), "y": data(ROWS, 1, seed=8)}


def conv(optimizer=None, **kwargs):
    inputs = _input(shape=(4, 4, 1))
    hidden = layers.Flatten()(layers.MaxPooling2D()(layers.Conv2D(2, 3, padding="same", activation="relu")(inputs)))
    model = set_weights(Model(inputs, layers.Dense(2, activation="softmax")(hidden)))
    y = np.eye(2, dtype="float32")[[0, 1, 1, 0]]
    return compile(model, "categorical_crossentropy", optimizer, **kwargs), {"x": data(ROWS, 4, 4, 1), "y": y}


def classes(optimizer=None, **kwargs):
    """Three classes in one-hot targets: takes class weights."""
    inputs = _input(shape=(3,))
    model = set_weights(Model(inputs, layers.Dense(3, activation="softmax")(inputs)))
    y = np.eye(3, dtype="float32")[[0, 2, 1, 2]]
    return compile(model, "categorical_crossentropy", optimizer, **kwargs), {"x": data(ROWS, 3), "y": y}


# What every version can train as it is, in the training phase and without a random number.
ZOO = (
    dense,
    sequential,
    deferred,
    subclassed,
    lstm,
    stateful,
    steps,
    embedding,
    two_by_two,
    loss_weights,
    regularized,
    add_loss,
    model_add_loss,
    no_targets,
    shared,
    nested,
    conv,
    classes,
)
