"""Old names of what is public: they are accepted, with a DeprecationWarning that names the new one."""

import functools
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any


def warn_of_old_name(text: str) -> None:
    """Issues a DeprecationWarning for the line that called into this package: Python shows it to the line's author."""
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "bert_tf":
        level, frame = level + 1, frame.f_back
    warnings.warn(text, DeprecationWarning, stacklevel=level)


def find_renamed(module: str, names: Mapping[str, str], name: str) -> Any:
    """Returns what an old name of a module stands for, for its `__getattr__`.

    Args:
        module: its `__name__`.
        names: {old name: new name}.
        name: the name that was asked for.

    Raises:
        AttributeError: it is not an old name.
    """
    if name not in names:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warn_of_old_name(f"`{name}` is now `{names[name]}`.")
    return getattr(sys.modules[module], names[name])


def old_keywords(**names: str) -> Callable[[Callable], Callable]:
    """Returns a decorator of a function some of whose arguments have a new name, {old name: new name}."""

    def decorate(function):
        @functools.wraps(function)
        def call(*args, **given):
            for old in names.keys() & given:
                if names[old] in given:
                    raise TypeError(f"`{names[old]}` was passed twice: `{old}` is its old name. Remove one.")
                warn_of_old_name(f"`{old}` is now `{names[old]}`.")
                given[names[old]] = given.pop(old)
            return function(*args, **given)

        return call

    return decorate
