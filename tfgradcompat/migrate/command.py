"""From paths to exit code: each file is looked at, rewritten if wanted, and reported."""
import re

import libcst as cst

from . import files, report
from .notebooks import Notebook
from .rewriting import rewrite

PYTHON2 = re.compile(r"^\s*print\s+[^\s=(.,:)\]]|^\s*raise\s+\w+\s*,|^\s*exec\s+['\"\w]|\b\d+L\b|<>|\bur['\"]", re.M)
# Python 3.14 reads this one as two classes to catch; in code of the old idiom the second is a name.
EXCEPT = re.compile(r"^\s*except\s+[\w.()]+\s*,\s*[a-z_]\w*\s*:", re.M)
PYTHON2_ADVICE = "it is Python 2; convert it first, with 2to3 for example"


class Outcome(object):
    """What became of one file."""

    def __init__(self, path):
        self.path = path
        self.difference, self.rewrites, self.changed, self.failed = "", 0, False, False
        self.notes, self.leftovers, self.problems = [], [], []


class _Module(object):
    """Plain source, with the interface of ``Notebook``."""

    skipped = ()

    def __init__(self, data):
        self._source = files.decode(data)
        self.text = self._source.text

    def place(self, line):
        return str(line)

    def uses(self, name):
        return None

    def replaced(self, text):
        return files.encode(text, self._source)


def migrate(paths, write):
    """Look at all files; returns (outcomes of those with something to say, how many were looked at)."""
    outcomes, looked_at = [], list(files.find(paths))
    users = files.Users(looked_at)
    for path in report.progress(looked_at):
        outcome = _one(path, write, users)
        if outcome.changed or outcome.leftovers or outcome.problems:
            outcomes.append(outcome)
    return outcomes, len(looked_at)


def run(paths, write, check):
    """Migrate and report; returns the exit code."""
    outcomes, looked_at = migrate(paths, write)
    for outcome in outcomes:
        report.show(outcome)
    print(report.summary(outcomes, looked_at, write))
    if any(one.failed for one in outcomes):
        return 1
    waiting = any(one.leftovers or one.problems or one.changed and not write for one in outcomes)
    return 1 if check and waiting else 0


def _one(path, write, users):
    outcome = Outcome(path)
    try:
        data = files.read(path)
        if files.MARKERS.search(data) is None:
            return outcome
        source = Notebook(data) if path.endswith(".ipynb") else _Module(data)
        if EXCEPT.search(source.text):
            raise files.UnreadableError(PYTHON2_ADVICE)
        _rewrite(outcome, source, write, users)
    except files.UnreadableError as error:
        outcome.problems.append("left alone: %s" % error)
    except cst.ParserSyntaxError as error:
        outcome.problems.append(_why_not_parsed(source, error))
    except RecursionError:
        outcome.problems.append("left alone: its expressions are nested too deeply")
    return outcome


def _rewrite(outcome, source, write, users):
    for number in source.skipped:
        told = outcome.problems if source.unread(number) else outcome.notes
        told.append("cell %d is not Python 3, and was not looked at" % number)
    result = rewrite(source.text, lambda name: source.uses(name) or users.of(outcome.path, name))
    leftovers = result.before
    if result.text != source.text:
        data = source.replaced(result.text)
        outcome.changed, outcome.rewrites = True, len(result.plans)
        outcome.difference = report.difference(outcome.path, source.text, result.text)
        outcome.notes += ["%s: %s" % (source.place(plan.line), note) for plan in result.plans for note in plan.notes]
        if write and _written(outcome, data):
            source, leftovers = type(source)(data), result.after if leftovers else []
    outcome.leftovers = [(source.place(one.line), one.reason, one.advice) for one in leftovers]


def _written(outcome, data):
    try:
        files.write(outcome.path, data)
    except (IOError, OSError) as error:
        outcome.problems.append("cannot be written: %s" % (error.strerror or error))
        outcome.failed, outcome.changed = True, False
    return not outcome.failed


def _why_not_parsed(source, error):
    if PYTHON2.search(source.text):
        return "left alone: " + PYTHON2_ADVICE
    return "left alone: line %d is not Python 3: %s" % (error.raw_line, error.message)
