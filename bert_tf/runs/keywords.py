"""Keyword arguments as settings: names, types and ranges are checked as on the command line."""

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from bert_tf.checkpoints.hub_models import with_local_models
from bert_tf.utils.settings import Flag, Settings, allowed_values

# What other libraries call some settings.
_SYNONYMS = {
    "lr": "learning_rate", "epochs": "num_train_epochs", "num_epochs": "num_train_epochs",
    "batch_size": "train_batch_size", "per_device_train_batch_size": "train_batch_size",
    "per_device_eval_batch_size": "eval_batch_size", "max_length": "max_seq_length", "model": "init_checkpoint",
    "warmup_ratio": "warmup_proportion", "warmup_steps": "num_warmup_steps", "max_steps": "num_train_steps",
    "weight_decay": "weight_decay_rate", "max_grad_norm": "clip_norm", "lr_scheduler_type": "schedule",
    "early_stopping_patience": "early_stopping", "save_steps": "save_checkpoints_steps",
    "save_total_limit": "keep_checkpoints", "label_smoothing_factor": "label_smoothing", "fp16": "precision",
    "bf16": "precision", "train_dataset": "train", "eval_dataset": "eval", "optim": "optimizer",
}  # fmt: skip


def read_keywords(
    function: str, flags: Iterable[Flag], given: Mapping[str, Any], others: Sequence[str] = ()
) -> Settings:
    """Returns the settings that keyword arguments specify, with local paths of models; the others have their defaults.

    Args:
        function: its name, for messages.
        flags: of the settings.
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
    return {names.get(name, name): value for name, value in given.items()}


def _describe_unknown(function, name, known):
    near = _SYNONYMS.get(name)
    if near not in known:
        near = next(iter(difflib.get_close_matches(name, known, 1)), None)
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
        value = str(value) if isinstance(value, Integral) and not isinstance(value, bool) else value
        value = os.fspath(value) if isinstance(value, os.PathLike) else value
    kinds: dict[str, type[Any]] = {"string": str, "bool": bool, "integer": Integral, "float": Real}
    if not isinstance(value, kinds[flag.kind]) or isinstance(value, bool) != (flag.kind == "bool"):
        raise TypeError(f"`{flag.name}` must be {allowed_values(flag, in_python=True)}. Received: {value!r:.80}.")
    if flag.kind in ("integer", "float"):
        value = int(value) if flag.kind == "integer" else float(value)
        if not (flag.low is None or value >= flag.low) or not (flag.high is None or value <= flag.high):
            raise ValueError(f"`{flag.name}` must be {allowed_values(flag, in_python=True)}. Received: {value!r}.")
    elif flag.choices and value not in flag.choices:
        raise ValueError(f"`{flag.name}` must be {allowed_values(flag, in_python=True)}. Received: {value!r:.80}.")
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
            raise ValueError(f"`{flag.name}` must be {allowed_values(flag, in_python=True)}. Received: {each!r:.80}.")
    return value
