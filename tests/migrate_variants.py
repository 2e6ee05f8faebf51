"""The old idiom as it circulates: each is the source of ``gradients(model, x, y, sample_weight)``, for ``migrate`` to rewrite.

Without TensorFlow, so that a process of any version can import it.
"""

import os

import pytest

# The environments of tox.ini that have the extra's requirements: there, their absence is a failure.
ENVIRONMENTS = ("tf2.15", "tf2.21")


def require_libcst():
    """Skip a test module if libcst is not installed, except where it has to be."""
    if os.environ.get("TOX_ENV_NAME") in ENVIRONMENTS:
        __import__("libcst")
    pytest.importorskip("libcst", reason="libcst is not installed: the extra tfgradcompat[migrate]")


HEAD = "import numpy as np\nfrom tensorflow.keras import backend as K\n\n\n"
FEEDS = "model.inputs + model._feed_targets + model._feed_sample_weights + [K.learning_phase()]"


def _variant(body, head=HEAD):
    return head + body.lstrip("\n")


# Gradients by model.trainable_weights, weighted.
WEIGHTED = {
    "canonical": _variant("""
def gradients(model, x, y, sample_weight):
    grads = model.optimizer.get_gradients(model.total_loss, model.trainable_weights)
    fn = K.function(model.inputs + model._feed_targets + model._feed_sample_weights + [K.learning_phase()], grads)
    return fn([x, y, sample_weight, 0])
"""),
    "without phase": _variant("""
def gradients(model, x, y, sample_weight):
    grads = model.optimizer.get_gradients(model.total_loss, model.trainable_weights)
    inputs = model.inputs + model._feed_targets + model._feed_sample_weights
    fn = K.function(inputs=inputs, outputs=grads)
    return fn([x, y, sample_weight])
"""),
    "inputs in two steps": _variant("""
def gradients(model, x, y, sample_weight):
    params = []
    for layer in model.layers:
        params += layer.trainable_weights
    outputs = model.optimizer.get_gradients(model.total_loss, params)
    inputs = model.inputs + model._feed_targets + model._feed_sample_weights
    inputs += [K.learning_phase()]
    function = K.function(inputs, outputs)
    return function([x, y, sample_weight, False])
"""),
    "one expression": _variant("""
def gradients(model, x, y, sample_weight):
    return K.function(
        model._feed_inputs + model._feed_targets + model._feed_sample_weights,
        model.optimizer.get_gradients(model.total_loss, model.trainable_weights),
    )([x, y, sample_weight])
"""),
    "several calls": _variant("""
def gradients(model, x, y, sample_weight):
    weights = model.trainable_weights
    grads = model.optimizer.get_gradients(model.total_loss, weights)
    fn = K.function(model.inputs + model._feed_targets + model._feed_sample_weights + [K.learning_phase()], grads)
    results = []
    for phase in (0, 1):
        results.append(fn([x, y, sample_weight, phase]))
    again = fn([x, y, sample_weight, 0])
    assert all(np.allclose(one, other) for one, other in zip(results[0], again))
    return results[1]
"""),
    "closure": _variant("""
def gradients(model, x, y, sample_weight):
    grads = model.optimizer.get_gradients(model.total_loss, model.trainable_weights)
    fn = K.function(model.inputs + model._feed_targets + model._feed_sample_weights, grads)

    def evaluate(weights):
        return fn([x, y, weights])

    return evaluate(sample_weight)
"""),
    "standardized": _variant("""
def gradients(model, x, y, sample_weight):
    grads = model.optimizer.get_gradients(model.total_loss, model.trainable_weights)
    symb_inputs = (model._feed_inputs + model._feed_targets + model._feed_sample_weights)
    f = K.function(symb_inputs, grads)
    x, y, sample_weight = model._standardize_user_data(x, y, sample_weight)
    output_grad = f(x + y + sample_weight)
    return output_grad
"""),
    "standardized, phase": _variant("""
def gradients(model, x, y, sample_weight):
    grads = model.optimizer.get_gradients(model.total_loss, model.trainable_weights)
    f = K.function(model._feed_inputs + model._feed_targets + model._feed_sample_weights + [K.learning_phase()], grads)
    x_, y_, weight_ = model._standardize_user_data(x, y, sample_weight=sample_weight)
    return f(x_ + y_ + weight_ + [1])
"""),
    "sequential list": _variant("""
def gradients(model, x, y, sample_weight):
    optimizer = model.optimizer
    loss = model.total_loss
    weights = [weight for weight in model.trainable_weights if weight is not None]
    gradients = optimizer.get_gradients(loss, weights)
    feed = [x, sample_weight, y, 0]
    get_gradients = K.function(
        inputs=model.inputs + model._feed_sample_weights + model._feed_targets + [K.learning_phase()], outputs=gradients
    )
    return get_gradients(feed)
"""),
    "attribute": _variant("""
class Wrapper(object):
    def __init__(self, model):
        self.model = model

    def compute(self, x, y, sample_weight):
        grads = self.model.optimizer.get_gradients(self.model.total_loss, self.model.trainable_weights)
        fn = K.function(self.model.inputs + self.model._feed_targets + self.model._feed_sample_weights, grads)
        return fn([x, y, sample_weight])


def compute(wrapper, x, y, sample_weight):
    model = wrapper.model
    grads = wrapper.model.optimizer.get_gradients(wrapper.model.total_loss, model.trainable_weights)
    fn = K.function(wrapper.model.inputs + model._feed_targets + wrapper.model._feed_sample_weights, grads)
    return fn([x, y, sample_weight])


def gradients(model, x, y, sample_weight):
    wrapper = Wrapper(model)
    results = wrapper.compute(x, y, sample_weight)
    for one, other in zip(results, compute(wrapper, x, y, sample_weight)):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    return results
"""),
    "backend gradients": _variant("""
def gradients(model, x, y, sample_weight):
    grads = K.gradients(model.total_loss, model.trainable_weights)
    fn = K.function(model.inputs + model._feed_targets + model._feed_sample_weights, grads, name="gradients")
    return fn([x, y, sample_weight])
"""),
    "imported functions": _variant(
        """
def gradients(model, x, y, sample_weight):
    fn = function(
        [*model.inputs, *model._feed_targets, *model._feed_sample_weights, learning_phase()],
        outputs=tf.gradients(model.total_loss, model.trainable_weights),
        updates=[],
    )
    return fn([x] + [y] + [sample_weight] + [0])
""",
        "import tensorflow as tf\nfrom tensorflow.keras.backend import function, learning_phase\n\n\n",
    ),
    "whole path": _variant(
        """
def gradients(model, x, y, sample_weight):
    grads = model.optimizer.get_gradients(model.total_loss, model.trainable_weights)
    fn = tf.keras.backend.function(model.inputs + model._feed_targets + model._feed_sample_weights, grads)
    return fn((x, y, sample_weight))
""",
        "import tensorflow as tf\n\n\n",
    ),
    "another model afterwards": _variant("""
def gradients(model, x, y, sample_weight):
    grads = model.optimizer.get_gradients(model.total_loss, model.trainable_weights)
    fn = K.function(model.inputs + model._feed_targets + model._feed_sample_weights + [K.learning_phase()], grads)
    model = None
    return fn([x, y, sample_weight, 0])
"""),
    "within each other": _variant("""
def gradients(model, x, y, sample_weight):
    grads = model.optimizer.get_gradients(model.total_loss, model.trainable_weights)
    fn = K.function(model.inputs + model._feed_targets + model._feed_sample_weights, grads)
    return fn([x + 0 * fn([x, y, sample_weight])[1][0], y, sample_weight])
"""),
    "any params": _variant("""
def compute(model, x, y, params, sample_weight=None, learning_phase=0):
    sample_weight = np.ones(len(x)) if sample_weight is None else sample_weight

    outputs = model.optimizer.get_gradients(model.total_loss, params)
    inputs  = (model.inputs + model._feed_targets + model._feed_sample_weights
               + [K.learning_phase()])

    grads_fn = K.function(inputs, outputs)
    gradients = grads_fn([x, y, sample_weight, learning_phase])
    return gradients


def gradients(model, x, y, sample_weight):
    first = compute(model, x, y, model.trainable_weights[0], sample_weight)
    rest = compute(model, x, y, tuple(model.trainable_weights[1:]), sample_weight)
    return first + rest
"""),
    "one weight": _variant("""
def gradients(model, x, y, sample_weight):
    results = []
    for weight in list(model.trainable_weights):
        grads = model.optimizer.get_gradients(model.total_loss, [weight])
        fn = K.function(model.inputs + model._feed_targets + model._feed_sample_weights, grads)
        results.append(fn([x, y, sample_weight])[0])
    kernel = model.layers[-1].kernel
    fn = K.function(
        model.inputs + model._feed_targets + model._feed_sample_weights,
        model.optimizer.get_gradients(model.total_loss, kernel),
    )
    assert [len(fn([x, y, sample_weight]))] == [1]
    return results
"""),
    "method and helper of the same name": _variant("""
def get_gradients(model, x, y, sample_weight):
    grads = model.optimizer.get_gradients(model.total_loss, model.trainable_weights)
    fn = K.function(model.inputs + model._feed_targets + model._feed_sample_weights, grads)
    return fn([x, y, sample_weight])


def gradients(model, x, y, sample_weight):
    return get_gradients(model, x, y, sample_weight)
"""),
}

# In a namespace that has the model and the batch already: code at module level.
MODULE_LEVEL = _variant("""
grads = model.optimizer.get_gradients(model.total_loss, model.trainable_weights)
fn = K.function(model.inputs + model._feed_targets + model._feed_sample_weights + [K.learning_phase()], grads)
results = fn([x, y, sample_weight, 0])
grads = model.optimizer.get_gradients(model.total_loss, model.trainable_weights[:1])
fn = K.function(model.inputs + model._feed_targets + model._feed_sample_weights + [K.learning_phase()], grads)
rest = [fn([x, y, sample_weight, 0]) for _ in range(2)]


def gradients(*batch):
    np.testing.assert_allclose(rest[0][0], results[0], rtol=1e-5)
    return results
""")

# Placeholders by number, in an order of its own; only to TensorFlow 2.1 and in standalone Keras.
PLACEHOLDERS = _variant("""
def gradients(model, x, y, sample_weight):
    weights = model.trainable_weights  # weight tensors
    gradients = model.optimizer.get_gradients(model.total_loss, weights)  # gradient tensors

    input_tensors = [model.inputs[0],  # input data
                     model.sample_weights[0],  # how much to weight each sample by
                     model.targets[0],  # labels
                     K.learning_phase(),  # train or test mode
                     ]
    get_gradients = K.function(inputs=input_tensors, outputs=gradients)
    return get_gradients([x, sample_weight, y, 0])
""")

# Unweighted: the gradients of single samples, spelled out as lists, summed by hand.
SINGLE_SAMPLES = _variant("""
def gradients(model, x, y, sample_weight):
    grads = model.optimizer.get_gradients(model.total_loss, model.trainable_weights)
    fn = K.function([model.inputs[0], model.sample_weights[0], model.targets[0], K.learning_phase()], grads)
    results = []
    for one in range(len(x)):
        inputs = [[x[one]],  # X
                  [1],  # sample weights
                  [y[one]],  # y
                  0  # learning phase in TEST mode
                  ]
        results.append(fn(inputs))
    return [np.mean(several, axis=0) for several in zip(*results)]
""")

PHASES = _variant("""
def gradients(model, x, y, sample_weight):
    grads = model.optimizer.get_gradients(model.total_loss, model.trainable_weights)
    fn = K.function(model.inputs + model._feed_targets + model._feed_sample_weights + [K.learning_phase()], grads)
    unfed = K.function(model.inputs + model._feed_targets + model._feed_sample_weights, grads)
    return fn([x, y, sample_weight, 0]), fn([x, y, sample_weight, True]), unfed([x, y, sample_weight])
""")

LAYER_OUTPUT = _variant('''
def gradients(model, inputs, outputs, layer=-1):
    """ Gets gradient a layer output for given inputs and outputs"""
    grads = model.optimizer.get_gradients(model.total_loss, model.layers[layer].output)
    symb_inputs = (model._feed_inputs + model._feed_targets + model._feed_sample_weights)
    f = K.function(symb_inputs, grads)
    x, y, sample_weight = model._standardize_user_data(inputs, outputs)
    output_grad = f(x + y + sample_weight)
    return output_grad
''')

# Two inputs and two outputs.
MULTIPLE = _variant("""
def gradients(model, x1, x2, y1, y2, weight1, weight2):
    grads = model.optimizer.get_gradients(model.total_loss, model.trainable_weights)
    fn = K.function(model.inputs + model._feed_targets + model._feed_sample_weights, grads)
    return fn([x1, x2, y1, y2, weight1, weight2])
""")

# By the input and the first layer's output, unweighted.
INPUT = _variant("""
def gradients(model, x, y):
    grads = model.optimizer.get_gradients(model.total_loss, model.input)
    fn = K.function([model.inputs[0], model.targets[0]], grads)
    by_input = fn([x, y])
    both = K.gradients(model.total_loss, [model.inputs[0], model.get_layer("out").output])
    fn = K.function([model.input, model.targets[0], K.learning_phase()], both)
    phase = 0
    return by_input, fn([x, y, phase])
""")

CLASS_WEIGHT = _variant("""
def gradients(model, x, y, class_weight):
    grads = model.optimizer.get_gradients(model.total_loss, model.trainable_weights)
    fn = K.function(model._feed_inputs + model._feed_targets + model._feed_sample_weights, grads)
    xs, ys, weights = model._standardize_user_data(x, y, None, class_weight)
    return fn(xs + ys + weights)
""")

LIBRARIES = {
    "see-rnn": (
        """
from see_rnn import get_gradients


def gradients(model, x, y, sample_weight):
    return get_gradients(model, '*', x, y, sample_weight=sample_weight, learning_phase=0, mode='weights')
""",
        list,
    ),
    "see-rnn, params": (
        """
import see_rnn


def gradients(model, x, y, sample_weight):
    first, second = model.trainable_weights[:2]
    both = see_rnn.get_gradients(model, None, x, y, sample_weight, 0, params=[first, second])
    rest = [
        see_rnn.inspect_gen.get_gradients(model, None, x, y, sample_weight, params=model.trainable_weights[place])
        for place in (2, 3)
    ]
    return both + rest
""",
        list,
    ),
    "keract": (
        """
from keract import get_gradients_of_trainable_weights


def gradients(model, x, y, sample_weight):
    return get_gradients_of_trainable_weights(model, x, y)
""",
        dict,
    ),
}
