"""Keyword arguments as settings: names, types and ranges are checked as on the command line."""

import os
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from bert_tf.checkpoints.hub_models import with_local_models
from bert_tf.utils.flag_synonyms import suggest
from bert_tf.utils.old_names import warn_of_old_name
from bert_tf.utils.settings import Flag, Settings, allowed_values, takes_bools


def read_keywords(
    function: str, flags: Iterable[Flag], given: Mapping[str, Any], others: Sequence[str] = ()
) -> Settings:
    """Returns the settings that keyword arguments specify, with local paths of models; the others have their defaults.

    Args:
        function: its name, for messages.
        flags: flags of the settings.
        given: {name: value}.
        others: names of further arguments of the function, for suggestions.

    Raises:
        TypeError: a name is unknown, or a value has the wrong type.
        ValueError: a value is out of range, or a required one is missing; or a model cannot be downloaded.
    """
    table = {flag.name: flag for flag in flags}
    given = _without_aliases(function, table.values(), given)
    for name in given:
        if name not in table:
            raise TypeError(_describe_unknown(function, name, [*table, *others]))
    values = {name: _read(table[name], value) for name, value in given.items()}
    for flag in table.values():
        if flag.required and values.get(flag.name) is None:
            raise ValueError(f"{function}() requires `{flag.name}`: {flag.help}")
    return with_local_models(flags, Settings({name: flag.default for name, flag in table.items()} | values, given))


def _without_aliases(function, flags, given):
    names = {alias: flag.name for flag in flags for alias in flag.aliases}
    for alias, name in names.items():
        if alias in given and name in given:
            raise TypeError(f"{function}() received `{name}` twice: `{alias}` is an alias of it. Remove one.")
        if alias in given:
            warn_of_old_name(f"`{alias}` is now `{name}`.")
    return {names.get(name, name): value for name, value in given.items()}


def _describe_unknown(function, name, known):
    near = suggest(name, known)
    hint = f" Did you mean `{near}`?" if near else ""
    return f"{function}() has no argument `{name}`.{hint}"


def _read(flag, value):
    """Returns the value that the command line would give."""
    if isinstance(value, str) and value in flag.words:
        return value
    if value is None and (flag.default is None or flag.kind in ("string", "list")):
        return value
    if flag.kind == "list":
        return _read_list(flag, value)
    if flag.kind == "string":
        if isinstance(value, bool):
            value = str(value).lower() if takes_bools(flag) else value
        elif isinstance(value, Integral):
            value = str(value)
        value = os.fspath(value) if isinstance(value, os.PathLike) else value
        if new := next((new for old, new in flag.renamed_choices if value == old), None):
            warn_of_old_name(f"`{flag.name}={value}` is now `{flag.name}={new}`.")
            value = new
    kinds: dict[str, type[Any]] = {"string": str, "bool": bool, "integer": Integral, "float": Real}
    if not isinstance(value, kinds[flag.kind]) or isinstance(value, bool) != (flag.kind == "bool"):
        raise TypeError(f"`{flag.name}` must be {allowed_values(flag, in_python=True)}; got {value!r:.80}.")
    if flag.kind in ("integer", "float"):
        value = int(value) if flag.kind == "integer" else float(value)
        if not (flag.low is None or value >= flag.low) or not (flag.high is None or value <= flag.high):
            raise ValueError(f"`{flag.name}` must be {allowed_values(flag, in_python=True)}; got {value!r}.")
    elif flag.choices and value not in flag.choices:
        raise ValueError(f"`{flag.name}` must be {allowed_values(flag, in_python=True)}; got {value!r:.80}.")
    return value


def _read_list(flag, value):
    if isinstance(value, str):
        value = value.split(",")
    elif isinstance(value, Mapping):  # such as the weights of labels
        value = [f"{name}:{number}" for name, number in value.items()]
    elif isinstance(value, Iterable):
        value = [os.fspath(each) if isinstance(each, os.PathLike) else str(each) for each in value]
    else:
        value = [str(value)]
    for each in value:
        if flag.choices and each not in flag.choices:
            raise ValueError(f"`{flag.name}` must be {allowed_values(flag, in_python=True)}; got {each!r:.80}.")
    return value
