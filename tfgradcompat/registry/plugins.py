"""Entry points of installed packages."""
import importlib
import os
import sys
from collections import namedtuple
from configparser import ConfigParser


class EntryPoint(namedtuple("EntryPoint", "name value group")):
    """What ``importlib.metadata.EntryPoint`` is from Python 3.8 on."""

    __slots__ = ()

    def load(self):
        module, _, attribute = self.value.split("[")[0].strip().partition(":")
        found = importlib.import_module(module.strip())
        for name in filter(None, attribute.strip().split(".")):
            found = getattr(found, name)
        return found


def entry_points(group):
    """The entry points of a group, of all packages installed."""
    try:
        from importlib import metadata
    except ImportError:
        # Python 3.6, 3.7. What reads them there (setuptools, importlib_metadata) need not be installed.
        return list(_scan(group))
    found = metadata.entry_points()
    if hasattr(found, "select"):  # Python 3.10+
        return list(found.select(group=group))
    return list(found.get(group, ()))


def _scan(group):
    seen = set()
    for folder in sys.path:
        folder = folder or os.curdir
        if not os.path.isdir(folder):
            continue
        for entry in sorted(os.listdir(folder)):
            path = os.path.join(folder, entry, "entry_points.txt")
            if not entry.endswith((".dist-info", ".egg-info")) or not os.path.isfile(path):
                continue
            distribution = entry.split("-")[0].lower()
            if distribution in seen:  # the first on the path is the one that is imported
                continue
            seen.add(distribution)
            parser = ConfigParser(delimiters=("=",), interpolation=None, strict=False)
            parser.optionxform = str
            parser.read(path, encoding="utf-8")
            if parser.has_section(group):
                for name, value in parser.items(group):
                    yield EntryPoint(name, value, group)
