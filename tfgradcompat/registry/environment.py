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
    root = package.split(".")[0]
    if is_keras3:
        _require_tensorflow_backend(mro)
    tensorflow = _version(sys.modules["tensorflow"])
    if is_keras3:
        return Environment(KERAS3, EAGER, tensorflow, _version(sys.modules[root]), package)
    if root == "tf_keras":
        flavour, keras = LEGACY, _version(sys.modules[root])
    elif root == "keras" and _version(sys.modules[root]) < Version("2.4"):
        flavour, keras = STANDALONE, _version(sys.modules[root])
    else:
        flavour, keras = TF_KERAS, tensorflow
    return Environment(flavour, _mode(model, mro, flavour, tensorflow), tensorflow, keras, package)


def installed(flavour, mode):
    """The ``Environment`` a model of this flavour and mode would have, from the modules loaded in this process.

    Serves questions asked without a model. Returns ``None`` if the flavour is not loaded.
    """
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None:
        return None
    tensorflow_version = _version(tensorflow)
    if flavour == TF_KERAS:
        classes = getattr(getattr(tensorflow, "keras", None), "models", None)
    else:
        classes = getattr(sys.modules.get("keras" if flavour == KERAS3 else flavour), "models", None)
    model_class = getattr(classes, "Model", None)
    if model_class is None:
        return None
    package, is_keras3 = _package(model_class.__mro__)
    if package is None or is_keras3 != (flavour == KERAS3):
        return None
    root = package.split(".")[0]
    if flavour == STANDALONE and _version(sys.modules[root]) >= Version("2.4"):
        return None
    keras = tensorflow_version if flavour == TF_KERAS else _version(sys.modules[root])
    return Environment(flavour, mode, tensorflow_version, keras, package)


def _version(module):
    # Development builds say "2.22.0-dev20260101"; the release they lead to is what decides.
    return Version(Version(module.__version__).base_version)


def _package(mro):
    """(private package, is Keras 3) of a model class, or (None, False)."""
    for cls in mro:
        module = cls.__module__
        head, engine, tail = module.partition(".engine.")
        # A layer's class also lives below "engine"; only a model's has one of these modules in its MRO.
        if engine and tail.startswith("training") and cls.__name__ == "Model":
            return head, False
        if module == "keras.src.models.model" and cls.__name__ == "Model":
            return "keras.src", True
    return None, False


def _require_tensorflow_backend(mro):
    for cls in mro:
        if cls.__module__.startswith("keras.src.backend.") and cls.__module__.endswith(".trainer"):
            backend = cls.__module__.split(".")[3]
            if backend != "tensorflow":
                raise UnsupportedModelError(
                    "this Keras 3 model runs on the %r backend; TensorFlow gradients need the 'tensorflow' backend: set "
                    "KERAS_BACKEND=tensorflow before keras is imported" % backend
                )
            return
    raise UnsupportedModelError("this Keras 3 model has no trainer; the 'tensorflow' backend was expected")


def _mode(model, mro, flavour, tensorflow):
    if flavour == STANDALONE:
        return GRAPH  # in its own graph, whatever TensorFlow's mode
    if flavour == LEGACY or tensorflow >= Version("2.2"):
        # Keras swaps the session-based class in when the object is built, so the MRO records the mode of that moment.
        return GRAPH if any(cls.__module__.endswith(".training_v1") for cls in mro) else EAGER
    for tensor in _symbolic_tensors(model):
        graph = getattr(tensor, "graph", None)  # TensorFlow 1.7-1.12 eager has deferred tensors, which have none
        if graph is None or any(cls.__name__ == "FuncGraph" for cls in type(graph).__mro__):
            return EAGER
        return GRAPH
    return EAGER if _executing_eagerly() else GRAPH


def _symbolic_tensors(model):
    for name in ("inputs", "outputs"):
        tensors = getattr(model, name, None)
        if isinstance(tensors, (list, tuple)) and tensors:
            return list(tensors)
        if tensors is not None and not isinstance(tensors, (list, tuple, dict)):
            return [tensors]
    return []


def _executing_eagerly():
    probe = getattr(sys.modules["tensorflow"], "executing_eagerly", None)  # none before TensorFlow 1.7: always graphs
    return bool(probe and probe())
