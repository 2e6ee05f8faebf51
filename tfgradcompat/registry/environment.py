"""What is this model? Its flavour, versions and mode, read off the object itself.

Nothing is imported: a model brought its framework with it, so ``sys.modules`` has all there is to ask. The flavour comes
from the class's MRO, never from what is importable, since several flavours may live in one process and TensorFlow 2.6+
ships a dead copy of Keras beside the live one.
"""
import sys
from collections import namedtuple

from packaging.version import Version

from ..errors import UnsupportedModelError

GRAPH = "graph"  # a session runs the model
EAGER = "eager"

TF_KERAS = "tf.keras"  # Keras 2 as TensorFlow's own, also where it is the package keras 2.6-2.15
STANDALONE = "keras"  # the package keras 2.0-2.3 on top of TensorFlow
LEGACY = "tf_keras"  # the package tf_keras: Keras 2 for TensorFlow 2.15 and later
KERAS3 = "keras3"

FLAVOURS = (TF_KERAS, STANDALONE, LEGACY, KERAS3)


class Environment(namedtuple("Environment", "flavour mode tensorflow keras package")):
    """Where a model comes from.

    ``flavour`` is one of ``FLAVOURS``, ``mode`` is ``"graph"`` or ``"eager"``, ``tensorflow`` and ``keras`` are
    ``packaging`` versions (for tf.keras the two are the same: the release of TensorFlow decides), and ``package`` is the
    private package the model's class lives in, e.g. ``"keras.src"`` or ``"tensorflow.python.keras"``; its submodules are
    the ones that belong to the model.
    """

    __slots__ = ()

    def module(self, name):
        """The module ``<package>.<name>``, imported if the framework has not done so yet; ImportError if it has none."""
        import importlib  # the only import of a framework's module in the package: of one already in this process

        return importlib.import_module(self.package + "." + name if name else self.package)

    def __str__(self):
        return "%s %s (%s mode) on TensorFlow %s" % (self.flavour, self.keras, self.mode, self.tensorflow)


def inspect(model):
    """Return the ``Environment`` of a Keras model.

    Raises ``UnsupportedModelError`` if ``model`` is not one, or runs on a backend other than TensorFlow.
    """
    mro = type(model).__mro__
    package, is_keras3 = _package(mro)
    if package is None:
        raise UnsupportedModelError(
            "expected a Keras model (tf.keras, keras or tf_keras), got %s.%s; pass the model itself, not a layer, a path or "
            "a wrapper around it" % (type(model).__module__, type(model).__name__)
        )
    backend = _backend(mro, package, is_keras3)
    if backend != "tensorflow":
        raise UnsupportedModelError(
            "this Keras model runs on the %r backend; TensorFlow gradients need the 'tensorflow' backend: set "
            "KERAS_BACKEND=tensorflow before keras is imported" % backend
        )
    flavour, tensorflow, keras = _flavour(package, is_keras3)
    if _is_dead_copy(package, tensorflow):
        raise UnsupportedModelError(
            "this model's class comes from tensorflow.python.keras, a copy of Keras that TensorFlow %s carries but does not use; "
            "build the model from tf.keras: import tensorflow.keras, not tensorflow.python.keras" % tensorflow
        )
    return Environment(flavour, _mode(model, mro, flavour, tensorflow), tensorflow, keras, package)


def installed(flavour, mode, load=True):
    """The ``Environment`` a model of this flavour and mode would have, from the modules loaded in this process.

    Serves questions asked without a model. Returns ``None`` if the flavour is not loaded. TensorFlow may put off the import
    of Keras until ``tf.keras`` is first used; ``load=False`` does not count as a use.
    """
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None:
        return None
    if flavour == TF_KERAS:
        # With load=False the module itself, which TensorFlow 2.8-2.15 import along, tells what tf.keras will be.
        home = _tf_keras(tensorflow, load) or sys.modules.get("keras")
    else:
        home = sys.modules.get("keras" if flavour == KERAS3 else flavour)
    return _environment_of(home, flavour, mode)


def of_process():
    """The ``Environment`` of what ``tf.keras`` is in this process, or else of the standalone Keras loaded, or ``None``."""
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None:
        return None
    mode = EAGER if _executing_eagerly() else GRAPH
    return _environment_of(_tf_keras(tensorflow), None, mode) or installed(STANDALONE, GRAPH)


def live_flavours():
    """The flavours that are loaded in this process; loads none."""
    return [flavour for flavour in FLAVOURS if installed(flavour, EAGER, load=False) is not None]


def process_mode(flavour):
    """The mode a model of this flavour would have if it were built now."""
    if flavour == STANDALONE:
        return GRAPH  # in its own graph, whatever TensorFlow's mode
    return EAGER if flavour == KERAS3 or _executing_eagerly() else GRAPH


def _tf_keras(tensorflow, load=True):
    if not load and type(vars(tensorflow).get("keras")).__name__.endswith("LazyLoader"):
        return None
    return getattr(tensorflow, "keras", None)  # none before TensorFlow 1.4


def _environment_of(keras, flavour, mode):
    """The ``Environment`` of a Keras module's models; ``None`` if it has none, or they are of another flavour."""
    model_class = getattr(getattr(keras, "models", None), "Model", None)
    if model_class is None:
        return None
    package, is_keras3 = _package(model_class.__mro__)
    if package is None or _backend(model_class.__mro__, package, is_keras3) != "tensorflow":
        return None
    found, tensorflow, version = _flavour(package, is_keras3)
    if flavour not in (None, found):
        return None
    return Environment(found, mode, tensorflow, version, package)


def _version(module):
    # Development builds say "2.22.0-dev20260101"; the release they lead to is what decides.
    return Version(Version(module.__version__).base_version)


_ROOTS = ("tensorflow", "keras", "tf_keras")


def _package(mro):
    """(private package, is Keras 3) of a model class, or (None, False)."""
    for cls in mro:
        module = cls.__module__
        head, engine, tail = module.partition(".engine.")
        # A layer's class also lives below "engine"; only a model's has one of these modules in its MRO. A user's own
        # package may have a module of that name, too.
        if engine and tail.startswith("training") and cls.__name__ == "Model" and head.split(".")[0] in _ROOTS:
            return head, False
        if module == "keras.src.models.model" and cls.__name__ == "Model":
            return "keras.src", True
    return None, False


def _flavour(package, is_keras3):
    """(flavour, TensorFlow's version, Keras's version) of a private package."""
    tensorflow = _version(sys.modules["tensorflow"])
    root = package.split(".")[0]
    if root == "tensorflow":
        return TF_KERAS, tensorflow, tensorflow
    keras = _version(sys.modules[root])
    if is_keras3:
        return KERAS3, tensorflow, keras
    if root == "tf_keras":
        return LEGACY, tensorflow, keras
    if keras < Version("2.4"):
        return STANDALONE, tensorflow, keras
    return TF_KERAS, tensorflow, tensorflow


def _backend(mro, package, is_keras3):
    """The name of the backend that models of this class run on."""
    if is_keras3:
        for cls in mro:
            if cls.__module__.startswith("keras.src.backend.") and cls.__module__.endswith(".trainer"):
                return cls.__module__.split(".")[3]
        return "unknown"
    if package == "keras":
        # Standalone Keras; the name of TensorFlow's is all that later ones know.
        name = getattr(sys.modules.get("keras.backend"), "backend", None)
        return name() if name is not None else "unknown"
    return "tensorflow"


def _is_dead_copy(package, tensorflow):
    return package == "tensorflow.python.keras" and tensorflow >= Version("2.6")


def _mode(model, mro, flavour, tensorflow):
    if flavour == STANDALONE:
        return GRAPH  # in its own graph, whatever TensorFlow's mode
    if flavour == KERAS3:
        return EAGER
    if flavour == LEGACY or tensorflow >= Version("2.2"):
        return _mode_by_class(model, mro)
    if tensorflow >= Version("1.8"):
        # Set when the model is built, and None in eager mode. The graph of a function traced in eager mode does not count.
        graph = getattr(model, "_graph", None)
        return EAGER if graph is None or any(cls.__name__ == "FuncGraph" for cls in type(graph).__mro__) else GRAPH
    return EAGER if _executing_eagerly() else GRAPH  # 1.7 has no graph-mode models in an eager process


def _mode_by_class(model, mro):
    """The mode in Keras from TensorFlow 2.2 on, which has a second ``Model`` class for training by session.

    It is swapped in when a model is built, but for the model's class: models of that class built before in the other mode
    break (all but 2.2's functional ones).
    """
    swapped_in = any(cls.__module__.endswith(".training_v1") for cls in mro)
    built_for_session = "_v1_compile_was_called" in vars(model)
    if swapped_in != built_for_session:
        was, now = (GRAPH, EAGER) if built_for_session else (EAGER, GRAPH)
        raise UnsupportedModelError(
            "this %s was built in %s mode, but Keras has since switched its class to %s mode, for a model built in that mode "
            "later, and can train it no more; keep models of the two modes in two processes, or build it anew"
            % (type(model).__name__, was, now)
        )
    return GRAPH if swapped_in else EAGER


def _executing_eagerly():
    probe = getattr(sys.modules["tensorflow"], "executing_eagerly", None)  # none before TensorFlow 1.7: always graphs
    return bool(probe and probe())
