"""Symbols: each is found where its version has it, belongs to the model, and does what it is for."""
import inspect as python_inspect
import sys

import numpy as np
import pytest
from packaging.specifiers import SpecifierSet

import models
import support
from support import EAGER, FLAVOUR, GRAPH, KERAS, KERAS3, LATE_EAGER, MODE, STANDALONE, TF, Version, compile, keras, requires, tf
from tfgradcompat import SymbolNotFoundError, TfGradCompatError, locate
from tfgradcompat.registry import locations
from tfgradcompat.registry.environment import inspect

NEVER = "<0"
ALWAYS = ""

# Symbol -> versions of Keras that have it (tf.keras: of TensorFlow), for (tf.keras, keras, tf_keras, keras3).
EXISTS = {
    "Model": (ALWAYS, ALWAYS, ALWAYS, ALWAYS),
    "Sequential": (ALWAYS, ALWAYS, ALWAYS, ALWAYS),
    "Functional": (">=2.3", NEVER, ALWAYS, ALWAYS),
    "Network": ("<2.3", ALWAYS, NEVER, NEVER),
    "KerasTensor": (">=2.4", NEVER, ALWAYS, ALWAYS),
    "backend": (ALWAYS, ALWAYS, ALWAYS, ALWAYS),
    "function": (ALWAYS, ALWAYS, ALWAYS, NEVER),
    "learning_phase": (ALWAYS, ALWAYS, ALWAYS, NEVER),
    "symbolic_learning_phase": (">=1.13", NEVER, ALWAYS, NEVER),
    "eager_learning_phase_scope": (">=1.14", NEVER, ALWAYS, NEVER),
    "StatelessScope": (NEVER, NEVER, NEVER, ALWAYS),
    "data_adapter": (">=1.15", NEVER, ALWAYS, ALWAYS),
    "unpack_x_y_sample_weight": (">=2.2", NEVER, ALWAYS, ALWAYS),
    "single_batch_iterator": (">=2.2", NEVER, ALWAYS, NEVER),
    "train_validation_split": (">=2.2", NEVER, ALWAYS, ALWAYS),
    "expand_1d": (">=2.2,<2.7", NEVER, NEVER, NEVER),
    "match_dtype_and_rank": (">=2.2", NEVER, ALWAYS, NEVER),
    "class_weight_to_sample_weights": (NEVER, NEVER, NEVER, ALWAYS),
    "make_class_weight_map_fn": (">=2.2", NEVER, ALWAYS, ALWAYS),
    "standardize_weights": (ALWAYS, ALWAYS, ALWAYS, NEVER),
    "Sequence": (ALWAYS, ALWAYS, ALWAYS, NEVER),
    "PyDataset": (NEVER, NEVER, NEVER, ALWAYS),
    "training_utils": (">=1.7", ">=2.2", ALWAYS, NEVER),
    "training_utils_v1": (">=2.4", NEVER, ALWAYS, NEVER),
    "RespectCompiledTrainableState": (">=2.2", NEVER, ALWAYS, NEVER),
    "training_v1": (">=2.2", NEVER, ALWAYS, NEVER),
    "training_eager": (">=1.6", NEVER, ALWAYS, NEVER),
    "training_v2_utils": (">=1.15,<2.2", NEVER, NEVER, NEVER),
    "compile_utils": (">=2.2", NEVER, ALWAYS, ALWAYS),
    "LossesContainer": (">=2.2", NEVER, ALWAYS, NEVER),
    "CompileLoss": (NEVER, NEVER, NEVER, ALWAYS),
    "OptimizerV1": (ALWAYS, ALWAYS, ALWAYS, NEVER),
    "OptimizerV2": (">=1.13", NEVER, ALWAYS, NEVER),
    "Optimizer": (">=2.9", NEVER, ALWAYS, ALWAYS),
    "BaseOptimizer": (NEVER, NEVER, NEVER, ALWAYS),
    "BackendOptimizer": (NEVER, NEVER, NEVER, ALWAYS),
    "TFOptimizer": (ALWAYS, ALWAYS, ALWAYS, NEVER),
    "LossScaleOptimizer": (">=1.14", NEVER, ALWAYS, ALWAYS),
    "LossScaleOptimizerV1": (">=2.4,<2.9", NEVER, NEVER, NEVER),
    "LossScaleOptimizerV2": (">=2.4", NEVER, ALWAYS, NEVER),
    "LossScaleOptimizerV3": (">=2.8", NEVER, ALWAYS, NEVER),
    "BaseLossScaleOptimizer": (">=2.9", NEVER, ALWAYS, NEVER),
}

# Symbol -> versions of TensorFlow that have it, for the same four: what is TensorFlow's and not Keras's.
TENSORFLOWS = {
    "MixedPrecisionLossScaleOptimizer": (">=1.9", ">=1.9", ">=1.9", NEVER),
    "ParameterServerStrategy": (">=1.11", NEVER, ">=1.11", ">=1.11"),
    "ParameterServerStrategyV1": (">=1.14", NEVER, ">=1.14", ">=1.14"),
    "ParameterServerStrategyExtended": (">=1.13", NEVER, ">=1.13", ">=1.13"),
    "ParameterServerStrategyV2Extended": (">=2.4", NEVER, ">=2.4", ">=2.4"),
    "CentralStorageStrategy": (">=1.14", NEVER, ">=1.14", ">=1.14"),
}

SYMBOLS = sorted(EXISTS) + sorted(TENSORFLOWS)


def exists(symbol):
    """Whether the version under test has the symbol."""
    rows, version = (EXISTS, KERAS) if symbol in EXISTS else (TENSORFLOWS, TF)
    return SpecifierSet(rows[symbol][("tf.keras", "keras", "tf_keras", "keras3").index(FLAVOUR)]).contains(version)


def located(symbol, model):
    requires(exists(symbol), "no " + symbol)
    return locate(symbol, model)


@pytest.fixture
def model():
    return models.dense()[0]


@pytest.fixture(scope="module")
def any_model():
    """For what depends on the model's class only."""
    return models.dense()[0]


def home(thing):
    return thing.__name__ if python_inspect.ismodule(thing) else thing.__module__


def test_the_expectations_cover_the_table():
    assert sorted(locations.known_symbols()) == sorted(SYMBOLS)
    assert len(set(locations.known_symbols())) == len(locations.known_symbols())


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_found_where_the_version_has_it_and_in_the_models_own_package(any_model, symbol):
    if not exists(symbol):
        with pytest.raises(SymbolNotFoundError) as caught:
            locate(symbol, any_model)
        assert isinstance(caught.value, (TfGradCompatError, LookupError))
        assert str(TF) in str(caught.value) and "these have it" in str(caught.value)
        return
    found = locate(symbol, any_model)
    package = "tensorflow" if symbol in TENSORFLOWS else inspect(any_model).package
    assert home(found).split(".")[:len(package.split("."))] == package.split(".")
    assert TF < Version("2.6") or not home(found).startswith("tensorflow.python.keras")


def test_the_report_says_the_same(model):
    report = locations.availability(inspect(model))
    assert list(report) == locations.known_symbols()
    for symbol, there in report.items():
        assert there.found == exists(symbol), there.reason
        assert (there.where is not None) == exists(symbol)
        assert bool(there.reason) == (not exists(symbol))
        if there.found:
            module, _, name = there.where.rpartition(".")
            thing = getattr(sys.modules[module], name)
            assert thing is locate(symbol, model)


def test_without_a_model_it_is_what_tf_keras_has(model):
    requires(getattr(tf, "keras", None) is not None, "no tf.keras")
    assert issubclass(tf.keras.models.Model, locate("Model"))
    if FLAVOUR in ("tf.keras", "keras3"):
        assert locate("backend") is locate("backend", model)
    else:
        assert locate("backend") is not locate("backend", model)


def test_an_unknown_symbol_is_answered_with_the_known_ones(model):
    for arguments in (("nonsense",), ("nonsense", model)):
        with pytest.raises(SymbolNotFoundError) as caught:
            locate(*arguments)
        for symbol in SYMBOLS:
            assert symbol in str(caught.value)


# -- what is found is what the framework itself uses ---------------------------------------------------------------------


def test_models(model):
    assert isinstance(model, locate("Model", model))
    assert issubclass(keras.models.Model, locate("Model", model))
    sequential, _ = models.sequential()
    assert isinstance(sequential, locate("Sequential", model))
    assert isinstance(sequential, locate("Model", model))
    if exists("Functional"):
        assert isinstance(model, locate("Functional", model))
    if exists("Network"):
        assert isinstance(model, locate("Network", model)) and isinstance(sequential, locate("Network", model))


def test_training_v1_is_what_graph_mode_uses(model):
    session_model = located("training_v1", model).Model
    assert isinstance(model, session_model) == GRAPH


def test_symbolic_inputs(model):
    requires(EAGER, "inputs are TensorFlow's tensors")
    assert isinstance(model.inputs[0], located("KerasTensor", model))


def test_function_and_learning_phase(model):
    requires(GRAPH or TF >= Version("2.0"), "functions are for graphs")
    x = models.data(4, 3)
    function, learning_phase = located("function", model), located("learning_phase", model)
    assert not callable(learning_phase())
    outputs = function(list(support.inner(model).inputs), list(support.inner(model).outputs))([x])
    support.assert_close(outputs, [model.predict_on_batch(x)])
    assert keras.backend.learning_phase() is learning_phase()


def test_symbolic_learning_phase(model):
    requires(GRAPH, "not fed to a session")
    phase = located("symbolic_learning_phase", model)()
    assert phase is locate("learning_phase", model)()


def test_the_training_loop_uses_the_data_adapter(model):
    adapter = located("data_adapter", model)
    if KERAS3:
        assert sys.modules["keras.src.trainers.data_adapters.array_data_adapter"].data_adapter_utils is adapter
    else:
        loop = locate("Model", model).__module__ + ("_v2" if TF < Version("2.2") else "")
        assert sys.modules[loop].data_adapter is adapter


def test_unpack_x_y_sample_weight(model):
    unpack = located("unpack_x_y_sample_weight", model)
    assert unpack((1, 2)) == (1, 2, None)
    assert unpack((1, 2, 3)) == (1, 2, 3)
    if FLAVOUR != "tf.keras" or TF >= Version("2.3"):
        assert keras.utils.unpack_x_y_sample_weight((1,)) == unpack((1,)) == (1, None, None)


def test_single_batch_iterator(model):
    requires(LATE_EAGER, "for eager mode only")
    x, y, weights = models.data(4, 3), models.data(4, 2), np.arange(4.0)
    batches = list(located("single_batch_iterator", model)(model.distribute_strategy, x, y, weights))
    assert len(batches) == 1
    support.assert_close(list(batches[0]), [x, y, weights])


def test_expand_1d(model):
    requires(EAGER, "for eager mode only")
    assert located("expand_1d", model)(tf.constant([1.0, 2.0])).shape == (2, 1)


def test_class_weights_become_sample_weights(model):
    if exists("class_weight_to_sample_weights"):
        found = locate("class_weight_to_sample_weights", model)(np.array([0, 1, 1]), {0: 1.0, 1: 3.0})
    else:
        requires(LATE_EAGER, "for eager mode only")
        found = located("make_class_weight_map_fn", model)({0: 1.0, 1: 3.0})(np.ones((3, 1)), tf.constant([0, 1, 1]))[2]
    support.assert_close(found, np.array([1.0, 3.0, 3.0]))


def test_standardize_weights(model):
    standardize = located("standardize_weights", model)
    weights = standardize(np.array([[1.0, 0.0], [0.0, 1.0]]), class_weight={0: 1.0, 1: 3.0})
    support.assert_close(weights, np.array([1.0, 3.0]))


def test_data_sources(model):
    name = "PyDataset" if KERAS3 else "Sequence"
    assert getattr(keras.utils, name) is located(name, model)


def test_the_loss_container(model):
    model, batch = models.dense()
    model.train_on_batch(**batch)
    if KERAS3:
        assert isinstance(model._compile_loss, located("CompileLoss", model))
    else:
        requires(LATE_EAGER, "no loss container")
        assert isinstance(model.compiled_loss, located("LossesContainer", model))
        assert locate("compile_utils", model).LossesContainer is locate("LossesContainer", model)


def test_the_compiled_trainable_state(model):
    requires(LATE_EAGER, "the trainable weights are a list")
    model.trainable = False
    assert not model.trainable_weights
    with located("RespectCompiledTrainableState", model)(model):
        assert model.trainable_weights
    assert not model.trainable_weights


def test_stateless_scope(model):
    scope = located("StatelessScope", model)
    weight = model.weights[0]
    before = np.array(weight)
    with scope():
        weight.assign(weight + 1)
    support.assert_close(np.array(weight), before)


# -- optimizers ----------------------------------------------------------------------------------------------------------


def optimizer_kind():
    """The base class an optimizer has that Keras makes from a name."""
    if KERAS3:
        return "Optimizer"
    if STANDALONE or TF < Version("1.14"):
        return "OptimizerV1"
    return "Optimizer" if EAGER and TF >= Version("2.11") else "OptimizerV2"


KINDS = ("OptimizerV1", "OptimizerV2", "Optimizer")


def test_optimizers():
    requires(not support.TRAIN_OPTIMIZERS, "tf.train optimizers only")
    model, _ = models.dense(optimizer="sgd")
    kind = optimizer_kind()
    assert [each for each in KINDS if exists(each) and isinstance(model.optimizer, locate(each, model))] == [kind]
    if KERAS3:
        assert isinstance(model.optimizer, locate("BaseOptimizer", model))
        assert isinstance(model.optimizer, locate("BackendOptimizer", model))
    assert isinstance(models.dense()[0].optimizer, locate(kind, model))


def test_tf_optimizer():
    requires(not KERAS3 and (GRAPH or TF < Version("2.0")), "tf.train optimizers are refused")
    train = tf.train if TF < Version("2.0") else tf.compat.v1.train
    if STANDALONE and TF >= Version("2.0"):
        requires(False, "standalone Keras looks for tf.train.Optimizer, which is gone")
    model, _ = models.dense(optimizer=train.GradientDescentOptimizer(1.0))
    assert isinstance(model.optimizer, locate("TFOptimizer", model))


def test_loss_scale_optimizer():
    requires(not support.TRAIN_OPTIMIZERS, "tf.train optimizers only")
    plain, batch = models.dense()
    cls = located("LossScaleOptimizer", plain)
    mixed = getattr(keras, "mixed_precision", None) or keras.optimizers
    public = getattr(mixed, "experimental", mixed) if not KERAS3 and TF < Version("2.4") else mixed
    assert public.LossScaleOptimizer is cls
    if KERAS3:
        wrapped = cls(support.sgd(0.5), initial_scale=8.0)
    elif TF < Version("2.4"):
        wrapped = cls(support.sgd(0.5), loss_scale=8.0)
    else:
        wrapped = cls(support.sgd(0.5), dynamic=False, initial_scale=8.0)
    model = compile(plain, "mse", wrapped)
    assert isinstance(model.optimizer, cls)
    assert not isinstance(models.dense()[0].optimizer, cls)
    model.train_on_batch(**batch)
    for variant in ("LossScaleOptimizerV1", "LossScaleOptimizerV2", "LossScaleOptimizerV3", "BaseLossScaleOptimizer"):
        if exists(variant):
            new = EAGER and TF >= Version("2.11")
            expected = {
                "LossScaleOptimizerV1": False,
                "LossScaleOptimizerV2": not new,
                "LossScaleOptimizerV3": new,
                "BaseLossScaleOptimizer": True,
            }
            assert isinstance(model.optimizer, locate(variant, model)) == expected[variant]


def test_the_experimental_loss_scale_optimizer(model):
    cls = located("LossScaleOptimizerV1", model)
    assert keras.mixed_precision.experimental.LossScaleOptimizer is cls


def test_the_graph_rewrites_loss_scale_optimizer(model):
    cls = located("MixedPrecisionLossScaleOptimizer", model)
    train = tf.train if TF < Version("2.0") else tf.compat.v1.train
    assert issubclass(cls, train.Optimizer)
    assert not exists("LossScaleOptimizer") or cls is not locate("LossScaleOptimizer", model)


# -- distribution --------------------------------------------------------------------------------------------------------


def test_central_storage_trains_like_a_parameter_server(model):
    requires(MODE == "eager" and TF >= Version("2.0"), "an eager process")
    strategy = located("CentralStorageStrategy", model)()
    assert isinstance(strategy.extended, locate("ParameterServerStrategyExtended", model))
    assert type(strategy) is tf.distribute.experimental.CentralStorageStrategy


def test_parameter_server_strategies_are_the_public_ones(model):
    requires(TF >= Version("2.0"), "tf.contrib")
    assert tf.distribute.experimental.ParameterServerStrategy is located("ParameterServerStrategy", model)
    assert tf.compat.v1.distribute.experimental.ParameterServerStrategy is locate("ParameterServerStrategyV1", model)
