"""Every test starts from fixed seeds and an empty graph: one that grows from test to test makes each slower."""
import pytest

import support


def pytest_report_header(config):
    return "%s %s in %s mode on TensorFlow %s" % (support.FLAVOUR, support.KERAS, support.MODE, support.TF)


@pytest.fixture(autouse=True)
def fresh_framework():
    support.clear()
    support.seed()
    yield
