"""The embedded example: a small model, and what training makes of its weights beside what the package says."""
from collections import OrderedDict, namedtuple

import numpy as np

from ..api import value_and_gradients
from ..registry import adapter_for, adapter_in
from ..registry.environment import EAGER, TF_KERAS
from .frameworks import current_mode, environment

RELATIVE = 1e-4  # of the largest entry of a gradient: what float32 keeps

Comparison = namedtuple("Comparison", "adapter loss gradients references")
Comparison.__doc__ = """Gradients and references by weight name, the loss, and the adapter that served."""


def compare(tensorflow, flavour, keras):
    """Return the ``Comparison`` of the example model with its twin, which trains for one step."""
    adapter_in(environment(tensorflow, flavour))  # raises if there is none for this mode
    x, y, sample_weight = data()
    model, twin = (_model(tensorflow, flavour, keras) for _ in range(2))
    loss, gradients = value_and_gradients(model, x, y, weights(model), sample_weight, learning_phase=1)
    before = values(twin)
    twin.train_on_batch(x, y, sample_weight=sample_weight)
    after = values(twin)
    references = OrderedDict((name, before[name] - after[name]) for name in before)
    return Comparison(adapter_for(model), float(loss), gradients, references)


def data():
    """One batch: x, y, sample_weight."""
    generator = np.random.RandomState(1)
    x = generator.uniform(-1, 1, (8, 4)).astype("float32")
    y = np.sin(x.sum(axis=1, keepdims=True)).astype("float32")
    return x, y, np.array([1, 2, 3, 1, 2, 3, 1, 2], "float32")


def weights(model):
    """Name -> weight."""
    return OrderedDict(
        ("%s/%s" % (layer.name, kind), weight)
        for layer in model.layers
        for kind, weight in zip(("kernel", "bias"), layer.weights)
    )


def values(model):
    """Name -> value of each weight."""
    return OrderedDict(
        ("%s/%s" % (layer.name, kind), value)
        for layer in model.layers
        for kind, value in zip(("kernel", "bias"), layer.get_weights())
    )


def error(comparison):
    """The largest error, in units of the largest entry of the gradient it is in."""
    return max(
        np.max(np.abs(comparison.gradients[name] - reference)) / np.max(np.abs(reference))
        for name, reference in comparison.references.items()
    )


def agrees(comparison):
    return bool(error(comparison) <= RELATIVE)  # not so with NaN


def _model(tensorflow, flavour, keras):
    layers = keras.layers
    inputs = layers.Input(shape=(4,))
    hidden = layers.Dense(3, activation="tanh", kernel_regularizer=keras.regularizers.l2(0.01), name="hidden")(inputs)
    model = keras.models.Model(inputs, layers.Dense(1, name="output")(hidden))
    generator = np.random.RandomState(0)
    model.set_weights([generator.uniform(-1, 1, value.shape) for value in model.get_weights()])
    model.compile(_sgd(tensorflow, flavour, keras), "mean_squared_error")
    return model


def _sgd(tensorflow, flavour, keras):
    """Gradient descent with a learning rate of 1: it subtracts the gradient itself."""
    if flavour == TF_KERAS and current_mode(tensorflow) == EAGER and hasattr(tensorflow.train, "GradientDescentOptimizer"):
        return tensorflow.train.GradientDescentOptimizer(1.0)  # the first eager releases take no optimizer of Keras
    optimizers = keras.optimizers
    if current_mode(tensorflow) != EAGER:
        optimizers = getattr(optimizers, "legacy", optimizers)  # where there are two kinds, the older one trains by session
    if not hasattr(optimizers.SGD, "get_gradients"):
        return optimizers.SGD(1.0)

    class Sgd(optimizers.SGD):
        """In a session an update may overtake a gradient that reads the same variable: here all gradients come first."""

        def get_gradients(self, loss, params):
            return tensorflow.tuple(super(Sgd, self).get_gradients(loss, params))

    return Sgd(1.0)
