"""``python -m tfgradcompat migrate``: code of the old idiom becomes code of the facade. Needs ``libcst``, an extra."""
import os

from ..cli import CommandError


def run(options):
    """The command; returns the exit code."""
    try:
        import libcst  # noqa: F401
    except ImportError:
        raise CommandError("migrate reads and writes code with libcst, which is not installed: pip install tfgradcompat[migrate]")
    from . import command

    missing = [path for path in options.paths if not os.path.exists(path)]
    if missing:
        raise CommandError("there is no %s" % ", ".join(missing))
    return command.run(options.paths, options.write, options.check)
