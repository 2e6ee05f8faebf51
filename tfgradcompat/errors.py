"""Every error the package raises itself; what Keras and TensorFlow raise passes through unmasked.

Messages follow one order: what was found, what was expected, what to do.
"""


class TfGradCompatError(Exception):
    """Base of all errors of this package."""


class NotCompiledError(TfGradCompatError, RuntimeError):
    """A training loss was asked of a model that has none: ``compile`` was not called."""


class UnsupportedModelError(TfGradCompatError, TypeError):
    """Not a Keras model, or one that TensorFlow gradients cannot be had of (another backend, a mode Keras refuses)."""


class UnsupportedVersionError(TfGradCompatError, ImportError):
    """No adapter serves this TensorFlow or Keras version."""


class InvalidParamsError(TfGradCompatError, ValueError):
    """A parameter to differentiate by that is not part of the model."""


class SymbolNotFoundError(TfGradCompatError, LookupError):
    """``locate`` was asked for a name it does not know, or one this version does not have."""


class AdapterWarning(UserWarning):
    """The call works, but something about this version or model deserves to be known; said once per cause."""
