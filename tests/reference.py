"""What the gradients must be, had from the framework's own training and evaluation, never from the package.

``SGD(1.0)`` subtracts the gradient: weights before minus weights after one ``train_on_batch`` are the training gradient.
``train_on_batch`` always runs the training phase; for the inference phase the loss of ``test_on_batch`` is differenced.
"""
import contextlib

import numpy as np

import support
from support import read, tf, write

def training_gradient(model, x, y=None, sample_weight=None, class_weight=None):
    """The gradients one ``train_on_batch`` applies, as {place in ``model.trainable_weights``: array}.

    The model must be built, and compiled with ``support.sgd()``. Its weights, moving averages and RNN states are put back.
    """
    return training_loss_and_gradient(model, x, y, sample_weight, class_weight)[1]


def training_loss_and_gradient(model, x, y=None, sample_weight=None, class_weight=None):
    """The total loss that ``train_on_batch`` returns, and ``training_gradient``."""
    weights = list(model.trainable_weights)
    states = support.rnn_states(model)
    state_values = read(states)
    all_before = model.get_weights()
    before = read(weights)
    reset_metrics(model)
    with ordered(model), support.untraced():
        results = model.train_on_batch(x, y, **given(sample_weight=sample_weight, class_weight=class_weight))
    after = read(weights)
    model.set_weights(all_before)
    write(states, state_values)
    return first(results), {place: one - other for place, (one, other) in enumerate(zip(before, after))}


def test_loss(model, x, y=None, sample_weight=None):
    """The total loss that ``test_on_batch`` returns: the inference phase."""
    reset_metrics(model)
    return first(model.test_on_batch(x, y, **given(sample_weight=sample_weight)))


test_loss.__test__ = False  # not a test, whatever its name


def finite_differences(model, x, y=None, sample_weight=None, weights=None, step=0.05):
    """Central differences of the inference loss by every entry, as {place in ``weights``: array}.

    They are exact, whatever the step, where the loss is a quadratic function of each single entry; for other models take a
    small step and build them within ``support.float64()``. ``weights`` are the model's trainable ones unless given.
    """
    weights = list(model.trainable_weights if weights is None else weights)
    states = support.rnn_states(model)
    state_values = read(states)

    def loss():
        write(states, state_values)
        return test_loss(model, x, y, sample_weight)

    gradients = {}
    for place, weight in enumerate(weights):
        value = read([weight])[0]
        gradient = np.zeros_like(value)
        for entry in np.ndindex(*value.shape):
            shifted = []
            for sign in (1, -1):
                moved = value.copy()
                moved[entry] += sign * step
                write([weight], [moved])
                shifted.append(loss())
            gradient[entry] = (shifted[0] - shifted[1]) / (2 * step)
        write([weight], [value])
        gradients[place] = gradient
    write(states, state_values)
    return gradients


def given(**arguments):
    """Those arguments that are not None."""
    return {name: value for name, value in arguments.items() if value is not None}


def first(results):
    """The total loss among what ``train_on_batch`` and ``test_on_batch`` return."""
    return float(results[0] if isinstance(results, (list, tuple)) else results)


def reset_metrics(model):
    """Some releases of Keras 3 return running averages over batches."""
    if hasattr(model, "reset_metrics") and not support.GRAPH:
        model.reset_metrics()


def _has_reference_variables(model):
    return support.GRAPH and any(weight.dtype._is_ref_dtype for weight in model.weights)


@contextlib.contextmanager
def ordered(model):
    """Finish loss and gradients before the first update: an update of a reference variable overtakes what still reads it.

    Only the order changes: each gradient the optimizer got is passed on through an identity that waits for all of them, and
    the updates of RNN states, which can overtake as well, are left out. The function that trains so is dropped at the end of
    the outermost context, so that one around several steps makes it once.
    """
    trained, optimizer = support.inner(model), model.optimizer
    if not _has_reference_variables(model) or "get_gradients" in vars(optimizer):
        yield
        return
    stateful = [layer for layer in support.all_layers(model) if getattr(layer, "stateful", False)]
    original = optimizer.get_gradients

    def get_gradients(loss, params):
        gradients = original(loss, params)
        with tf.control_dependencies([loss] + [part for gradient in gradients for part in _tensors(gradient)]):
            return [_identity(gradient) for gradient in gradients]

    trained.train_function = None
    optimizer.get_gradients = get_gradients
    for layer in stateful:
        layer.get_updates_for = lambda inputs: []
    try:
        yield
    finally:
        del optimizer.get_gradients
        for layer in stateful:
            del layer.get_updates_for
        trained.train_function = None


def _tensors(gradient):
    return [gradient.values, gradient.indices] if isinstance(gradient, tf.IndexedSlices) else [gradient]


def _identity(gradient):
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(tf.identity(gradient.values), tf.identity(gradient.indices), gradient.dense_shape)
    return tf.identity(gradient)
