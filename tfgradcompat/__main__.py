"""``python -m tfgradcompat``: see ``--help``."""
import argparse
import sys

from . import __version__
from .cli import CommandError
from .errors import TfGradCompatError


def main(arguments=None):
    """Run one command; returns the exit code: 0 all is well, 1 a check failed, 2 the command could not run."""
    options = _parser().parse_args(arguments)
    if options.command == "demo":
        from .cli.demo import run
    elif options.command == "doctor":
        from .cli.doctor import run
    elif options.command == "migrate":
        from .migrate import run
    else:
        _parser().print_help()
        return 2
    try:
        return run(options)
    except (CommandError, TfGradCompatError) as error:
        sys.stdout.flush()
        print("tfgradcompat: %s" % error, file=sys.stderr)
        return 2


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m tfgradcompat", description="The gradients of a Keras model's training loss, on every TensorFlow."
    )
    parser.add_argument("--version", action="version", version="tfgradcompat " + __version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        help="gradients of a small model beside the reference: what one step of training subtracts from the weights",
        description="Build a small model in the Keras that is installed, and print its gradients beside the reference: the "
        "weights of a twin before minus after one train_on_batch with SGD(1.0). Exits with 1 if they differ.",
    )
    demo.add_argument("--flavour", metavar="NAME", help="tf.keras, keras, tf_keras or keras3 (default: the first found)")
    demo.add_argument("--mode", choices=("graph", "eager"), help="default: the mode TensorFlow is in by itself")
    doctor = commands.add_parser(
        "doctor",
        help="what is installed, which adapter would serve it, and whether it gives the right gradients",
        description="Report what is installed, which adapter serves each Keras flavour and mode, where the symbols of the "
        "table of locations are, and whether one batch gives the gradients that training uses. Exits with 1 if something is "
        "wrong.",
    )
    doctor.add_argument("--json", action="store_true", help="print one JSON object")
    doctor.add_argument(
        "--every-mode",
        action="store_true",
        help="check the modes this process is not in as well, each in a process of its own",
    )
    _add_migrate(commands)
    return parser


def _add_migrate(commands):
    migrate = commands.add_parser(
        "migrate",
        help="rewrite code of the old idiom (optimizer.get_gradients, K.function) to this package's functions",
        description="Find code that computes gradients with optimizer.get_gradients(model.total_loss, ...) or K.gradients and "
        "K.function, see-rnn or keract, and show what it becomes, as a unified diff. What cannot be rewritten with certainty is "
        "left as it is and listed, with the reason and the call to use. Needs pip install tfgradcompat[migrate].",
    )
    migrate.add_argument(
        "paths", nargs="+", metavar="PATH", help="a Python file, a notebook, or a directory, with all that is below it"
    )
    migrate.add_argument("--write", action="store_true", help="write the files, not only show what would change")
    migrate.add_argument("--check", action="store_true", help="exit with 1 if anything is left to do, for CI")


if __name__ == "__main__":
    sys.exit(main())
