"""One process, one flavour, one mode: chosen by two environment variables, before anything else is imported.

``TFGRADCOMPAT_FLAVOUR`` is ``tf.keras``, ``keras``, ``tf_keras`` or ``keras3``; ``TFGRADCOMPAT_MODE`` is ``graph``, ``eager``
or ``run_eagerly`` (every model compiled with ``run_eagerly=True``). The defaults are what ``tf.keras`` is in this
TensorFlow, and the mode it has by itself. Tests take the framework from here, so that none of them asks which it is.
"""
import contextlib
import gc
import os
import random
import sys
import warnings
from collections import OrderedDict

import numpy as np
import pytest
from packaging.version import Version

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # old releases on newer NumPy and Python
    import tensorflow as tf


def _version(module):
    return Version(Version(module.__version__).base_version)


TF = _version(tf)


def _natural_flavour():
    if TF >= Version("2.16"):
        return "tf_keras" if os.environ.get("TF_USE_LEGACY_KERAS") == "1" else "keras3"
    return "tf.keras" if TF >= Version("1.4") else "keras"


FLAVOUR = os.environ.get("TFGRADCOMPAT_FLAVOUR") or _natural_flavour()
STANDALONE = FLAVOUR == "keras"
KERAS3 = FLAVOUR == "keras3"
MODE = os.environ.get("TFGRADCOMPAT_MODE") or ("graph" if STANDALONE or TF < Version("2.0") else "eager")
GRAPH = MODE == "graph"
EAGER = not GRAPH


def _switch():
    """Put the process into MODE. Standalone Keras works in its own graph, whatever TensorFlow's mode."""
    if STANDALONE:
        assert GRAPH, "standalone keras has graph mode only"
    elif GRAPH and TF >= Version("2.0"):
        tf.compat.v1.disable_eager_execution()
        if TF >= Version("2.4"):
            # Else a recurrent model cannot be trained any more once anything, be it its weights, has been run in its graph.
            tf.compat.v1.experimental.output_all_intermediates(True)
    elif EAGER and TF < Version("2.0"):
        tf.enable_eager_execution()


def _import():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if FLAVOUR == "tf.keras":
            assert Version("1.4") <= TF < Version("2.16"), "this TensorFlow's tf.keras is another flavour"
            return tf.keras, TF
        if FLAVOUR == "tf_keras":
            import tf_keras

            return tf_keras, _version(tf_keras)
        import keras

        assert KERAS3 == (_version(keras) >= Version("3.0")), "the installed keras is another flavour"
        return keras, _version(keras)


def _cheapen_operations():
    """Leave out what TensorFlow 1 does per operation for its messages only, which takes a third of the tests' time."""
    from tensorflow.python.util import deprecation

    deprecation._PRINT_DEPRECATION_WARNINGS = False  # matches the arguments of every call with the function's signature
    # Each operation walks the whole stack to tell where it was made, with a function that has moved twice.
    from tensorflow.python.framework import ops

    if hasattr(ops, "_extract_stack"):
        ops._extract_stack = _constant(ops._extract_stack())
    elif hasattr(tf.Graph, "_extract_stack"):
        tf.Graph._extract_stack = _constant(tf.Graph._extract_stack(tf.Graph()))
    else:
        from tensorflow.python.util import tf_stack

        tf_stack.extract_stack = _constant(tf_stack.extract_stack())


def _constant(value):
    return lambda *arguments, **options: value


_switch()
if hasattr(getattr(tf, "config", None), "optimizer"):  # 1.15 and later
    # Rewriting graphs costs much of the tests' time and changes no value they compare.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
if TF < Version("2.0"):
    _cheapen_operations()
keras, KERAS = _import()
layers = keras.layers
K = None if KERAS3 else keras.backend
if hasattr(gc, "freeze"):  # Python 3.7 and later
    gc.collect()
    gc.freeze()  # what was imported stays; going through it over and over takes time
gc.set_threshold(50000, 10, 10)
Model = keras.models.Model  # TensorFlow 1.4 has no tf.keras.Model

# A functional model of tf.keras 1.7-1.12 takes only tf.train optimizers in eager mode.
TRAIN_OPTIMIZERS = FLAVOUR == "tf.keras" and EAGER and TF < Version("1.13")
# The loop over single operations and tapes that came with eager mode and ended with TensorFlow 2.1.
EARLY_EAGER = FLAVOUR == "tf.keras" and EAGER and TF < Version("2.2")
# Keras 2 from 2.2 on in eager mode, and tf_keras.
LATE_EAGER = FLAVOUR in ("tf.keras", "tf_keras") and EAGER and TF >= Version("2.2")
# Weights may appear and disappear in the loss: a placeholder is made when one is first given.
ENDPOINTS = FLAVOUR in ("tf.keras", "tf_keras") and GRAPH and TF >= Version("1.14")
SUBCLASSING = not STANDALONE and TF >= Version("1.8") or STANDALONE and KERAS >= Version("2.2")


def requires(condition, reason):
    """Skip the test unless the framework can do what it is about; ``reason`` says what the framework does instead."""
    if not condition:
        pytest.skip("%s %s %s: %s" % (FLAVOUR, KERAS, MODE, reason))


def seed(number=0):
    """Seed Python, NumPy and TensorFlow."""
    random.seed(number)
    np.random.seed(number)
    if STANDALONE and TF >= Version("2.0"):
        from keras.backend.tensorflow_backend import get_graph

        with get_graph().as_default():
            tf.compat.v1.set_random_seed(number)
    elif TF >= Version("2.0"):
        tf.random.set_seed(number)
    else:
        tf.set_random_seed(number)


def _session_config():
    """Sessions of TensorFlow 1 that run graphs as they are, as 2.0 and later does here."""
    config = tf.ConfigProto(allow_soft_placement=True)
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    rewriting = getattr(config.graph_options, "rewrite_options", None)
    if hasattr(rewriting, "disable_meta_optimizer"):  # not in the oldest
        rewriting.disable_meta_optimizer = True
    return config


def clear():
    """Forget the models of earlier tests, so that graphs and names do not grow from test to test."""
    if not KERAS3:
        K.clear_session()
        if GRAPH and TF < Version("2.0"):
            K.set_session(tf.Session(config=_session_config()))
        backend = sys.modules[K.function.__module__]
        if EAGER and TF < Version("1.14") and hasattr(backend, "_GRAPH"):
            backend._GRAPH = None  # TensorFlow 1.13 keeps the graph behind eager models, and copies all of it per function


@contextlib.contextmanager
def untraced():
    """Training steps run without being traced first, which would take most of the tests' time; the values are the same."""
    config = getattr(tf, "config", None)
    switch = getattr(config, "run_functions_eagerly", None)  # 2.3 and later
    if GRAPH or switch is None:
        yield
        return
    switch(True)
    try:
        yield
    finally:
        switch(False)


@contextlib.contextmanager
def float64():
    """Models built inside compute in float64."""
    _set_dtype("float64")
    try:
        yield
    finally:
        _set_dtype("float32")


def _set_dtype(name):
    keras.backend.set_floatx(name)
    if KERAS3:  # a policy, once made, does not follow
        keras.config.set_dtype_policy(name)


# -- compiling -----------------------------------------------------------------------------------------------------------


def _legacy_optimizers():
    """Whether training by session needs the ``legacy`` optimizers: 2.11 and later, whose new ones only run eagerly."""
    return GRAPH and not STANDALONE and TF >= Version("2.11")


def optimizers():
    """The module the flavour's optimizers come from that train in this mode."""
    return keras.optimizers.legacy if _legacy_optimizers() else keras.optimizers


def sgd(learning_rate=1.0, **clip):
    """SGD of this flavour; with a learning rate of 1 it subtracts the gradient itself."""
    if TRAIN_OPTIMIZERS:
        requires(not clip, "eager models take tf.train optimizers only, which clip nothing")
        return tf.train.GradientDescentOptimizer(learning_rate)
    new_name = Version("2.3") if STANDALONE else Version("1.14")
    clip["learning_rate" if KERAS >= new_name or not STANDALONE and TF >= new_name else "lr"] = learning_rate
    return optimizers().SGD(**clip)


def compile(model, loss, optimizer=None, temporal=False, **kwargs):
    """``model.compile``; ``temporal`` announces one sample weight per time step where the version wants to know.

    Returns the model.
    """
    if temporal and not (KERAS3 or LATE_EAGER):
        kwargs["sample_weight_mode"] = "temporal" if temporal is True else temporal
    if MODE == "run_eagerly":
        kwargs["run_eagerly"] = True
    model.compile(optimizer=sgd() if optimizer is None else optimizer, loss=loss, **kwargs)
    return model


# -- looking into a model ------------------------------------------------------------------------------------------------


def read(variables):
    """The values of variables, as a list of arrays."""
    variables = list(variables)
    if GRAPH:
        return [np.array(value) for value in K.batch_get_value(variables)]
    return [np.array(variable.numpy()) for variable in variables]


def write(variables, values):
    """Assign values to variables."""
    if GRAPH:
        K.batch_set_value(list(zip(variables, values)))
    else:
        for variable, value in zip(variables, values):
            variable.assign(value)


def inner(model):
    """The model that trains: Sequential of tf.keras up to 1.7 and of standalone Keras up to 2.1 wraps another one."""
    wrapped = getattr(model, "model", None)
    return wrapped if wrapped is not None and hasattr(wrapped, "train_on_batch") else model


def all_layers(model):
    """The layers of a model and of the models in it."""
    found = []
    for layer in model.layers:
        found.append(layer)
        if hasattr(layer, "layers"):
            found.extend(all_layers(layer))
    return found


def output(layer):
    """The output of a layer that has one, as a param: the layer itself in eager mode of tf.keras 1.7, which refuses to tell."""
    return layer if EAGER and TF < Version("1.8") else layer.output


def predict(model, x):
    """What ``predict_on_batch`` returns; of one output an array, which some releases put in a list."""
    outputs = model.predict_on_batch(x)
    return outputs[0] if isinstance(outputs, (list, tuple)) and len(outputs) == 1 else outputs


def rnn_states(model):
    """The state variables of stateful layers."""
    found = []
    for layer in all_layers(model):
        if getattr(layer, "stateful", False) and getattr(layer, "states", None):
            found.extend(state for state in layer.states if state is not None)
    return found


def session():
    """The session that runs graph-mode models."""
    if FLAVOUR == "tf_keras":
        from tf_keras.src.backend import get_session  # public only as tf.compat.v1.keras, which is another flavour's

        return get_session()
    return K.get_session() if hasattr(K, "get_session") else tf.compat.v1.keras.backend.get_session()


# Standalone Keras on an eager TensorFlow lives in a graph that TensorFlow gives no session for.
SESSIONS = not (STANDALONE and TF >= Version("2.0"))


def optimizer_variables(model):
    """What the optimizer keeps: iterations, slots."""
    optimizer = model.optimizer
    for name in ("weights", "variables"):
        try:
            found = getattr(optimizer, name, None)
        except NotImplementedError:  # the wrapper of a tf.train optimizer
            continue
        found = found() if callable(found) and not isinstance(found, (list, tuple)) else found
        if found is not None:
            return list(found)
    return []


def metric_variables(model):
    """What the metrics keep, the running losses included."""
    try:
        metrics = model.metrics
    except (AttributeError, ValueError):  # not built
        return []
    found = []
    for metric in metrics or []:
        found.extend(getattr(metric, "variables", None) or getattr(metric, "weights", None) or [])
    return found


def variables(model):
    """Every variable a step can touch, by a name of its own: weights, seeds, RNN states, metrics, optimizer."""
    groups = (
        ("weight", model.weights),
        ("variable", getattr(model, "variables", []) if KERAS3 else []),
        ("state", rnn_states(model)),
        ("metric", metric_variables(model)),
        ("optimizer", optimizer_variables(model)),
    )
    found = OrderedDict()
    for group, members in groups:
        for index, variable in enumerate(members):
            found["%s %d %s" % (group, index, getattr(variable, "path", None) or variable.name)] = variable
    return found


def snapshot(model):
    """``variables`` with their values."""
    found = variables(model)
    return OrderedDict(zip(found, read(found.values())))


def set_weights(model, number=0, scale=0.6):
    """Fixed weights, the same in every process that builds the same model. Returns the model."""
    generator = np.random.RandomState(number)
    values = [generator.uniform(-scale, scale, np.shape(value)) for value in model.get_weights()]
    model.set_weights(values)
    return model


def graph_size(model):
    """The number of operations in the graph of a graph-mode model."""
    return len(model.outputs[0].graph.get_operations())


# -- comparing -----------------------------------------------------------------------------------------------------------

RELATIVE = 1e-4  # of the largest entry: what float32 keeps through a small model
ABSOLUTE = 1e-6


def dense(value):
    """The dense array of a gradient."""
    if hasattr(value, "indices") and hasattr(value, "values"):
        shape = [int(size) for size in np.asarray(value.dense_shape)]
        array = np.zeros(shape, np.asarray(value.values).dtype)
        np.add.at(array, np.asarray(value.indices), np.asarray(value.values))
        return array
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def assert_close(actual, expected, relative=RELATIVE, absolute=ABSOLUTE):
    """Arrays, or lists or dicts of arrays, agree to ``relative`` of the largest entry of each."""
    if isinstance(expected, dict):
        if isinstance(actual, (list, tuple)):
            actual = dict(enumerate(actual))
        assert sorted(actual) == sorted(expected)
        for key in expected:
            _assert_one_close(actual[key], expected[key], relative, absolute, key)
    elif isinstance(expected, (list, tuple)):
        assert len(actual) == len(expected)
        for place, (one, other) in enumerate(zip(actual, expected)):
            _assert_one_close(one, other, relative, absolute, place)
    else:
        _assert_one_close(actual, expected, relative, absolute, "value")


def _assert_one_close(actual, expected, relative, absolute, where):
    if isinstance(expected, (list, tuple, dict)):
        assert_close(actual, expected, relative, absolute)
        return
    if expected is None:
        assert actual is None, "%s: expected None, got %r" % (where, actual)
        return
    assert actual is not None, "%s: got None, expected %r" % (where, expected)
    actual, expected = dense(actual), np.asarray(expected)
    assert actual.shape == expected.shape, "%s: shape %s, expected %s" % (where, actual.shape, expected.shape)
    if not expected.size:
        return
    bound = relative * np.max(np.abs(expected)) + absolute
    worst = np.max(np.abs(actual.astype("float64") - expected.astype("float64")))
    same_nans = np.isnan(expected).any() and (np.isnan(actual) == np.isnan(expected)).all()
    assert same_nans or worst <= bound, "%s: off by %g, allowed %g\n%s\nexpected\n%s" % (where, worst, bound, actual, expected)
