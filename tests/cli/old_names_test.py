"""Names of flags, values and commands that are only accepted: on the command line and, with a warning, in Python."""

import functools

import pytest
from absl import flags

from bert_tf.cli import command_runner, commands, usage
from bert_tf.export.settings import ExportSettings
from bert_tf.runs.keywords import read_keywords
from bert_tf.runs.settings import PretrainingSettings
from bert_tf.runs.task_flags import task_flags
from bert_tf.tasks.built_in import BUILT_IN_TASKS
from bert_tf.utils.settings import flags_of

# Every old name is a promise. New ones need not be added.
OLD_FLAGS = {
    "rematerialize": "gradient_checkpointing", "keep_best": "metric_for_best_model", "rows_per_part": "rows_per_chunk",
    "overwrite": "restart", "callers": "concurrency", "warm_up_seconds": "warmup_seconds", "eval_by": "eval_metric",
    "features": "feature_layers", "pieces": "tokens", "unused_pieces": "unused_tokens", "output": "output_file",
}  # fmt: skip
ALIASES = [
    (command, alias, flag.name)
    for command in commands.PROGRAMS
    for flag in commands.load_command(command).FLAGS
    for alias in flag.aliases
]
RENAMED = [
    (command, flag.name, *pair)
    for command in commands.PROGRAMS
    for flag in commands.load_command(command).FLAGS
    for pair in flag.renamed_choices
]


def _value(flag):
    """Returns a value that the flag accepts and that is not its default, as Python has it."""
    if flag.kind == "bool":
        return not flag.default
    if flag.kind in ("integer", "float"):
        return (flag.default or flag.low or 0) + 1
    value = next(each for each in (*flag.choices, "value") if each != flag.default)
    return [value] if flag.kind == "list" else value


def _read(command, *words):
    table = [flag for flag in commands.load_command(command).FLAGS]
    values = flags.FlagValues()
    command_runner.define(values, table)
    values(["program", *words])
    return command_runner.read_settings(values, [flag.name for flag in table])


@functools.cache
def _help(command):
    return usage.help_page(commands.load_command(command), command, "bert-tf", with_all=True)


def test_old_names_are_kept():
    assert OLD_FLAGS.items() <= {(alias, name) for _, alias, name in ALIASES}
    assert ("run_pretraining", "start_embeddings", "neighbours", "neighbors") in RENAMED
    assert ("visualize", "views", "masked_words", "logit_lens") in RENAMED


@pytest.mark.parametrize(("command", "alias", "name"), ALIASES)
def test_an_old_flag_sets_the_new_one_and_is_not_shown(command, alias, name):
    module = commands.load_command(command)
    flag = next(flag for flag in module.FLAGS if flag.name == name)
    value = _value(flag)
    word = str(value).lower() if flag.kind == "bool" else ",".join(value) if flag.kind == "list" else value
    settings = _read(command, f"--{alias}={word}")
    assert settings.get(name) == value and settings.given == {name}
    assert f"--{alias} " not in _help(command)


@pytest.mark.parametrize(("command", "name", "old", "new"), RENAMED)
def test_an_old_value_means_the_new_one_and_is_not_shown(command, name, old, new):
    module = commands.load_command(command)
    flag = next(flag for flag in module.FLAGS if flag.name == name)
    assert _read(command, f"--{name}={old}").get(name) == ([new] if flag.kind == "list" else new)
    assert old not in _help(command)


@pytest.mark.parametrize("settings", ["pretrain", "export_model", *(task.name for task in BUILT_IN_TASKS)])
def test_an_old_keyword_is_accepted_with_a_warning(settings):
    task = next((task for task in BUILT_IN_TASKS if task.name == settings), None)
    function = "finetune" if task else settings
    kinds = {"pretrain": PretrainingSettings, "export_model": ExportSettings}
    flags_of_function = task_flags(task.load_task()) if task else flags_of(kinds[settings])
    table = [flag for flag in flags_of_function if not flag.required]
    for flag in table:
        for alias in flag.aliases:
            with pytest.warns(DeprecationWarning, match=f"`{alias}` is now `{flag.name}`") as warned:
                read = read_keywords(function, table, {alias: _value(flag)})
            assert read.get(flag.name) == _value(flag) and warned[0].filename == __file__
        for old, new in flag.renamed_choices:
            with pytest.warns(DeprecationWarning, match=f"`{flag.name}={old}` is now `{flag.name}={new}`"):
                assert read_keywords(function, table, {flag.name: old}).get(flag.name) == new


@pytest.mark.parametrize("command", commands.COMMANDS.values(), ids=commands.PROGRAMS)
def test_an_old_name_of_a_command_is_not_shown(command):
    words = set(f"{commands.full_list()} {commands.short_list()}".split())
    for name in (command.name, *command.others):
        assert commands.find([name]).name == command.name
        assert name.replace("_", "-") == command.alias or "_" not in name or name not in words
