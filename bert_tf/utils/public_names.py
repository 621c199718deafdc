"""Public names of the package for modules that may not import their homes, because these import them.

`bert_tf/__init__.py`, which imports each public name when it is first used, provides them.
"""

from collections.abc import Callable
from typing import Any

_finders: list[Callable[[str], Any]] = []


def provide_public_names(find: Callable[[str], Any]) -> None:
    """Sets the function from a name to what it stands for."""
    _finders[:] = [find]


def public_name(name: str) -> Any:
    """Returns what a public name stands for, such as the class `Predictor`."""
    (find,) = _finders
    return find(name)
