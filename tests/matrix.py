"""Runs the tests on every TensorFlow of the tox matrix: ``python -m tests.matrix [-h]``; needs tox and tox-uv.

Environments are made one after the other in three lanes and removed when their tests are done; so are the downloaded wheels,
which would fill some 40 GB otherwise.
"""
import argparse
import glob
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time

from tests.run import OUTCOMES, ROOT, failing_part, total

LANES = 3  # two cores are busier with three than with two, by a fifth
WORK = os.path.join(ROOT, ".tox")
# Those with more than three combinations of flavour and mode, most first: long ones start first, so that the lanes end together.
SLOW = "tf2.15 tf2.16 tf2.17 tf2.18 tf2.19 tf2.20 tf2.21 tf2.0 tf2.1 tf2.2 tf1.14 tf1.15".split()
# One or more of each Python and of each era, and those that have what extras need. The others run the tests that are not marked
# as repeating one of these.
COMPLETE = "tf1.0 tf1.5 tf1.8 tf1.12 tf1.15 tf2.1 tf2.3 tf2.7 tf2.11 tf2.15 tf2.18 tf2.21 tf2.22rc".split()
# Too large, or too specific to one TensorFlow, to keep for the next.
LARGE = "tensorflow tensorflow-cpu keras keras-nightly tf-keras tensorboard tensorflow-estimator libclang".split()


def main(arguments=None):
    options = _parser().parse_args(arguments)
    sys.stdout.reconfigure(line_buffering=True)  # lines appear as environments end, also in a file
    started = time.time()
    os.environ["PATH"] = os.pathsep.join(interpreters() + [os.environ["PATH"]])
    names = environments()
    unknown = sorted(set(options.environments) - set(names))
    if unknown:
        print("not in the matrix: %s; it has %s" % (" ".join(unknown), " ".join(names)))
        return 2
    wanted = [name for name in names if not options.environments or name in options.environments]
    wanted.sort(key=lambda name: SLOW.index(name) if name in SLOW else len(SLOW))
    results = os.path.join(ROOT, "results")
    if not os.path.isdir(results):
        os.makedirs(results)
    wheel = build()
    waiting = queue.Queue()
    for name in wanted:
        waiting.put(name)
    done = []
    lanes = [
        threading.Thread(target=_lane, args=(str(number), waiting, done, wheel, results, options.keep), daemon=True)
        for number in range(options.lanes)
    ]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    return conclude(done, options.require_all, time.time() - started)


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m tests.matrix",
        description="Run the tests on every TensorFlow of the tox matrix whose Python is found, and write results/*.json.",
    )
    parser.add_argument("environments", nargs="*", metavar="ENVIRONMENT", help="only these, e.g. tf1.12 tf2.21")
    parser.add_argument("--lanes", type=int, default=LANES, help="environments at a time (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep environments and wheels")
    parser.add_argument("--require-all", action="store_true", help="an environment whose Python is missing is a failure")
    return parser


def interpreters():
    """Folders of pyenv's interpreters, to go on PATH: uv asks each python there, and stops at a shim that has no version."""
    if shutil.which("pyenv") is None:
        return []
    root = subprocess.run(["pyenv", "root"], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout.strip()
    return sorted(glob.glob(os.path.join(root, "versions", "*", "bin")))


def environments():
    """Names in the tox label ``matrix``."""
    command = _tox("list", "-m", "matrix", "--no-desc", "-q")
    listed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, universal_newlines=True, check=True)
    return re.findall(r"^tf\S+$", listed.stdout, re.M)


def build():
    """Build the wheel that every environment installs, and return its path."""
    folder = os.path.join(WORK, "wheel")
    shutil.rmtree(folder, ignore_errors=True)
    from uv import find_uv_bin  # comes with tox-uv

    built = subprocess.run([find_uv_bin(), "build", "-q", "--wheel", "-o", folder, ROOT], cwd=ROOT)
    if built.returncode:
        sys.exit("the wheel could not be built")
    return glob.glob(os.path.join(folder, "*.whl"))[0]


def _tox(*arguments):
    return [sys.executable, "-m", "tox"] + list(arguments)


def _lane(lane, waiting, done, wheel, results, keep):
    while True:
        try:
            name = waiting.get_nowait()
        except queue.Empty:
            return
        record = run(lane, name, wheel, results, keep)
        done.append(record)
        report(record)


def run(lane, name, wheel, results, keep):
    """Make one environment, run its tests, remove it; return the record its tests left, with what happened around it."""
    path = os.path.join(results, name + ".json")
    if os.path.exists(path):
        os.remove(path)
    # Each lane has a cache of its own, so that one can drop wheels while the other installs.
    cache = os.path.join(WORK, "cache-" + lane)
    environment = dict(os.environ, UV_CACHE_DIR=cache, TFGRADCOMPAT_RESULTS=results)
    started = time.time()
    process = subprocess.run(
        _tox("run", "-e", name, "--installpkg", wheel, "--colored", "no", *([] if name in COMPLETE else ["--", "--brief"])),
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    log = process.stdout.decode("utf-8", "replace")
    record = {"name": name, "combinations": [], "seconds": 0, "passed": 0, "failed": 0, "skipped": 0}
    if os.path.exists(path):
        with open(path) as stream:
            record = json.load(stream)
    record["missing"] = not os.path.exists(path) and "could not find python interpreter" in log
    record["ok"] = process.returncode == 0 and bool(record["combinations"])
    record["all_seconds"] = time.time() - started
    record["log"] = log
    if not keep:
        shutil.rmtree(os.path.join(WORK, name), ignore_errors=True)
        from uv import find_uv_bin

        subprocess.run([find_uv_bin(), "cache", "clean", "-q"] + LARGE, env=environment)
    return record


def report(record):
    """Print one environment's line, and what failed."""
    if record["missing"]:
        print("%-8s missing: its Python was not found" % record["name"])
        return
    line = "%-8s Python %-7s %5d passed, %d failed, %d skipped in %d combinations  %4d s (%d s of tests)" % (
        record["name"],
        record.get("python", "?"),
        record["passed"],
        record["failed"],
        record["skipped"],
        sum(run["mode"] != "once" for run in record["combinations"]),
        record["all_seconds"],
        record["seconds"],
    )
    if record["ok"]:
        print(line)
        return
    print(line + "  FAILED")
    print("\n".join("    " + text for text in _failing_part(record)))


def _failing_part(record):
    # Below tox's account of the installation tests.run prints little but failures; without a record the former failed.
    lines = record["log"].splitlines()
    starts = [number for number, line in enumerate(lines) if "commands[0]>" in line]
    return lines[starts[0] + 1:] if record["combinations"] and starts else failing_part("\n".join(lines))


def conclude(records, require_all, seconds):
    """Print the summary and the closing line; return the exit code."""
    missing = sorted(record["name"] for record in records if record["missing"])
    failed = sorted(record["name"] for record in records if not record["ok"] and not record["missing"])
    counts = total(records)
    combinations = sum(run["mode"] != "once" for record in records for run in record["combinations"])
    print("%d environments, %d combinations of flavour and mode, %d min %d s" % (
        len(records) - len(missing), combinations, seconds // 60, seconds % 60))
    if missing:
        print("missing, because their Python was not found: " + " ".join(missing))
    if failed:
        print("failed: " + " ".join(failed))
    for record in sorted(records, key=lambda record: record["name"]):
        for run in record["combinations"]:
            for test in run["failures"] + [run["trouble"]] * bool(run["trouble"]):
                print("    %s %s %s: %s" % (record["name"], run["flavour"], run["mode"], test))
    print("%s passed, %s failed, %s skipped" % tuple(counts[outcome] for outcome in OUTCOMES))
    return 1 if failed or not counts["passed"] or (missing and require_all) else 0


if __name__ == "__main__":
    sys.exit(main())
