"""The gradients of a Keras model's training loss, one call on every TensorFlow. Importing this imports no TensorFlow."""
from .api import feed_dict, get_gradients, get_outputs, gradient_function, gradients_of, select, value_and_gradients
from .errors import (
    AdapterWarning,
    InvalidParamsError,
    NotCompiledError,
    SymbolNotFoundError,
    TfGradCompatError,
    UnsupportedModelError,
    UnsupportedVersionError,
)
from .per_sample import GradientNorms, gradient_norms, per_sample_gradients
from .registry import AdapterSpec, register
from .registry.description import describe
from .registry.locations import locate

__version__ = "0.1.0"

__all__ = [
    "AdapterSpec",
    "AdapterWarning",
    "GradientNorms",
    "InvalidParamsError",
    "NotCompiledError",
    "SymbolNotFoundError",
    "TfGradCompatError",
    "UnsupportedModelError",
    "UnsupportedVersionError",
    "describe",
    "feed_dict",
    "get_gradients",
    "get_outputs",
    "gradient_function",
    "gradient_norms",
    "gradients_of",
    "locate",
    "per_sample_gradients",
    "register",
    "select",
    "value_and_gradients",
]
