"""Check training data for mistakes before a model is trained on it.

    bert-tf data check --train_file=train.csv --eval_file=dev.csv \\
        --init_checkpoint=demo/weights/minilm

Finds wrong or missing labels, duplicates, overlap between files and texts that
will be cut off, with line numbers. --task selects the training command whose
file format applies. With --init_checkpoint, lengths are counted in tokens.
A custom task's own flags go after `--`.
"""

import dataclasses
import re
from collections.abc import Sequence
from typing import ClassVar

from bert_tf.cli.commands import load_command
from bert_tf.tasks.built_in import BUILT_IN_TASKS
from bert_tf.tasks.entry_points import custom_tasks
from bert_tf.utils.json_files import printable_json
from bert_tf.utils.logged_runs import name_of_flag
from bert_tf.utils.settings import Settings, flags_of, option, options_of

# Task -> the command that trains it, whose flags describe its files.
_COMMANDS = {task.name: load_command(task.command) for task in sorted(BUILT_IN_TASKS)}
_FILES = ("train_file", "eval_file", "test_file", "predict_file")
# Flags of all tasks that determine how lengths are counted, and flags outside the group "Data" that determine what an
# example of some tasks is.
_MODEL = ("init_checkpoint", "bert_config_file", "vocab_file", "do_lower_case", "max_seq_length")
_ALSO_TAKEN = ("loss", "eval_metric")


def _says_how_to_read(flag):
    """Returns whether a flag of a task determines how examples are read and laid out."""
    return flag.group == "Data" and flag.name not in (*_FILES, "strict_data") or flag.name in _ALSO_TAKEN


# In the order of the tasks, those of the model last.
_TAKEN = tuple(dict.fromkeys(
    [flag.name for command in _COMMANDS.values() for flag in command.FLAGS if _says_how_to_read(flag)] + [*_MODEL]
))  # fmt: skip


def _taken():
    """Yields the flags, without defaults: each task has its own, which the help names."""
    for name in _TAKEN:
        has = {task: one for task, command in _COMMANDS.items() for one in command.FLAGS if one.name == name}
        flag = next(iter(has.values()))
        choices = tuple(dict.fromkeys(choice for one in has.values() for choice in one.choices))
        kind = "list" if name == "text_column" else flag.kind
        help_text = flag.help + _defaults(flag, has)
        yield dataclasses.replace(flag, default=None, kind=kind, help=help_text, choices=choices)


def _defaults(flag, has):
    """Returns what --help adds on a flag's defaults; `has`: task -> its own flag."""
    tasks = {}  # default -> those that have it
    for task, one in has.items():
        if one.default is not None:
            tasks.setdefault(_shown(one.default), []).append(task)
    if [*tasks.values()] == [[*has]]:
        return f" Default: {next(iter(tasks))}."
    several = "; ".join(f"{default} for {', '.join(each)}" for default, each in tasks.items())
    return f" {'But' if 'Default: ' in flag.help else 'Default:'} {several}." if several else ""


def _shown(default):
    """Returns a default as written on a command line."""
    if isinstance(default, list | tuple):
        return ",".join(default)
    text = str(default).lower() if isinstance(default, bool) else str(default)
    return text if re.search(r"\w", text) else repr(text)


@dataclasses.dataclass(frozen=True)
class CheckDataSettings:
    """Files to check, and their task."""

    GROUP: ClassVar[str] = "Data"

    task: str = option(
        "classification",
        "Task that the examples are for; it decides how files are read.",
        choices=tuple(dict.fromkeys([*_COMMANDS, *custom_tasks()])), group="What to do", essential=True,
    )
    train_file: str | None = option(None, "Training examples, as the command of --task reads them.", essential=True)
    eval_file: str | None = option(None, "Evaluation examples.", essential=True)
    test_file: str | None = option(None, "Labeled test examples, used only to evaluate the final model.")
    predict_file: str | None = option(None, "Examples to predict for.", essential=True)
    strict_data: bool = option(False, "Exit with status 1 if there are warnings.", essential=True)
    json: bool = option(
        False,
        "Print JSON: files and findings, with up to 1,000 locations per finding.",
        group="Output", essential=True,
    )


FLAGS = (*flags_of(CheckDataSettings), *_taken())

TAKES_TEXTS = True  # the flags of a custom task, after `--`
WHERE_OTHER_FLAGS_GO = "Flags of a custom task go after `--`. "


def main(settings, words):
    """Prints what is found."""
    from bert_tf.cli.command_runner import in_flags
    from bert_tf.runs.data_checks import refuse_warnings
    from bert_tf.runs.data_overview import look_at_files
    from bert_tf.runs.task_flags import task_settings
    from bert_tf.tasks.registry import TASKS_BY_NAME, load_custom_task

    kind = TASKS_BY_NAME.get(settings.task) or load_custom_task(settings.task)
    overview = look_at_files(kind, options_of(task_settings(kind), of_program(settings, words)))
    text = printable_json(overview.to_dict(), indent=2) if settings.json else str(overview)
    print(in_flags(text, settings.to_dict()))
    if settings.strict_data:
        refuse_warnings(overview.findings)


def of_program(settings: Settings, words: Sequence[str] = ()) -> Settings:
    """Returns the settings of the task's own program for training, evaluation and so on with the files of `settings`.

    Args:
        settings: settings of this command.
        words: flags of the program that this command does not have.

    Raises:
        ValueError: a flag was given that the program does not have, or no file.
    """
    flags = {flag.name: flag for flag in _flags_of_task(settings.task)}
    given = {name for name in settings.given if name in (*_FILES, *_TAKEN)}
    if strange := sorted(given - flags.keys()):
        raise ValueError(
            f"`{strange[0]}` does not apply to `task={settings.task}`. Remove it, or choose a `task` that reads it."
        )
    for name in given:
        if (choices := flags[name].choices) and flags[name].kind != "list" and settings.get(name) not in choices:
            raise ValueError(
                f"`{name}` must be one of {', '.join(choices)} for `task={settings.task}`; got "
                f"{settings.get(name)}."
            )
    if not any(settings.get(name) for name in (*_FILES, "task_name")):
        raise ValueError(
            "No files to check: pass at least one of `train_file`, `eval_file`, `test_file` and `predict_file`."
        )
    values = _read_words(settings.task, flags, words)
    values |= {name: _as_kind(flags[name], settings.get(name)) for name in given}
    values |= {f"do_{file.removesuffix('_file')}": bool(settings.get(file)) for file in _FILES if file != "test_file"}
    if settings.task_name:
        values |= {"do_train": True, "do_eval": True}
    return Settings(values, given)


def _flags_of_task(task):
    if task in _COMMANDS:
        return _COMMANDS[task].FLAGS
    from bert_tf.cli.custom_task import CustomTaskCommand  # here, because it imports TensorFlow

    return CustomTaskCommand(task).FLAGS


def _read_words(task, flags, words):
    """Returns {name: value} of all flags of a task's own program, parsed from the words."""
    from bert_tf.cli.command_runner import parse_flags

    taken = {name_of_flag(word) for word in words} & {flag.name for flag in FLAGS}
    if taken:
        raise ValueError(f"--{min(taken)} must come before the `--`, because it is a flag of `data check`. Move it.")
    program = next((each.command for each in BUILT_IN_TASKS if each.name == task), f"train {task}")
    return parse_flags(program, flags.values(), ["--output_dir=.", *words]).to_dict() | {"output_dir": None}


def _as_kind(flag, value):
    """Returns what the task's own flag would have of a value: a list may be one number."""
    if flag.kind == "integer" and isinstance(value, list):
        text = ",".join(value)
        if not text.lstrip("-").isdecimal():
            raise ValueError(f"`{flag.name}` must be a single number for this task; got {text}.")
        return int(text)
    return value
