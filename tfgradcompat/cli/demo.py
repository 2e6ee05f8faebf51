"""``python -m tfgradcompat demo``: the main job on the embedded example, beside the reference."""
import numpy as np

from ..registry.environment import STANDALONE
from . import CommandError, example
from .frameworks import PACKAGES, import_flavours, import_tensorflow

ENTRIES = 3  # of each gradient that are shown


def run(options):
    tensorflow = import_tensorflow(options.mode)
    found, broken = import_flavours()
    flavour = options.flavour or next((name for name, _ in PACKAGES if name in found), None)
    if flavour not in found:
        raise CommandError(
            "%s is not installed beside TensorFlow %s; found %s%s"
            % (
                flavour or "Keras",
                tensorflow.__version__,
                ", ".join(sorted(found)) or "no Keras (pip install keras)",
                "".join("; " + text for text in broken.values()),
            )
        )
    if flavour == STANDALONE and options.mode is not None:
        raise CommandError("standalone keras works in the mode TensorFlow has by itself; leave out --mode")
    comparison = example.compare(tensorflow, flavour, found[flavour])
    show(comparison)
    return 0 if example.agrees(comparison) else 1


def show(comparison):
    """Print a comparison, gradients beside their references."""
    print("%s, served by %s" % (comparison.adapter.environment, type(comparison.adapter).__name__))
    print("Dense(3, tanh, L2), Dense(1); mean squared error of 8 weighted samples; loss %.6f" % comparison.loss)
    print()
    print("%-15s%-9s%-30s%-30s%11s%11s%10s" % ("weight", "shape", "gradient", "reference", "norm", "norm", "error"))
    for name, reference in comparison.references.items():
        gradient = comparison.gradients[name]
        print(
            "%-15s%-9s%-30s%-30s%11.6f%11.6f%10.1e"
            % (
                name,
                "x".join(str(size) for size in reference.shape),
                _entries(gradient),
                _entries(reference),
                np.linalg.norm(gradient),
                np.linalg.norm(reference),
                np.max(np.abs(gradient - reference)),
            )
        )
    print()
    print(
        "The gradients %s what one train_on_batch with SGD(1.0) subtracts from the weights: largest error %.1e of the "
        "largest entry, allowed %.0e."
        % ("are" if example.agrees(comparison) else "ARE NOT", example.error(comparison), example.RELATIVE)
    )


def _entries(array):
    flat = np.ravel(array)
    return " ".join("%8.5f" % entry for entry in flat[:ENTRIES]) + (" .." if len(flat) > ENTRIES else "")
