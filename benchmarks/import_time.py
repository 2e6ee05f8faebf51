"""How long ``import tfgradcompat`` takes, with and without its requirements: ``python benchmarks/import_time.py``."""
import argparse
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIMIT = 0.2  # seconds, of its own

PROBE = """
import time
start = time.perf_counter()
import numpy, packaging.specifiers, packaging.version
middle = time.perf_counter()
import tfgradcompat
print(time.perf_counter() - middle, middle - start)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=7, help="processes to start; the fastest counts (default: %(default)s)")
    options = parser.parse_args()
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([ROOT, os.environ.get("PYTHONPATH", "")]))
    times = []
    for _ in range(options.repeat):
        output = subprocess.check_output([sys.executable, "-c", PROBE], env=environment).decode()
        times.append([float(text) for text in output.split()])
    own, required = (min(column) for column in zip(*times))
    print("tfgradcompat itself %.3f s (at most %.1f s), numpy and packaging %.3f s" % (own, LIMIT, required))
    return 0 if own <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
