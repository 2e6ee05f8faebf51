"""What the user is shown: differences, what is left over, how far it is."""
import difflib
import sys

MANY = 50  # files from which on it is worth showing how far it is


def difference(path, old, new):
    """A unified diff of two texts, whatever their line ends."""
    name = path.replace("\\", "/").lstrip("/")
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), "a/" + name, "b/" + name, lineterm="")
    return "\n".join(lines)


def progress(paths):
    """The paths, with a progress bar on standard error if there are many, a terminal and ``rich``."""
    if len(paths) >= MANY and sys.stderr.isatty():
        try:
            from rich.console import Console
            from rich.progress import track
        except ImportError:
            return paths
        return track(paths, "Reading", console=Console(stderr=True), transient=True)
    return paths


def show(outcome):
    """Print what became of one file."""
    if outcome.difference:
        _print(outcome.difference)
    for note in outcome.notes:
        _print("%s: note: %s" % (outcome.path, note))
    for place, reason, advice in outcome.leftovers:
        _print("%s:%s: left: %s\n    use %s" % (outcome.path, place, reason, advice))
    for problem in outcome.problems:
        _print("%s: %s" % (outcome.path, problem))


def summary(outcomes, looked_at, written):
    """The line at the end."""
    changed = [one for one in outcomes if one.changed]
    left = [one for one in outcomes if one.leftovers]
    places = sum(one.rewrites for one in changed)
    text = "%s looked at; %s in %s %s; %s left over in %s" % (
        _count(looked_at, "file"),
        _count(places, "place"),
        _count(len(changed), "file"),
        "rewritten" if written else "to rewrite (--write does it)" if changed else "to rewrite",
        _count(sum(len(one.leftovers) for one in left), "place"),
        _count(len(left), "file"),
    )
    problems = sum(len(one.problems) for one in outcomes)
    return text + ("; " + _count(problems, "problem") if problems else "") + "."


def _count(number, what):
    return "%d %s%s" % (number, what, "" if number == 1 else "s")


def _print(text):
    """Print, with escapes for what the terminal's encoding does not have."""
    encoding = sys.stdout.encoding or "ascii"
    print(text.encode(encoding, "backslashreplace").decode(encoding))
