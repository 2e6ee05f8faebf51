"""The table: flavour + mode + versions -> adapter. A new TensorFlow release means one upper bound here.

The upper bound of a flavour's last row is the newest release the test matrix has run. Beyond it that row's adapter still
serves, with a warning, because internals move rarely.
"""
from collections import namedtuple

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from .environment import EAGER, GRAPH, KERAS3, LEGACY, STANDALONE, TF_KERAS


class AdapterSpec(namedtuple("AdapterSpec", "flavour mode tensorflow keras adapter")):
    """One row: which models an adapter serves.

    Arguments:
        flavour: ``"tf.keras"``, ``"keras"`` (2.0-2.3), ``"tf_keras"`` or ``"keras3"``.
        mode: ``"graph"`` or ``"eager"``.
        tensorflow: version specifier, e.g. ``">=2.2,<2.16"``; ``""`` for any.
        keras: version specifier of the package ``keras`` or ``tf_keras``; ``""`` for any, and for tf.keras.
        adapter: a subclass of ``tfgradcompat.adapters.base.Adapter``, or where to find one: ``"package.module:Class"``.
    """

    __slots__ = ()

    def matches(self, environment):
        return (
            self.serves(environment)
            and SpecifierSet(self.tensorflow).contains(environment.tensorflow, prereleases=True)
            and SpecifierSet(self.keras).contains(environment.keras, prereleases=True)
        )

    def serves(self, environment):
        return (self.flavour, self.mode) == (environment.flavour, environment.mode)

    def versions(self):
        """The models of this row in words."""
        keras = " with %s %s" % (self.flavour, self.keras) if self.keras else ""
        return "%s in %s mode on TensorFlow %s%s" % (self.flavour, self.mode, self.tensorflow or "(any)", keras)

    def newest_tested(self, environment):
        """Whether ``environment`` lies beyond a bound of this row and below none: newer than all that was tested."""
        newer = False
        for text, version in ((self.tensorflow, environment.tensorflow), (self.keras, environment.keras)):
            for specifier in SpecifierSet(text):
                if not specifier.contains(version, prereleases=True):
                    if version < Version(specifier.version):
                        return False
                    newer = True
        return newer


_HERE = "tfgradcompat.adapters."

ADAPTERS = (
    AdapterSpec(STANDALONE, GRAPH, ">=1.0,<2.3", ">=2.0,<2.4", _HERE + "graph_placeholders:StandaloneAdapter"),
    AdapterSpec(TF_KERAS, GRAPH, ">=1.4,<1.14", "", _HERE + "graph_placeholders:PlaceholdersAdapter"),
    AdapterSpec(TF_KERAS, GRAPH, ">=1.14,<2.16", "", _HERE + "graph_endpoints:EndpointsAdapter"),
    AdapterSpec(TF_KERAS, EAGER, ">=1.7,<2.0", "", _HERE + "tape_v1:TapeV1Adapter"),
    AdapterSpec(TF_KERAS, EAGER, ">=2.0,<2.2", "", _HERE + "tape_v20:TapeV20Adapter"),
    AdapterSpec(TF_KERAS, EAGER, ">=2.2,<2.16", "", _HERE + "tape_v22:TapeV22Adapter"),
    AdapterSpec(LEGACY, GRAPH, ">=2.15,<2.22", ">=2.15,<2.22", _HERE + "graph_endpoints:EndpointsAdapter"),
    AdapterSpec(LEGACY, EAGER, ">=2.15,<2.22", ">=2.15,<2.22", _HERE + "tape_v22:TapeV22Adapter"),
    AdapterSpec(KERAS3, EAGER, ">=2.16,<2.23", ">=3.0,<3.17", _HERE + "keras3:Keras3Adapter"),
)
