"""The table: symbol -> where it lives, per flavour and version range. A move in a new release means one row here.

Paths beginning with a dot are relative to the private package that the model's class comes from (see ``Environment``), so
what they lead to always belongs to the model, never to the dead copy of Keras that TensorFlow 2.6 and later carry in
``tensorflow.python.keras``.
"""
import importlib
from collections import OrderedDict, namedtuple

from packaging.specifiers import SpecifierSet

from ..errors import SymbolNotFoundError
from . import environment as environments
from .environment import FLAVOURS, KERAS3, LEGACY, STANDALONE, TF_KERAS


class Location(namedtuple("Location", "symbol flavours tensorflow keras path")):
    """One row: where a symbol lives in some versions.

    Arguments:
        symbol: the name ``locate`` knows it by.
        flavours: tuple of the flavours it holds for.
        tensorflow: version specifier; ``""`` for any.
        keras: version specifier of the package ``keras`` or ``tf_keras``; ``""`` for any, and for tf.keras.
        path: ``"module"`` or ``"module:attribute"``; a leading dot is the model's private package.
    """

    __slots__ = ()

    def matches(self, environment):
        return (
            environment.flavour in self.flavours
            and SpecifierSet(self.tensorflow).contains(environment.tensorflow, prereleases=True)
            and SpecifierSet(self.keras).contains(environment.keras, prereleases=True)
        )

    def dotted(self, environment):
        """The full path, e.g. ``"keras.src.engine.data_adapter.expand_1d"``."""
        module, attribute = self._split(environment)
        return module + "." + attribute if attribute else module

    def load(self, environment):
        """The object; ImportError or AttributeError if it is not there."""
        module, attribute = self._split(environment)
        module = importlib.import_module(module)
        return getattr(module, attribute) if attribute else module

    def _split(self, environment):
        module, _, attribute = self.path.partition(":")
        return environment.package + module if module.startswith(".") else module, attribute

    def versions(self):
        """The versions of this row in words."""
        parts = [" or ".join(self.flavours)]
        if self.keras:
            parts.append(self.keras)
        if self.tensorflow:
            parts.append("on TensorFlow " + self.tensorflow)
        return " ".join(parts)


class Availability(namedtuple("Availability", "where found reason")):
    """Where a symbol is in one environment.

    ``where`` is the dotted path the table gives, ``None`` if this version does not have the symbol. ``found`` says whether it
    is really there, ``reason`` why not.
    """

    __slots__ = ()


def _rows():
    def row(symbol, flavours, path, tensorflow="", keras=""):
        rows.append(Location(symbol, (flavours,) if isinstance(flavours, str) else flavours, tensorflow, keras, path))

    rows = []
    keras2 = (TF_KERAS, LEGACY)  # one code, whose version is TensorFlow's in both
    before_keras3 = (TF_KERAS, STANDALONE, LEGACY)
    strategies = (TF_KERAS, LEGACY, KERAS3)

    # -- models ----------------------------------------------------------------------------------------------------------
    row("Model", before_keras3, ".engine.training:Model")
    row("Model", KERAS3, ".models.model:Model")
    row("Sequential", STANDALONE, ".models:Sequential", keras="<2.2")
    row("Sequential", STANDALONE, ".engine.sequential:Sequential", keras=">=2.2")
    row("Sequential", TF_KERAS, ".models:Sequential", "<1.7")
    row("Sequential", keras2, ".engine.sequential:Sequential", ">=1.7")
    row("Sequential", KERAS3, ".models.sequential:Sequential")
    row("Functional", keras2, ".engine.functional:Functional", ">=2.3")
    row("Functional", KERAS3, ".models.functional:Functional")
    # What functional models and Sequential have in common, before there was Functional.
    row("Network", STANDALONE, ".engine.topology:Container", keras="<2.2")
    row("Network", STANDALONE, ".engine.network:Network", keras=">=2.2")
    row("Network", TF_KERAS, ".engine.topology:Network", "<1.7")
    row("Network", TF_KERAS, ".engine.network:Network", ">=1.7,<2.3")
    row("KerasTensor", keras2, ".engine.keras_tensor:KerasTensor", ">=2.4")  # 2.3 has the class and does not use it
    row("KerasTensor", KERAS3, ".backend.common.keras_tensor:KerasTensor")

    # -- backend ---------------------------------------------------------------------------------------------------------
    row("backend", FLAVOURS, ".backend")
    row("function", before_keras3, ".backend:function")
    row("learning_phase", before_keras3, ".backend:learning_phase")
    row("symbolic_learning_phase", keras2, ".backend:symbolic_learning_phase", ">=1.13")
    row("eager_learning_phase_scope", keras2, ".backend:eager_learning_phase_scope", ">=1.14")
    row("StatelessScope", KERAS3, ".backend.common.stateless_scope:StatelessScope")

    # -- data ------------------------------------------------------------------------------------------------------------
    row("data_adapter", keras2, ".engine.data_adapter", ">=1.15")
    row("data_adapter", KERAS3, ".trainers.data_adapters.data_adapter_utils")
    row("unpack_x_y_sample_weight", keras2, ".engine.data_adapter:unpack_x_y_sample_weight", ">=2.2")
    row("unpack_x_y_sample_weight", KERAS3, ".trainers.data_adapters.data_adapter_utils:unpack_x_y_sample_weight")
    row("single_batch_iterator", keras2, ".engine.data_adapter:single_batch_iterator", ">=2.2")
    row("train_validation_split", keras2, ".engine.data_adapter:train_validation_split", ">=2.2")
    row("train_validation_split", KERAS3, ".trainers.data_adapters.data_adapter_utils:train_validation_split", keras="<3.1")
    row("train_validation_split", KERAS3, ".trainers.data_adapters.array_slicing:train_validation_split", keras=">=3.1")
    row("expand_1d", keras2, ".engine.data_adapter:expand_1d", ">=2.2,<2.7")
    row("match_dtype_and_rank", keras2, ".engine.compile_utils:match_dtype_and_rank", ">=2.2")  # does expand_1d's job from 2.7
    row("class_weight_to_sample_weights", KERAS3, ".trainers.data_adapters.data_adapter_utils:class_weight_to_sample_weights")
    row("make_class_weight_map_fn", keras2, ".engine.data_adapter:_make_class_weight_map_fn", ">=2.2")
    row("make_class_weight_map_fn", KERAS3, ".trainers.data_adapters.tf_dataset_adapter:make_class_weight_map_fn")
    row("standardize_weights", STANDALONE, ".engine.training:_standardize_weights", keras="<2.2")
    row("standardize_weights", STANDALONE, ".engine.training_utils:standardize_weights", keras=">=2.2")
    row("standardize_weights", TF_KERAS, ".engine.training:_standardize_weights", "<1.7")
    row("standardize_weights", TF_KERAS, ".engine.training_utils:standardize_weights", ">=1.7,<2.4")
    row("standardize_weights", keras2, ".engine.training_utils_v1:standardize_weights", ">=2.4")
    row("Sequence", STANDALONE, ".utils.data_utils:Sequence", keras=">=2.0.5")
    row("Sequence", keras2, ".utils.data_utils:Sequence")
    row("PyDataset", KERAS3, ".trainers.data_adapters.py_dataset_adapter:PyDataset")

    # -- training --------------------------------------------------------------------------------------------------------
    row("training_utils", STANDALONE, ".engine.training_utils", keras=">=2.2")
    row("training_utils", keras2, ".engine.training_utils", ">=1.7")
    row("training_utils_v1", keras2, ".engine.training_utils_v1", ">=2.4")
    row("RespectCompiledTrainableState", keras2, ".engine.training_utils:RespectCompiledTrainableState", ">=2.2")
    row("training_v1", keras2, ".engine.training_v1", ">=2.2")
    row("training_eager", TF_KERAS, ".engine.training_eager", ">=1.6,<2.4")
    row("training_eager", keras2, ".engine.training_eager_v1", ">=2.4")
    row("training_v2_utils", TF_KERAS, ".engine.training_v2_utils", ">=1.15,<2.2")
    row("compile_utils", keras2, ".engine.compile_utils", ">=2.2")
    row("compile_utils", KERAS3, ".trainers.compile_utils")
    row("LossesContainer", keras2, ".engine.compile_utils:LossesContainer", ">=2.2")
    row("CompileLoss", KERAS3, ".trainers.compile_utils:CompileLoss")

    # -- optimizers ------------------------------------------------------------------------------------------------------
    # The first kind: get_gradients and get_updates, no slots by name.
    row("OptimizerV1", STANDALONE, ".optimizers:Optimizer")
    row("OptimizerV1", TF_KERAS, ".optimizers:Optimizer", "<2.4")
    row("OptimizerV1", TF_KERAS, ".optimizer_v1:Optimizer", ">=2.4,<2.9")
    row("OptimizerV1", keras2, ".optimizers.optimizer_v1:Optimizer", ">=2.9")
    # The default from 1.14 to 2.10, "legacy" since.
    row("OptimizerV2", TF_KERAS, ".optimizer_v2.optimizer_v2:OptimizerV2", ">=1.13,<2.9")
    row("OptimizerV2", TF_KERAS, ".optimizers.optimizer_v2.optimizer_v2:OptimizerV2", ">=2.9,<2.12")
    row("OptimizerV2", keras2, ".optimizers.legacy.optimizer_v2:OptimizerV2", ">=2.12")
    # The default from 2.11, and Keras 3's.
    row("Optimizer", TF_KERAS, ".optimizers.optimizer_experimental.optimizer:Optimizer", ">=2.9,<2.12")
    row("Optimizer", keras2, ".optimizers.optimizer:Optimizer", ">=2.12")
    row("Optimizer", KERAS3, ".optimizers.optimizer:Optimizer")
    row("BaseOptimizer", KERAS3, ".optimizers.base_optimizer:BaseOptimizer")
    # Keras 3's class of the name TFOptimizer is another thing.
    row("BackendOptimizer", KERAS3, ".backend.tensorflow.optimizer:TFOptimizer")
    # Wraps a tf.train optimizer.
    row("TFOptimizer", STANDALONE, ".optimizers:TFOptimizer")
    row("TFOptimizer", TF_KERAS, ".optimizers:TFOptimizer", "<2.4")
    row("TFOptimizer", TF_KERAS, ".optimizer_v1:TFOptimizer", ">=2.4,<2.9")
    row("TFOptimizer", keras2, ".optimizers.optimizer_v1:TFOptimizer", ">=2.9")

    # -- mixed precision -------------------------------------------------------------------------------------------------
    # What tf.keras.mixed_precision.LossScaleOptimizer means: from 2.9 on the common base, which makes a V2 or V3.
    scaling = ".mixed_precision.loss_scale_optimizer:"
    experimental = ".mixed_precision.experimental.loss_scale_optimizer:"
    row("LossScaleOptimizer", TF_KERAS, experimental + "LossScaleOptimizer", ">=1.14,<2.4")
    row("LossScaleOptimizer", TF_KERAS, scaling + "LossScaleOptimizer", ">=2.4,<2.9")
    row("LossScaleOptimizer", keras2, scaling + "BaseLossScaleOptimizer", ">=2.9")
    row("LossScaleOptimizer", KERAS3, ".optimizers.loss_scale_optimizer:LossScaleOptimizer")
    row("LossScaleOptimizerV1", TF_KERAS, scaling + "LossScaleOptimizerV1", ">=2.4,<2.9")
    row("LossScaleOptimizerV2", keras2, scaling + "LossScaleOptimizer", ">=2.4")
    row("LossScaleOptimizerV3", keras2, scaling + "LossScaleOptimizerV3", ">=2.8")
    row("BaseLossScaleOptimizer", keras2, scaling + "BaseLossScaleOptimizer", ">=2.9")
    # Wraps tf.train optimizers, whichever Keras they are handed to.
    row(
        "MixedPrecisionLossScaleOptimizer",
        before_keras3,
        "tensorflow.contrib.mixed_precision.python.loss_scale_optimizer:LossScaleOptimizer",
        ">=1.9,<1.14",
    )
    row(
        "MixedPrecisionLossScaleOptimizer",
        before_keras3,
        "tensorflow.python.training.experimental.loss_scale_optimizer:MixedPrecisionLossScaleOptimizer",
        ">=1.14",
    )

    # -- distribution ----------------------------------------------------------------------------------------------------
    contrib = "tensorflow.contrib.distribute.python.parameter_server_strategy:"
    core = "tensorflow.python.distribute."
    row("ParameterServerStrategy", strategies, contrib + "ParameterServerStrategy", ">=1.11,<1.14")
    row("ParameterServerStrategy", strategies, core + "parameter_server_strategy:ParameterServerStrategy", ">=1.14,<2.4")
    row("ParameterServerStrategy", strategies, core + "parameter_server_strategy_v2:ParameterServerStrategyV2", ">=2.4")
    row("ParameterServerStrategyV1", strategies, core + "parameter_server_strategy:ParameterServerStrategyV1", ">=1.14")
    row("ParameterServerStrategyExtended", strategies, contrib + "ParameterServerExtended", ">=1.13,<1.14")
    # CentralStorageStrategy's too.
    row("ParameterServerStrategyExtended", strategies, core + "parameter_server_strategy:ParameterServerStrategyExtended", ">=1.14")
    row(
        "ParameterServerStrategyV2Extended",
        strategies,
        core + "parameter_server_strategy_v2:ParameterServerStrategyV2Extended",
        ">=2.4",
    )
    row("CentralStorageStrategy", strategies, core + "central_storage_strategy:CentralStorageStrategy", ">=1.14")
    return tuple(rows)


LOCATIONS = _rows()


def known_symbols():
    """The names ``locate`` knows, in the table's order."""
    return list(OrderedDict.fromkeys(location.symbol for location in LOCATIONS))


def locate(symbol, model=None):
    """The object that belongs to a model's flavour and version.

    Arguments:
        symbol: one of ``known_symbols()``, e.g. ``"data_adapter"`` or ``"LossScaleOptimizer"``.
        model: a Keras model; ``None`` asks for what ``tf.keras`` is in this process, or else the standalone Keras loaded.

    Returns the module, class or function.

    Raises ``SymbolNotFoundError`` if the name is unknown, or if this version has no such thing, saying which have it.
    """
    if symbol not in known_symbols():
        raise SymbolNotFoundError("found no symbol %r; known are %s" % (symbol, ", ".join(known_symbols())))
    environment = environments.of_process() if model is None else environments.inspect(model)
    if environment is None:
        raise SymbolNotFoundError(
            "found neither TensorFlow nor Keras loaded in this process; import the one you mean first, or pass a model"
        )
    location = location_in(symbol, environment)
    if location is None:
        raise SymbolNotFoundError(_absent(symbol, environment))
    try:
        return location.load(environment)
    except (ImportError, AttributeError) as error:
        raise SymbolNotFoundError(_missing(symbol, location, environment, error))


def location_in(symbol, environment):
    """The row of a symbol for an ``Environment``, or ``None`` if that version does not have it."""
    for location in LOCATIONS:
        if location.symbol == symbol and location.matches(environment):
            return location
    return None


def availability(environment):
    """Whether each known symbol is where the table says: dict from symbol to ``Availability``. Imports what it looks for."""
    found = OrderedDict()
    for symbol in known_symbols():
        location = location_in(symbol, environment)
        if location is None:
            found[symbol] = Availability(None, False, _absent(symbol, environment))
            continue
        try:
            location.load(environment)
        except (ImportError, AttributeError) as error:
            found[symbol] = Availability(location.dotted(environment), False, _missing(symbol, location, environment, error))
        else:
            found[symbol] = Availability(location.dotted(environment), True, "")
    return found


def _absent(symbol, environment):
    return "found %s, which has no %s; these have it: %s" % (
        environment,
        symbol,
        "; ".join(location.versions() for location in LOCATIONS if location.symbol == symbol),
    )


def _missing(symbol, location, environment, error):
    return "expected %s of %s in %s, but: %s. The installation may be mixed or incomplete, or newer than this tfgradcompat" % (
        symbol,
        environment,
        location.dotted(environment),
        error,
    )
