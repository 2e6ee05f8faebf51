"""Every test starts from fixed seeds and an empty graph: one that grows from test to test makes each slower."""
import pytest

import support

# Uncompiled passes share data handling, params and errors with compiled ones, which the eager process tests.
if support.MODE == "run_eagerly":
    shared = "batches clip environment errors locations per_sample reference sample_weight select side_by_side stale unconnected"
    collect_ignore = ["test_%s.py" % name for name in shared.split()]


def pytest_report_header(config):
    return "%s %s in %s mode on TensorFlow %s" % (support.FLAVOUR, support.KERAS, support.MODE, support.TF)


@pytest.fixture(autouse=True)
def fresh_framework():
    support.clear()
    support.seed()
    yield
