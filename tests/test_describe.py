"""describe: what was found and which adapter serves."""
import platform

import pytest

import models
from support import FLAVOUR, GRAPH, KERAS, TF, Version
from tfgradcompat import UnsupportedModelError, describe
from tfgradcompat.registry import adapter_for
from tfgradcompat.registry.environment import inspect


def test_of_a_model():
    model, batch = models.dense()
    found = describe(model)
    assert isinstance(found, dict)
    assert (found["flavour"], found["mode"]) == (FLAVOUR, "graph" if GRAPH else "eager")
    assert (found["tensorflow"], found["keras"], found["python"]) == (str(TF), str(KERAS), platform.python_version())
    assert found["package"] == inspect(model).package
    cls = type(adapter_for(model))
    assert found["adapter"] == cls.__module__ + "." + cls.__name__
    assert found["serves"].startswith("%s in %s mode on TensorFlow >=" % (FLAVOUR, found["mode"]))
    assert found["symbols"]["Model"].startswith(found["package"] + ".")
    assert not set(found["symbols"]) - set(describe()["flavours"][FLAVOUR]["symbols"])
    printed = str(found)
    for name, value in found.items():
        assert name in printed
        assert isinstance(value, dict) or str(value) in printed
    for where in found["symbols"].values():
        assert where in printed


def test_leaves_the_model_alone():
    model, batch = models.deferred()
    describe(model)
    assert not model.built


def test_of_the_process():
    found = describe()
    assert Version(Version(found["tensorflow"]).base_version) == TF
    mine = found["flavours"][FLAVOUR]
    assert (mine["flavour"], mine["mode"]) == (FLAVOUR, "graph" if GRAPH else "eager")
    model, _ = models.dense()
    for name in ("adapter", "package", "symbols", "keras"):
        assert mine[name] == describe(model)[name]
    assert mine["adapter"] in str(found)


def test_of_what_is_no_model():
    with pytest.raises(UnsupportedModelError):
        describe("model.h5")
