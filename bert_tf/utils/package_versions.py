"""Versions of Python and of installed packages."""

import importlib.metadata
import platform
from collections.abc import Iterable

import bert_tf


def package_versions(packages: Iterable[str]) -> dict[str, str]:
    """Returns {package: version} of Python, bert_tf and the named packages, without those that are not installed."""
    found = {"python": platform.python_version(), "bert_tf": bert_tf.__version__}
    for name in packages:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
