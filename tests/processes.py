"""Fresh Python processes in which the package under test can be imported."""
import os
import subprocess
import sys

import tfgradcompat

HOME = os.path.dirname(os.path.dirname(os.path.abspath(tfgradcompat.__file__)))


def python(*arguments, **variables):
    """Run Python with these arguments and environment variables; return (exit code, stdout, stderr)."""
    # Where it is installed it is found by itself, and a backport in the same folder, as TensorFlow 1.4's enum34, must not come
    # before the standard library.
    path = [] if os.path.basename(HOME) == "site-packages" else [HOME]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path + [os.environ.get("PYTHONPATH", "")]))
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
