"""Runs the tests for every Keras flavour and mode of the TensorFlow installed here: ``python -m tests.run [-h]``.

Each combination gets a process of its own, since some modes change the process for good. What to run follows from the
distributions that are installed, not from what can be imported: a framework that is there but broken fails.
"""
import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TESTS = os.path.join(ROOT, "tests")
FRAMEWORKS = ("tensorflow", "keras", "tf-keras", "numpy")
ALIASES = {"tensorflow": ("tensorflow-cpu",), "keras": ("keras-nightly",)}  # other distributions of the same package
OUTCOMES = ("passed", "failed", "skipped")
SECONDS = 1800  # of one process; none needs a tenth of it, but a hang must end
LINES = 250  # of a failing log
THREADS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")  # models this small gain nothing by more

# (flavour, mode, distribution, its first and first-not version, TensorFlow's first and first-not version)
COMBINATIONS = (
    ("tf.keras", "graph", "tensorflow", (1, 4), (2, 16), (1, 4), (2, 16)),
    ("tf.keras", "eager", "tensorflow", (1, 7), (2, 16), (1, 7), (2, 16)),
    ("tf.keras", "run_eagerly", "tensorflow", (1, 14), (2, 16), (1, 14), (2, 16)),
    ("keras", "graph", "keras", (2, 0), (2, 4), (1, 0), (2, 3)),
    ("tf_keras", "graph", "tf-keras", (2, 15), (3, 0), (2, 15), (3, 0)),
    ("tf_keras", "eager", "tf-keras", (2, 15), (3, 0), (2, 15), (3, 0)),
    ("tf_keras", "run_eagerly", "tf-keras", (2, 15), (3, 0), (2, 15), (3, 0)),
    ("keras3", "eager", "keras", (3, 0), (4, 0), (2, 16), (3, 0)),
    ("keras3", "run_eagerly", "keras", (3, 0), (4, 0), (2, 16), (3, 0)),
)

# The checkout comes last on the path: an installed tfgradcompat is what gets tested, if there is one.
PYTEST = """
import sys
sys.path[:] = [entry for entry in sys.path if entry] + [sys.argv.pop(1)]
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def main(arguments=None):
    options, pytest_arguments = _parser().parse_known_args(arguments)
    versions = installed()
    if versions["tensorflow"] is None:
        print("no TensorFlow is installed for %s; its tests cannot run: pip install tensorflow" % sys.executable)
        return 2
    wanted = [row[:2] for row in COMBINATIONS if exists(row, versions)]
    if options.only:
        wanted = [pair for pair in wanted if "/".join(pair) in options.only]
    print(
        "TensorFlow %s, Python %s%s"
        % (
            versions["tensorflow"],
            platform.python_version(),
            "".join(", %s %s" % (name, versions[name]) for name in ("keras", "tf-keras", "numpy") if versions[name]),
        )
    )
    if options.brief:
        pytest_arguments += ["-m", "not per_era"]
    started = time.time()
    once = _marked("once") + _marked("once_per_python")
    runs = []
    for flavour, mode in wanted:
        runs.append(_run(flavour, mode, [TESTS] + ["--ignore=" + path for path in once], pytest_arguments, options.junit))
    if not options.only:
        targets = _marked("once") if options.brief else once
        runs.append(_run("any", "once", targets, pytest_arguments, options.junit))
    record = {
        "name": name(versions["tensorflow"]),
        "python": platform.python_version(),
        "versions": versions,
        "combinations": runs,
        "seconds": round(time.time() - started, 1),
    }
    record.update(total(runs))
    path = os.path.join(options.results, record["name"] + ".json")
    if not os.path.isdir(options.results):
        os.makedirs(options.results)
    with open(path, "w") as stream:
        json.dump(record, stream, indent=1, sort_keys=True)
        stream.write("\n")
    return 0 if runs and all(run["ok"] for run in runs) else 1


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m tests.run",
        description="Run the tests for every Keras flavour and mode of the installed TensorFlow, each in its own process. "
        "Arguments not listed here go to pytest. Exits with 1 if a test failed or a combination ran none.",
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="FLAVOUR/MODE",
        help="run this combination only, e.g. tf.keras/graph; may be repeated",
    )
    parser.add_argument(
        "--results",
        metavar="DIR",
        default=os.environ.get("TFGRADCOMPAT_RESULTS") or os.path.join(ROOT, "results"),
        help="where the counts go, one JSON file per TensorFlow (default: $TFGRADCOMPAT_RESULTS, or results/)",
    )
    parser.add_argument(
        "--brief",
        action="store_true",
        help="leave out what another TensorFlow on this Python (once_per_python) or of this era (per_era) tests as well",
    )
    parser.add_argument("--junit", metavar="DIR", help="keep pytest's JUnit files here")
    return parser


def installed():
    """Distribution -> version, ``None`` where neither it nor an alias is installed."""
    try:
        from importlib.metadata import PackageNotFoundError, version
    except ImportError:  # Python 3.6, 3.7, where pytest brings the backport
        from importlib_metadata import PackageNotFoundError, version
    found = dict.fromkeys(FRAMEWORKS)
    for framework in FRAMEWORKS:
        for distribution in (framework,) + ALIASES.get(framework, ()):
            try:
                found[framework] = version(distribution)
                break
            except PackageNotFoundError:
                continue
    return found


def exists(row, versions):
    """Whether what is installed has the combination of this row."""
    _, _, distribution, first, end, tensorflow_first, tensorflow_end = row
    return (
        versions[distribution] is not None
        and first <= release(versions[distribution]) < end
        and tensorflow_first <= release(versions["tensorflow"]) < tensorflow_end
    )


def release(version):
    """(major, minor) of a version."""
    return tuple(int(part) for part in version.split(".")[:2])


def name(version):
    """What a TensorFlow version is called in results and in tox: ``tf2.21``, ``tf2.22rc``."""
    return "tf%d.%d" % release(version) + ("rc" if re.search("rc|dev|a|b", version) else "")


def total(runs):
    """Counts over several runs."""
    return {outcome: sum(run[outcome] for run in runs) for outcome in OUTCOMES}


def _marked(mark):
    """Test files that need no flavour and mode, and say so: ``pytestmark = pytest.mark.once``, or ``once_per_python``."""
    paths = [os.path.join(TESTS, entry) for entry in sorted(os.listdir(TESTS)) if re.match(r"test_.*\.py$", entry)]
    found = []
    for path in paths:
        with open(path, "rb") as stream:
            if re.search((r"^pytestmark = pytest\.mark\.%s$" % mark).encode(), stream.read(), re.M):
                found.append(path)
    return found


def _run(flavour, mode, targets, arguments, junit):
    """Run pytest for one combination in its own process, print its line, and return its record."""
    scratch = tempfile.mkdtemp(prefix="tfgradcompat-")
    try:
        return _run_in(scratch, flavour, mode, targets, arguments, junit)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _run_in(scratch, flavour, mode, targets, arguments, junit):
    # A home of its own: Keras reads and writes ~/.keras/keras.json.
    environment = dict(os.environ, HOME=scratch, KERAS_HOME=os.path.join(scratch, ".keras"))
    for key in THREADS:
        environment.setdefault(key, "1")
    for key, value in (("TFGRADCOMPAT_FLAVOUR", flavour), ("TFGRADCOMPAT_MODE", mode)):
        environment.pop(key, None)
        if mode != "once":
            environment[key] = value
    report = os.path.join(scratch, "junit.xml")
    command = [sys.executable, "-c", PYTEST, ROOT, "--rootdir=" + ROOT, "-p", "no:cacheprovider", "-q"]
    command += ["-rfE", "--tb=short", "--disable-warnings", "--junit-xml=" + report] + arguments + targets
    started, cpu_started = time.time(), _children_cpu()
    log = os.path.join(scratch, "log")
    trouble = None
    with open(log, "wb") as stream:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=stream, stderr=subprocess.STDOUT)
        try:
            code = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            trouble = "stopped after %d s" % SECONDS
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()
    record = {"flavour": flavour, "mode": mode, "seconds": round(time.time() - started, 1)}
    record["cpu_seconds"] = round(_children_cpu() - cpu_started, 1)
    record.update(_counts(report))
    if trouble is None:
        if not os.path.exists(report):
            trouble = "pytest ended with code %d and no report" % code
        elif not record["passed"] + record["failed"]:
            trouble = "no test ran"
        elif code not in (0, 1) or (code == 1) != bool(record["failed"]):
            trouble = "pytest ended with code %d" % code
    record["trouble"] = trouble
    record["ok"] = trouble is None and not record["failed"]
    print(
        "  %-21s %4d passed, %d failed, %d skipped  %6.1f s (%.1f s of CPU)%s"
        % (
            "once" if mode == "once" else flavour + " " + mode,
            record["passed"],
            record["failed"],
            record["skipped"],
            record["seconds"],
            record["cpu_seconds"],
            "  (%s)" % trouble if trouble else "",
        )
    )
    if not record["ok"]:
        with open(log, "rb") as stream:
            print("\n".join("    " + line for line in failing_part(stream.read().decode("utf-8", "replace"))))
    sys.stdout.flush()
    if junit and os.path.exists(report):
        if not os.path.isdir(junit):
            os.makedirs(junit)
        shutil.copy(report, os.path.join(junit, "%s-%s.xml" % (flavour, mode)))
    return record


def _children_cpu():
    """Processor seconds of all child processes that have ended: unlike the time that passes, the same on a busy machine."""
    times = os.times()
    return times[2] + times[3]


def _counts(report):
    """Counts of a JUnit file, in all and per test file, with the reasons of skips and the names of failures."""
    record = {outcome: 0 for outcome in OUTCOMES}
    record.update(files={}, skips={}, failures=[])
    if not os.path.exists(report):
        return record
    for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        # One test gives two cases if it fails and then its teardown does.
        module = re.search(r"test_\w+", case.get("classname", "") or case.get("name", ""))
        test_file = module.group(0)[len("test_"):] if module else "?"
        outcome = "passed"
        for child in case:
            if child.tag in ("failure", "error"):
                outcome = "failed"
                record["failures"].append("%s::%s" % (case.get("classname"), case.get("name")))
                break
            if child.tag == "skipped":
                outcome = "skipped"
                reason = child.get("message") or "no reason given"
                record["skips"][reason] = record["skips"].get(reason, 0) + 1
        record[outcome] += 1
        counts = record["files"].setdefault(test_file, {each: 0 for each in OUTCOMES})
        counts[outcome] += 1
    return record


def failing_part(log):
    """The lines of a pytest log that tell what failed: its end, from the first section about a failure on."""
    lines = log.splitlines()
    for number, line in enumerate(lines):
        if re.match("=+ (FAILURES|ERRORS) =+", line):
            lines = lines[number:]
            break
    else:
        lines = lines[-60:]
    if len(lines) > LINES:
        cut = len(lines) - LINES
        lines = lines[: LINES // 2] + ["... %d lines left out ..." % cut] + lines[-(LINES // 2):]
    return lines


if __name__ == "__main__":
    sys.exit(main())
