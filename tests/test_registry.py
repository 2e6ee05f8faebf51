"""The table as data: which adapter serves which versions, what third parties add, and what is refused."""
import importlib.util
import textwrap
import warnings
from collections import OrderedDict

import pytest
from packaging.version import Version

import tfgradcompat
from processes import python
from support import KERAS3, requires
from tfgradcompat import AdapterSpec, AdapterWarning, TfGradCompatError, UnsupportedVersionError, registry
from tfgradcompat.adapters.base import Adapter
from tfgradcompat.registry import plugins
from tfgradcompat.registry.environment import Environment

pytestmark = pytest.mark.once_per_python

MINORS = ["1.%d" % minor for minor in range(16)] + ["2.%d" % minor for minor in range(22)]

# Standalone Keras that works with each TensorFlow.
STANDALONE = OrderedDict(
    [
        ("1.0.1", "2.0.8"), ("1.1.0", "2.0.8"), ("1.2.1", "2.0.8"), ("1.3.0", "2.0.9"), ("1.4.1", "2.0.9"), ("1.5.1", "2.1.3"),
        ("1.6.0", "2.1.5"), ("1.7.1", "2.1.6"), ("1.8.0", "2.1.6"), ("1.9.0", "2.2.0"), ("1.10.1", "2.2.2"), ("1.11.0", "2.2.4"),
        ("1.12.3", "2.2.4"), ("1.13.2", "2.2.4"), ("1.14.0", "2.2.4"), ("1.15.0", "2.2.5"), ("1.15.5", "2.3.1"),
        ("2.0.4", "2.3.1"), ("2.1.4", "2.3.1"), ("2.2.3", "2.3.1"),
    ]
)  # fmt: skip


def minors(first, last):
    """The TensorFlow minors from one to another, both included."""
    return MINORS[MINORS.index(first):MINORS.index(last) + 1]


def expected():
    """(flavour, mode, TensorFlow, Keras, adapter) of every combination there is."""
    for tensorflow, keras in STANDALONE.items():
        yield "keras", "graph", tensorflow, keras, "StandaloneAdapter"
    for mode, first, last, adapter in (
        ("graph", "1.4", "1.13", "PlaceholdersAdapter"),
        ("graph", "1.14", "2.15", "EndpointsAdapter"),
        ("eager", "1.7", "1.15", "TapeV1Adapter"),
        ("eager", "2.0", "2.1", "TapeV20Adapter"),
        ("eager", "2.2", "2.15", "TapeV22Adapter"),
    ):
        for minor in minors(first, last):
            for patch in ("0", "4"):
                yield "tf.keras", mode, minor + "." + patch, minor + "." + patch, adapter
    for minor in minors("2.15", "2.21"):
        yield "tf_keras", "graph", minor + ".0", minor + ".0", "EndpointsAdapter"
        yield "tf_keras", "eager", minor + ".1", minor + ".0", "TapeV22Adapter"
    for minor in minors("2.16", "2.21"):
        for keras in range(16):
            yield "keras3", "eager", minor + ".0", "3.%d.0" % keras, "Keras3Adapter"
    yield "keras3", "eager", "2.22.0", "3.16.0", "Keras3Adapter"


EXPECTED = list(expected())


def environment(flavour, mode, tensorflow, keras):
    return Environment(flavour, mode, Version(tensorflow), Version(keras), "a.package")


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch):
    monkeypatch.setattr(registry, "_registered", [])
    monkeypatch.setattr(registry, "_warned", set())
    monkeypatch.setattr(registry, "_adapters", {})


def test_the_list_is_complete():
    assert len(MINORS) == 38
    assert {".".join(row[2].split(".")[:2]) for row in EXPECTED} == set(MINORS) | {"2.22"}


@pytest.mark.parametrize("flavour, mode, tensorflow, keras, adapter", EXPECTED)
def test_each_version_has_its_adapter(flavour, mode, tensorflow, keras, adapter):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spec = registry.spec_for(environment(flavour, mode, tensorflow, keras))
    assert spec.adapter.split(":")[1] == adapter


def test_every_adapter_of_the_table_is_there():
    for spec in registry.ADAPTERS:
        found = registry._load(spec)
        assert issubclass(found, Adapter) and found.__name__ == spec.adapter.split(":")[1]


@pytest.mark.parametrize(
    "flavour, mode, tensorflow, keras, adapter",
    [
        ("keras3", "eager", "2.99.0", "3.15.0", "Keras3Adapter"),
        ("keras3", "eager", "2.21.0", "3.99.0", "Keras3Adapter"),
        ("keras3", "eager", "3.0.0", "4.0.0", "Keras3Adapter"),
        ("tf_keras", "eager", "2.99.0", "2.99.0", "TapeV22Adapter"),
        ("tf_keras", "graph", "2.22.0", "2.21.0", "EndpointsAdapter"),
        ("tf.keras", "eager", "2.99.0", "2.99.0", "TapeV22Adapter"),
        ("tf.keras", "graph", "2.99.0", "2.99.0", "EndpointsAdapter"),
        ("keras", "graph", "2.3.0", "2.3.1", "StandaloneAdapter"),
    ],
)
def test_a_newer_version_gets_the_newest_adapter_and_one_warning(flavour, mode, tensorflow, keras, adapter):
    newer = environment(flavour, mode, tensorflow, keras)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        specs = {registry.spec_for(newer) for _ in range(3)}
    assert [spec.adapter.split(":")[1] for spec in specs] == [adapter]
    assert [warning.category for warning in caught] == [AdapterWarning]
    assert tensorflow in str(caught[0].message) and "doctor" in str(caught[0].message)


@pytest.mark.parametrize(
    "flavour, mode, tensorflow, keras",
    [
        ("tf.keras", "graph", "1.3.0", "1.3.0"),
        ("tf.keras", "eager", "1.6.0", "1.6.0"),
        ("keras", "graph", "1.0.1", "1.2.2"),
        ("keras", "graph", "0.12.1", "2.0.8"),
        ("keras3", "eager", "2.15.1", "3.0.5"),
        ("keras3", "graph", "2.21.0", "3.15.0"),
        ("tf_keras", "eager", "2.14.1", "2.14.1"),
        ("no such flavour", "eager", "2.21.0", "3.15.0"),
    ],
)
def test_what_nothing_serves_is_refused_with_what_is_supported(flavour, mode, tensorflow, keras):
    with pytest.raises(UnsupportedVersionError) as caught:
        registry.spec_for(environment(flavour, mode, tensorflow, keras))
    assert isinstance(caught.value, (ImportError, TfGradCompatError))
    message = str(caught.value)
    assert tensorflow in message and flavour in message
    for supported in (">=1.4,<1.14", ">=2.2,<2.16", "tf_keras", "keras3"):
        assert supported in message


class First(Adapter):
    """An adapter of a third party."""


class Second(First):
    """One registered later."""


def test_registered_adapters_come_first_and_the_latest_of_them_wins():
    known = environment("tf.keras", "eager", "2.15.1", "2.15.1")
    first = tfgradcompat.register(AdapterSpec("tf.keras", "eager", ">=2.15", "", First))
    assert type(registry.adapter_in(known)) is First
    second = tfgradcompat.register(AdapterSpec("tf.keras", "eager", ">=2.15", "", "%s:Second" % __name__))
    assert type(registry.adapter_in(known)) is Second
    assert registry.spec_for(known) is second is not first
    # It serves what it says and nothing else.
    assert registry.spec_for(environment("tf.keras", "eager", "2.14.1", "2.14.1")).adapter.endswith(":TapeV22Adapter")
    assert registry.spec_for(environment("tf.keras", "graph", "2.15.1", "2.15.1")).adapter.endswith(":EndpointsAdapter")


def test_a_registered_adapter_can_serve_what_the_package_does_not():
    odd = environment("keras3", "graph", "2.21.0", "3.15.0")
    tfgradcompat.register(AdapterSpec("keras3", "graph", "", ">=3.10", First))
    adapter = registry.adapter_in(odd)
    assert type(adapter) is First and adapter.environment == odd
    assert registry.adapter_in(odd) is adapter


def test_only_specs_can_be_registered():
    with pytest.raises(TypeError, match="AdapterSpec"):
        tfgradcompat.register(First)


PLUGIN = """
from tfgradcompat import AdapterSpec
from tfgradcompat.adapters.base import Adapter

class Plugged(Adapter):
    pass

SPEC = AdapterSpec("tf.keras", "eager", ">=2.15,<2.16", "", Plugged)

def make():
    return AdapterSpec("tf.keras", "graph", "", "", Plugged)
"""

ENTRY_POINTS = """
[console_scripts]
something = a_plugin:main

[tfgradcompat.adapters]
constant = a_plugin:SPEC
made = a_plugin:make
broken = a_plugin:absent
"""

ASK = """
import sys, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from packaging.version import Version
    from tfgradcompat import registry
    from tfgradcompat.registry.environment import Environment
    version = Version("2.15.1")
    for mode in ("eager", "graph"):
        print(type(registry.adapter_in(Environment("tf.keras", mode, version, version, "keras.src"))).__name__)
    print(registry.spec_for(Environment("tf_keras", "eager", version, version, "tf_keras.src")).adapter)
for warning in caught:
    if "entry point" in str(warning.message):
        print(warning.category.__name__, warning.message)
print("tensorflow" in sys.modules)
"""


@pytest.fixture
def plugin(tmp_path):
    """A folder with an installed distribution that has entry points."""
    (tmp_path / "a_plugin.py").write_text(textwrap.dedent(PLUGIN))
    metadata = tmp_path / "a_plugin-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: a-plugin\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    return str(tmp_path)


def test_entry_points_add_adapters(plugin):
    # Python 3.6 and 3.7 have no reader of their own, and users there need not have the one that pytest brings.
    hide = "sys.modules['importlib_metadata'] = sys.modules['pkg_resources'] = None"
    code, output, errors = python("-c", "import sys; sys.path.insert(0, %r); %s\n%s" % (plugin, hide, ASK))
    assert code == 0, errors
    lines = output.splitlines()
    assert lines[:3] == ["Plugged", "Plugged", "tfgradcompat.adapters.tape_v22:TapeV22Adapter"]
    assert len(lines) == 5 and lines[3].startswith("AdapterWarning") and "broken" in lines[3] and "absent" in lines[3]
    assert lines[4] == "False"


def test_the_entry_points_of_other_groups_are_read_alike():
    listed = {entry.name: entry.load() for entry in plugins._scan("console_scripts") if entry.name == "pytest"}
    assert callable(listed["pytest"])
    assert list(plugins._scan("tfgradcompat.no_such_group")) == []


# -- modes and backends that cannot be had: each spoils its process ------------------------------------------------------

OTHER_BACKEND = """
import numpy as np
import keras
import tfgradcompat
inputs = keras.layers.Input(shape=(3,))
model = keras.models.Model(inputs, keras.layers.Dense(2)(inputs))
model.compile("sgd", "mse")
try:
    tfgradcompat.get_gradients(model, np.ones((4, 3)), np.ones((4, 2)))
except tfgradcompat.UnsupportedModelError as error:
    print("refused:", error)
"""


@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_another_backend_is_refused(backend):
    requires(KERAS3, "one backend")
    requires(importlib.util.find_spec("jax"), "no other backend is installed: 'jax' and 'numpy' need jax, 'torch' torch")
    code, output, errors = python("-c", OTHER_BACKEND, KERAS_BACKEND=backend)
    assert code == 0, errors
    assert "refused:" in output and repr(backend) in output and "KERAS_BACKEND=tensorflow" in output


GRAPH_MODE = """
import numpy as np
import tensorflow as tf
tf.compat.v1.disable_eager_execution()
""" + OTHER_BACKEND


def test_keras_3_without_eager_execution_is_refused():
    requires(KERAS3, "graph mode is fine")
    code, output, errors = python("-c", GRAPH_MODE)
    assert code == 0, errors
    assert "refused:" in output and "eager execution disabled" in output and "tf_keras" in output


# -- describe, in a process of its own -------------------------------------------------------------------------------------

LOADS = """
import sys
import tfgradcompat
print(tfgradcompat.describe()["tensorflow"], "tensorflow" in sys.modules)
import tensorflow
before = set(sys.modules)
unused = type(vars(tensorflow).get("keras")).__name__
found = tfgradcompat.describe()
str(found)
loaded = {name for name in set(sys.modules) - before if name.split(".")[0] in ("tensorflow", "keras", "tf_keras")}
print(sorted(loaded), type(vars(tensorflow).get("keras")).__name__ == unused)
"""


def test_describe_loads_nothing():
    code, output, errors = python("-c", LOADS)
    assert code == 0, errors
    assert output.splitlines() == ["None False", "[] True"]


DISABLED = """
import tensorflow as tf
tf.compat.v1.disable_eager_execution()
import keras
import tfgradcompat
found = tfgradcompat.describe()["flavours"]["keras3"]
print(found["adapter"], found["reason"])
"""


def test_describe_says_why_nothing_serves():
    requires(KERAS3, "graph mode is fine")
    code, output, errors = python("-c", DISABLED)
    assert code == 0, errors
    assert output.startswith("None Keras 3 cannot work with eager execution disabled")
