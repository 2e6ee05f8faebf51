"""Every test starts from fixed seeds, every file without the models of the one before."""
import pytest

import support


def pytest_report_header(config):
    return "%s %s in %s mode on TensorFlow %s" % (support.FLAVOUR, support.KERAS, support.MODE, support.TF)


@pytest.fixture(autouse=True, scope="module")
def fresh_framework():
    support.clear()
    yield


@pytest.fixture(autouse=True)
def fixed_seeds():
    support.seed()
    yield
