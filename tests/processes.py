"""Fresh Python processes in which the package under test can be imported."""
import os
import subprocess
import sys

import tfgradcompat

HOME = os.path.dirname(os.path.dirname(os.path.abspath(tfgradcompat.__file__)))


def python(*arguments, **variables):
    """Run Python with these arguments and environment variables; return (exit code, stdout, stderr)."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([HOME, os.environ.get("PYTHONPATH", "")]))
    environment.update(variables)
    process = subprocess.Popen(
        [sys.executable] + list(arguments),
        env=environment,
        cwd=os.path.dirname(os.path.abspath(__file__)),  # not the checkout, whose package would hide an installed one
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )
    output, errors = process.communicate()
    return process.returncode, output, errors
