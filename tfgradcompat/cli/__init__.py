"""The command line: ``python -m tfgradcompat demo`` and ``doctor``. The only place that imports a framework by itself."""


class CommandError(Exception):
    """Something the user can mend; its message is all that is shown."""
