"""Every test starts from fixed seeds and an empty graph: one that grows from test to test makes each slower."""
import pytest

import support

# Uncompiled passes share data handling, params and errors with compiled ones, which the eager process tests.
if support.MODE == "run_eagerly":
    collect_ignore = ["test_batches.py", "test_environment.py", "test_locations.py", "test_sample_weight.py", "test_side_by_side.py"]


def pytest_report_header(config):
    return "%s %s in %s mode on TensorFlow %s" % (support.FLAVOUR, support.KERAS, support.MODE, support.TF)


@pytest.fixture(autouse=True)
def fresh_framework():
    support.clear()
    support.seed()
    yield
