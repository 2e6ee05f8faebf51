"""Importing the package costs next to nothing and touches no framework."""
import json
import sys

import pytest

import tfgradcompat
from processes import python

pytestmark = pytest.mark.once_per_python

FRAMEWORKS = ("tensorflow", "tensorflow_core", "keras", "tf_keras", "jax", "torch")
# Modules that take longer to import than this whole package; what needs them imports them when it does.
HEAVY = ("pkg_resources", "importlib.metadata", "importlib_metadata", "pandas", "scipy", "unittest", "asyncio")

PROBE = """
import json, sys
import numpy, packaging.specifiers, packaging.version
before = set(sys.modules)
import tfgradcompat
print(json.dumps(sorted(set(sys.modules) - before)))
"""


@pytest.fixture(scope="module")
def imported():
    """What ``import tfgradcompat`` imports beyond its two requirements, in a fresh process."""
    code, output, errors = python("-c", PROBE)
    assert code == 0, errors
    return json.loads(output)


def test_imports_no_framework(imported):
    assert "tfgradcompat.api" in imported
    assert [name for name in imported if name.split(".")[0] in FRAMEWORKS] == []


def test_imports_nothing_heavy(imported):
    assert [name for name in imported if name in HEAVY or name.split(".")[0] in HEAVY] == []


def test_imports_nothing_but_itself_and_the_standard_library(imported):
    allowed = ("tfgradcompat", "numpy", "packaging")
    strangers = []
    for name in imported:
        root = name.split(".")[0]
        if root not in allowed and root not in sys.builtin_module_names:
            module = sys.modules.get(name) or __import__(root)
            if "site-packages" in (getattr(module, "__file__", None) or ""):
                strangers.append(name)
    assert strangers == []


def test_the_public_names_are_there():
    assert tfgradcompat.__all__ == sorted(tfgradcompat.__all__)
    for name in tfgradcompat.__all__:
        assert hasattr(tfgradcompat, name)
