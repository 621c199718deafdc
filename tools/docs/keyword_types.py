"""The keywords of `finetune`, `pretrain` and `export_model` for editors and type checkers, from the settings.

    .venv/bin/python -m tools.docs.keyword_types      # writes bert_tf/runs/keyword_types.pyi
"""

import re
import textwrap
from collections.abc import Mapping

from bert_tf.cli.usage import describe_combinations
from bert_tf.export.settings import ExportSettings
from bert_tf.runs.settings import PretrainingSettings
from bert_tf.runs.task_flags import task_flags
from bert_tf.tasks.registry import TASKS
from bert_tf.utils.settings import Flag, flags_of, takes_bools
from tools.docs.navigation import ROOT

PATH = ROOT / "bert_tf" / "runs" / "keyword_types.pyi"
_TYPES = {"string": "str", "bool": "bool", "integer": "int", "float": "float", "list": "Sequence[str] | str"}
_HEAD = '''"""Keywords of `finetune`, `pretrain` and `export_model`. Written by tools/docs/keyword_types.py."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

'''
# Taken by arguments of their own.
_ARGUMENTS = (
    "train_file", "eval_file", "test_file", "predict_file", "input_file", "do_train", "do_eval", "do_predict",
    "do_export", "output_dir", "loss", "dry_run",
)  # fmt: skip
_PATHS = ("_file", "_dir", "_checkpoint", "teacher")
# Flag -> the argument that takes its place.
_FINE_TUNING = {
    "do_train": "train", "do_eval": "eval", "do_predict": "predict", "train_file": "train", "eval_file": "eval",
    "test_file": "test", "predict_file": "predict",
}  # fmt: skip
_PRETRAINING = {"do_train": "input_file", "do_eval": "eval_file"}
_WIDER = {"class_weights": "Mapping[str, float]", "freeze_layers": "int"}  # which the command line has no form for


def text() -> str:
    """Returns the content of the file."""
    tasks = {flag.name: flag for kind in TASKS for flag in task_flags(kind)}
    tables = {
        "FineTuningKeywords": (tasks, _FINE_TUNING),
        "PretrainingKeywords": (_by_name(PretrainingSettings), _PRETRAINING),
        "ExportKeywords": (_by_name(ExportSettings), {}),
    }
    return _HEAD + "\n\n".join(_class(name, *table) for name, table in tables.items())


def _by_name(kind):
    return {flag.name: flag for flag in flags_of(kind)}


def _class(name: str, flags: Mapping[str, Flag], arguments: Mapping[str, str]) -> str:
    lines = [f"class {name}(TypedDict, total=False):"]
    for flag in flags.values():
        if flag.has_effect and flag.name not in _ARGUMENTS:
            text = " ".join(filter(None, [flag.help, describe_combinations(flag, flags)]))
            lines += [f"    {flag.name}: {_type(flag)}", *_comment(text, arguments)]
    return "\n".join([*lines, ""])


def _type(flag):
    if flag.name in ("text_column", "label_column"):  # a name or a number, as the task has it
        return "Any"
    more = {"bool": takes_bools(flag), "str": bool(flag.words), _WIDER.get(flag.name): flag.name in _WIDER}
    kinds = [_TYPES[flag.kind], *(kind for kind, is_taken in more.items() if is_taken)]
    if flag.name.endswith(_PATHS):
        kinds.append("os.PathLike[str]")
    return " | ".join([*kinds, *(["None"] if flag.default is None else [])])


def _comment(text, arguments):
    """Returns the lines of a help text in which flags are written as arguments, except those of commands in it."""
    parts = text.split("`")
    parts[::2] = [
        re.sub(r"--(\w+)((?:=\w+)?)", lambda found: f"`{arguments.get(found[1], found[1])}{found[2]}`", part)
        for part in parts[::2]
    ]
    text = "`".join(parts)
    return textwrap.wrap(f'"""{text}"""', 116, initial_indent="    ", subsequent_indent="    ")


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
