"""Writes the support table of the README from the results of the test matrix.

``python -m tests.support_table results README.md`` replaces what stands between the markers; with ``--check`` it only says
whether the table is up to date.
"""
import argparse
import json
import os
import sys

from tests.run import OUTCOMES, release

BEGIN = "<!-- support table: begin (python -m tests.support_table results README.md) -->"
END = "<!-- support table: end -->"

COLUMNS = (
    ("tf.keras", "graph"),
    ("tf.keras", "eager"),
    ("tf.keras", "run_eagerly"),
    ("keras", "graph"),
    ("tf_keras", "graph"),
    ("tf_keras", "eager"),
    ("tf_keras", "run_eagerly"),
    ("keras3", "eager"),
    ("keras3", "run_eagerly"),
)
HEADINGS = {"tf.keras": "tf.keras", "keras": "keras 2.0–2.3", "tf_keras": "tf_keras", "keras3": "Keras 3"}


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.support_table", description=__doc__)
    parser.add_argument("results", help="folder of JSON files that tests.run wrote")
    parser.add_argument("readme", help="file to write the table into")
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if the table is out of date")
    options = parser.parse_args(arguments)
    records = read(options.results)
    if not records:
        print("no results in %s; run python -m tests.matrix first" % options.results)
        return 2
    with open(options.readme, encoding="utf-8") as stream:
        before = stream.read()
    if before.count(BEGIN) != 1 or before.count(END) != 1:
        print("%s needs the two markers, once each:\n%s\n%s" % (options.readme, BEGIN, END))
        return 2
    head, rest = before.split(BEGIN)
    after = head + BEGIN + "\n" + render(records) + END + rest.split(END)[1]
    if options.check:
        print("%s is %s" % (options.readme, "up to date" if after == before else "out of date"))
        return 0 if after == before else 1
    with open(options.readme, "w", encoding="utf-8") as stream:
        stream.write(after)
    return 0


def read(folder):
    """The records in a folder, oldest TensorFlow first."""
    records = []
    for entry in sorted(os.listdir(folder)):
        if entry.endswith(".json"):
            with open(os.path.join(folder, entry), encoding="utf-8") as stream:
                records.append(json.load(stream))
    return sorted(records, key=lambda record: release(record["versions"]["tensorflow"]))


def render(records):
    """Two Markdown tables: releases by flavour and mode, and capabilities by flavour and mode."""
    combinations = sum(run["mode"] != "once" for record in records for run in record["combinations"])
    counts = [sum(record[outcome] for record in records) for outcome in OUTCOMES]
    lines = [
        "%d releases of TensorFlow, %d combinations with a flavour and mode of Keras: %d tests passed, %d failed, "
        "%d skipped."
        % tuple([len(records), combinations] + counts),
        "",
        "The number of tests that pass; **bold** with the number that fail. A test is skipped only where the framework "
        "itself cannot do what it is about. “–”: there is no such combination.",
        "",
        "| TensorFlow | Python | " + " | ".join("%s %s" % (HEADINGS[flavour], mode) for flavour, mode in COLUMNS) + " |",
        "|---|---|" + "---|" * len(COLUMNS),
    ]
    for record in records:
        runs = {(run["flavour"], run["mode"]): run for run in record["combinations"]}
        cells = [_cell(runs.get(column), _beside(record, column[0])) for column in COLUMNS]
        python = ".".join(record["python"].split(".")[:2])
        lines.append("| %s | %s | %s |" % (record["versions"]["tensorflow"], python, " | ".join(cells)))
    lines += ["", "The same by what is tested (`tests/test_*.py`), over all releases: passed, or passed / skipped.", ""]
    lines += _capabilities(records)
    return "\n".join(lines) + "\n"


def _beside(record, flavour):
    """The version of Keras, where it is not TensorFlow's own."""
    return record["versions"].get({"keras": "keras", "keras3": "keras", "tf_keras": "tf-keras"}.get(flavour))


def _cell(run, version):
    if run is None:
        return "–"
    text = str(run["passed"])
    if not run["ok"]:
        text = "**%s, %s failed**" % (text, run["failed"] or "none")
    return text + (" (%s)" % version if version else "")


def _capabilities(records):
    totals = {}
    for record in records:
        for run in record["combinations"]:
            if run["mode"] == "once":
                continue
            for capability, counts in run["files"].items():
                cells = totals.setdefault(capability, {})
                cell = cells.setdefault((run["flavour"], run["mode"]), dict.fromkeys(OUTCOMES, 0))
                for outcome in OUTCOMES:
                    cell[outcome] += counts[outcome]
    yield "| | " + " | ".join("%s %s" % (HEADINGS[flavour], mode) for flavour, mode in COLUMNS) + " |"
    yield "|---|" + "---|" * len(COLUMNS)
    for capability in sorted(totals):
        cells = []
        for column in COLUMNS:
            counts = totals[capability].get(column)
            if counts is None:
                cells.append("–")
                continue
            text = "%d" % counts["passed"] + (" / %d" % counts["skipped"] if counts["skipped"] else "")
            cells.append("**%s, %d failed**" % (text, counts["failed"]) if counts["failed"] else text)
        yield "| %s | %s |" % (capability.replace("_", " "), " | ".join(cells))


if __name__ == "__main__":
    sys.exit(main())
