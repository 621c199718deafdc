"""Whether our programs, the Makefile and the scripts of benchmarks/ take a command line; nothing is run for it."""

import ast
import dataclasses
import functools
import re

from absl import flags as absl_flags

from bert_tf.cli import command_runner
from bert_tf.cli.commands import PROGRAMS, find, load_command, starting_with
from bert_tf.experiments.tuning.search_space import parse_axes
from bert_tf.utils.logged_runs import check_passed_flags
from tests.conftest import ROOT
from tests.documentation import commands

FAULTS = (absl_flags.Error, ValueError, AssertionError)  # what the checks raise
# Flags of others, of every program, and --name=value.
FOREIGN = {"help", "all", "flagfile", "test_filter", "logdir", "name"}
MODEL_GARDEN = {"experiment", "function_keys", "mode", "model_dir", "tpu", "use_v2_feature_names"}
_FLAG = re.compile(r"--([a-z]\w*)(?:=(.*))?")
_MAKE_TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)


@functools.cache
def flags_of(name):
    return load_command(name).FLAGS


def takes_texts(name):
    return getattr(load_command(name), "TAKES_TEXTS", False)


def read(name, words, is_cut=False):
    """Returns the settings and the words that are no flags, as the program reads them.

    Args:
        name: of the program.
        words: its command line.
        is_cut: something is left out of it, so no flag is missed.
    """
    table = [dataclasses.replace(flag, required=flag.required and not is_cut) for flag in flags_of(name)]
    values = absl_flags.FlagValues()
    command_runner.define(values, table)
    values.set_gnu_getopt(takes_texts(name))
    rest = command_runner.parse(values, table, words, takes_texts(name))
    settings = command_runner.read_settings(values, [flag.name for flag in table])
    if not is_cut:
        command_runner.check_actions(settings, table)
    return settings, rest


def check(command):
    """Fails where a command line is not as what it starts takes it; programs of others are not looked at."""
    words = [word for word in command.words[1:] if word not in ("...", "-m", "pytest")]
    if command.program:
        check_program(command)
    elif command.words[0] == "make":
        check_make(words)
    elif commands.is_python(command.words[0]) and re.match(r"(benchmarks|tests)/", next(filter(_is_path, words), "")):
        check_script(words)


def _is_path(word):
    return "/" in word


def check_program(command):
    """Fails where our program would not take the command line."""
    name = command.program
    if starting_with(name) and not command.arguments:
        return  # it lists the commands of a group
    if command.page == "docs/guides/custom_tasks.md" and (name == "train" or "--task=rating" in command.arguments):
        return  # of the task that the page defines: tests/integration/frame_test.py runs it
    assert name in PROGRAMS, f"there is no program {name}"
    settings, rest = read(name, command.arguments, command.is_cut)
    if name == "tune":
        _check_tuned(settings, *rest)
    elif name in ("run_glue", "cross_validate"):
        check_passed_flags(rest, (), name)
        read("run_classifier", rest, is_cut=True)


def _check_tuned(settings, *rest):
    name, _, alike = find(rest)
    check_passed_flags(alike, (), "tune")
    for axis in parse_axes(settings.search, flags_of(name)):
        for value in axis.values or (f"{axis.low:g}", f"{axis.high:g}"):
            read(name, [*alike, f"--{axis.name}={value}", "--output_dir=trial", "--do_train", "--do_eval"])


def check_make(words):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    settings = [word for word in words if "=" in word]
    for word in set(words) - set(settings):
        assert word in _MAKE_TARGET.findall(makefile), f"there is no target {word}"
    for setting in settings:
        assert f"{setting.partition('=')[0]} ?=" in makefile, setting


def check_script(words):
    """Fails where a Python script is not there, or one of benchmarks/ does not know an option."""
    if tests := [word for word in words if word.startswith("tests/")]:
        assert all((ROOT / word.partition("::")[0]).exists() for word in tests), tests
        return
    script, *given = words
    assert (ROOT / script).is_file(), f"there is no {script}"
    positional = check_options(ROOT / script, given)
    if positional is not None:
        assert len([word for word in given if not word.startswith("-")]) == positional, words


def check_options(path, words):
    """Fails where a script does not know an option; returns how many other words it takes, or None."""
    known, positional = _options(path)
    for word in words:
        assert not (found := re.match(r"\[?--(\w+)", word)) or found[1] in known, word
    return positional


def _options(path):
    """Returns the options that a script of benchmarks/ defines, and how many words it takes besides; None: unknown."""
    known, positional, has_loop = set(), 0, False
    modules = [path, *(path.with_name(f"{name}.py") for name in ("fine_tuned", "scripts"))]
    for module in modules:
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
                continue
            name = getattr(node.args[0], "value", None)
            if node.func.attr == "add_argument" and module == path and not str(name).startswith("-"):
                positional, has_loop = positional + 1, has_loop or not isinstance(name, str)
            if isinstance(name, str) and (node.func.attr == "add_argument" or node.func.attr.startswith("DEFINE")):
                known.add(name.removeprefix("--"))
    return known, None if has_loop or not positional else positional


def check_mention(page, text):
    """Fails where a sentence names a program, a flag with its value, a target of make or a script that is not there."""
    command = commands.parse(page, text.replace("=...", "")) if re.match(r"[\w./-]+( |$)", text) else None
    if command and command.program is None and len(command.words) > 1:
        check(command._replace(words=tuple(word for word in command.words if not word.startswith("["))))
    elif command and command.program not in (None, "NAME", "COMMAND") and not starting_with(command.program):
        assert command.program in PROGRAMS, command.program
        known = {flag.name for flag in flags_of(command.program)}
        for word in command.arguments:
            assert not (found := _FLAG.fullmatch(word)) or found[1] in known | FOREIGN, word
    elif text.startswith("--"):
        for word in text.split():
            check_flag(word)


def check_flag(word):
    """Fails where no program has the flag, or none takes the value."""
    found = _FLAG.fullmatch(word)
    if not found or found[1] in FOREIGN | MODEL_GARDEN:
        return
    name, value = found[1], found[2]
    every = [flag for each in PROGRAMS for flag in flags_of(each)]
    named = [flag for flag in every if {flag.name, *flag.aliases} & {name, name.removeprefix("no")}]
    assert named, f"no program has --{name}"
    if value and not re.search(r"[A-Z<]|\.\.\.", value):  # as in DIR or <settings>, which stand for something
        assert any(_takes(flag, value) for flag in named), f"no program takes {word}"


def _takes(flag, value):
    values = absl_flags.FlagValues()
    command_runner.define(values, [dataclasses.replace(flag, required=False)])
    try:
        values(["program", f"--{flag.name}={value}"])
    except absl_flags.Error:
        return False
    return True
