"""What a model is: flavour, mode and package, read off real models of the flavour and mode under test."""
import sys

import numpy as np
import pytest

import models
import support
from processes import python
from support import EAGER, FLAVOUR, GRAPH, KERAS, KERAS3, MODE, STANDALONE, TF, Model, Version, layers, requires, tf
from tfgradcompat import UnsupportedModelError, get_gradients, locate
from tfgradcompat.registry import adapter_for
from tfgradcompat.registry import environment as environments
from tfgradcompat.registry.environment import inspect

BUILDERS = (models.dense, models.sequential, models.deferred, models.subclassed)
HOME = {"tf.keras": "tensorflow.python.keras", "keras": "keras", "tf_keras": "tf_keras.src", "keras3": "keras.src"}[FLAVOUR]
if FLAVOUR == "tf.keras" and TF < Version("1.9"):
    HOME = "tensorflow.python.keras._impl.keras"
elif FLAVOUR == "tf.keras" and TF >= Version("2.6"):
    HOME = "keras.src" if TF >= Version("2.13") else "keras"


def build_in_graph(builder):
    """A graph-mode model in an eager process, if TensorFlow has such a thing: (model, batch, graph)."""
    requires(MODE == "eager" and not KERAS3, "an eager process")
    graph = tf.Graph()
    with graph.as_default():
        requires(not tf.executing_eagerly(), "eager mode reaches into graphs")
        return builder() + (graph,)


@pytest.mark.parametrize("builder", BUILDERS, ids=lambda builder: builder.__name__)
def test_flavour_mode_versions_and_package(builder):
    model, batch = builder()
    found = inspect(model)
    assert (found.flavour, found.mode) == (FLAVOUR, "graph" if GRAPH else "eager")
    assert (found.tensorflow, found.keras) == (TF, KERAS)
    assert found.package == HOME
    assert adapter_for(model).environment == found
    model.train_on_batch(**batch)
    assert inspect(model) == found
    assert adapter_for(model) is adapter_for(builder()[0])


def test_the_package_is_where_the_models_class_comes_from():
    class Mine(Model):
        pass

    Mine.__module__ = "somewhere.engine.training"
    Mine.__name__ = "Model"
    model, _ = models.dense()
    assert inspect(model).package == HOME
    if support.SUBCLASSING:
        assert inspect(Mine()).package == HOME


def test_without_a_model_the_same_is_found():
    model, _ = models.dense()
    mode = "graph" if GRAPH else "eager"
    assert environments.installed(FLAVOUR, mode) == inspect(model)
    assert FLAVOUR in environments.live_flavours()
    assert environments.process_mode(FLAVOUR) == mode
    for flavour in environments.FLAVOURS:
        found = environments.installed(flavour, mode)
        assert found is None or found.flavour == flavour


def test_of_process_is_what_tf_keras_is():
    found = environments.of_process()
    if getattr(tf, "keras", None) is None:
        assert found.flavour == "keras"
    else:
        assert issubclass(tf.keras.models.Model, locate("Model"))
        assert found.flavour == ("tf.keras" if TF < Version("2.16") else "keras3")


# -- a graph-mode model in an eager process ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dense", "sequential", "deferred", "subclassed"])
def test_a_model_keeps_the_mode_it_was_built_in(name):
    builder = getattr(models, name)
    # With an optimizer by name, which Keras makes to fit.
    model, batch, graph = build_in_graph(lambda: builder(optimizer="sgd"))
    assert inspect(model).mode == "graph"
    twin, _ = builder()
    assert inspect(twin).mode == "eager"
    assert adapter_for(twin).environment.mode == "eager"


def test_keras_switches_whole_classes_between_modes_and_the_model_of_the_other_mode_is_refused():
    requires(TF >= Version("2.3"), "classes stay as they are")
    eager, batch = models.dense()
    adapter = adapter_for(eager)
    in_graph, _, graph = build_in_graph(lambda: models.dense(optimizer="sgd"))
    assert adapter_for(in_graph).environment.mode == "graph"
    with pytest.raises(Exception):  # Keras's own
        eager.train_on_batch(**batch)
    with pytest.raises(UnsupportedModelError, match="built in eager mode.*switched"):
        get_gradients(eager, **batch)
    models.dense()
    eager.train_on_batch(**batch)
    assert adapter_for(eager) is adapter
    with pytest.raises(UnsupportedModelError, match="built in graph mode.*switched"):
        get_gradients(in_graph, **batch)


def test_a_model_built_while_a_function_is_traced_is_an_eager_one():
    requires(MODE == "eager" and TF >= Version("2.0"), "an eager process with tf.function")
    built = []

    @tf.function(autograph=False)
    def trace():
        inputs = layers.Input(shape=(3,))
        built.append(Model(inputs, layers.Activation("tanh")(inputs)))
        return tf.constant(0)

    try:
        trace()
    except ValueError as error:  # the model is made all the same; TensorFlow 2.2-2.12 then minds the counters in it
        assert "first call" in str(error)
    assert inspect(built[0]).mode == "eager"


# -- not a model ---------------------------------------------------------------------------------------------------------


class Wrapper(object):
    """Has what a model has, and is none."""

    def __init__(self, model):
        self.model = model
        self.optimizer = model.optimizer
        self.trainable_weights = model.trainable_weights


def test_what_is_no_model_is_refused():
    model, batch = models.dense()
    for thing in (None, "model.h5", 3, np.ones(3), model.layers[-1], type(model), Wrapper(model), layers.Dense(2), sys, len):
        with pytest.raises(UnsupportedModelError) as caught:
            get_gradients(thing, **batch)
        assert isinstance(caught.value, TypeError)
        assert type(thing).__name__ in str(caught.value)


def test_the_dead_copy_of_keras_is_refused():
    requires(TF >= Version("2.6"), "tensorflow.python.keras is alive")
    from tensorflow.python.keras.engine.training import Model as DeadModel

    with pytest.raises(UnsupportedModelError, match="tensorflow.python.keras"):
        inspect(DeadModel())
    with pytest.raises(UnsupportedModelError, match="tensorflow.python.keras"):
        locate("Model", DeadModel())


# -- another flavour beside it -------------------------------------------------------------------------------------------


def others():
    """The other flavours that are installed and can be used in this process: (flavour, module)."""
    found = []
    if STANDALONE and TF >= Version("1.4"):
        found.append(("tf.keras", tf.keras))
    if FLAVOUR == "tf.keras" and (GRAPH or TF >= Version("2.0")):  # in TensorFlow 1 standalone Keras needs a graph process
        found.append(("keras", _import("keras")))
    if FLAVOUR in ("tf.keras", "keras3"):
        found.append(("tf_keras", _import("tf_keras")))
    if FLAVOUR == "tf_keras" and TF >= Version("2.16") and EAGER:
        found.append(("keras3", _import("keras")))
    if FLAVOUR == "tf_keras" and TF < Version("2.16"):
        found.append(("tf.keras", tf.keras))
    return [(flavour, module) for flavour, module in found if module is not None and flavour in environments.live_flavours()]


def _import(name):
    try:
        return __import__(name)
    except ImportError:
        return None


def test_models_of_two_flavours_side_by_side():
    pairs = others()
    requires(pairs, "no other flavour is installed that works in this mode")
    x, y = models.data(4, 3), models.data(4, 2, seed=8)
    for flavour, other in pairs:
        if not KERAS3 and hasattr(other.backend, "clear_session"):
            other.backend.clear_session()  # each flavour has a session of its own, for the graph it was made in
            support.clear()
        mine, _ = models.linear()
        # Before theirs exist: standalone Keras marks the variables of all Kerases initialised, in its own session.
        weights = mine.get_weights()
        inputs = other.layers.Input(shape=(3,))
        theirs = other.models.Model(inputs, other.layers.Dense(2)(inputs))
        theirs.set_weights(weights)
        theirs.compile("sgd", "mse")
        found = inspect(theirs)
        assert found.flavour == flavour and inspect(mine).flavour == FLAVOUR
        assert found.package != HOME
        assert adapter_for(theirs) is not adapter_for(mine)
        assert isinstance(theirs, locate("Model", theirs)) and not isinstance(theirs, locate("Model", mine))
        assert locate("backend", theirs) is not locate("backend", mine)
        error = x.dot(mine.get_weights()[0]) + mine.get_weights()[1] - y
        closed_form = [x.T.dot(error) / 4, error.sum(0) / 4]  # of the mean over 4 samples of 2 outputs
        for model in (mine, theirs, mine):
            support.assert_close(get_gradients(model, x, y), closed_form)


ANOTHER_BACKEND = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import keras
import tfgradcompat
inputs = keras.layers.Input(shape=(3,))
model = keras.models.Model(inputs, keras.layers.Dense(2)(inputs))
model.compile("sgd", "mse")
try:
    tfgradcompat.get_gradients(model, np.ones((4, 3)), np.ones((4, 2)))
except tfgradcompat.UnsupportedModelError as error:
    print("refused:", error)
"""


def test_another_backend_of_standalone_keras_is_refused(tmp_path):
    requires(STANDALONE and KERAS >= Version("2.2.3"), "no backends but those that come with it")
    (tmp_path / "another.py").write_text("from keras.backend.tensorflow_backend import *\n")
    code, output, errors = python("-c", ANOTHER_BACKEND, str(tmp_path), KERAS_BACKEND="another")
    assert code == 0, errors
    assert "refused:" in output and "'another'" in output and "KERAS_BACKEND=tensorflow" in output
