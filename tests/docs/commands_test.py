"""The commands that the pages show: programs, flags and values that there are."""

import importlib
import re
import shlex
from typing import NamedTuple

import pytest

from bert_tf.programs import main
from tests.conftest import ROOT
from tests.docs import markdown

PAGES = {str(page.relative_to(ROOT)): page for page in markdown.pages()}
_BEHIND = {"run_glue": "run_classifier"}  # program -> the one whose flags stand behind --; tune names it itself
_COMMAND = re.compile(r"(?:\$ |until )?(?:(?:\.venv/bin/)?bert-tf|\S*python -m bert_tf) ([a-z_]+)(?= |$)(.*)")
_END = re.compile(r"[|;&>#]+")  # of a command, in the shell


class Command(NamedTuple):
    """A command of a page: the program, and its words."""

    program: str
    words: list[str]


def commands(text: str) -> list[Command]:
    """Returns the commands in a page's blocks of code, those set in included, and between its backticks."""
    blocks = re.findall(r"^```(?:bash|sh|console)?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    indented = [line[4:] for line in markdown.prose(text) if line.startswith("    ")]
    lines = "\n".join([*blocks, *indented]).replace("\\\n", " ").splitlines()
    spans = re.findall(r"`([^`]+)`", "\n".join(markdown.prose(text)))
    return [each for line in [*lines, *spans] for each in _in_line(" ".join(line.split()))]


def _in_line(line):
    if found := _COMMAND.match(line):
        try:
            words = shlex.split(found[2])
        except ValueError:  # a quotation mark of the text around
            words = found[2].split()
        ends = [number for number, word in enumerate(words) if _END.fullmatch(word)]
        yield Command(found[1], words[: min(ends, default=None)])


def faults(command: Command) -> list[str]:
    """Returns what a command names that is not there."""
    program, words = command
    if program not in main.PROGRAMS:
        return [f"there is no program {program}"]
    found, flags = [], _flags(program)
    for word in words:
        if word == "--":
            flags = _flags(words[0] if program == "tune" else _BEHIND[program])
        elif re.match(r"--\w", word):
            found += _faults_of_flag(flags, *word[2:].partition("=")[::2], "=" in word)
    return found


def _flags(program):
    return {flag.name: flag for flag in importlib.import_module(f"bert_tf.programs.{program}").FLAGS}


def _faults_of_flag(flags, name, value, has_value):
    flag = flags.get(name) or flags.get(name.removeprefix("no"))
    if name == "help":
        return []
    if flag is None:
        return [f"there is no flag --{name}"]
    values = value.split(",") if flag.kind == "list" else [value]
    if has_value and flag.choices and not set(values) <= {*flag.choices, "..."}:
        return [f"--{name} cannot be {value}"]
    if has_value and flag.kind in ("integer", "float") and not re.fullmatch(r"-?[\d.]+(e-?\d+)?|[A-Z]+|\.\.\.", value):
        return [] if value in flag.words else [f"--{name} cannot be {value}"]
    return []


@pytest.mark.parametrize("name", PAGES)
def test_commands_name_what_is_there(name):
    found = commands(PAGES[name].read_text(encoding="utf-8"))
    assert [(each.program, fault) for each in found for fault in faults(each)] == []


def test_there_are_commands_of_nearly_every_program():
    shown = {each.program for page in PAGES.values() for each in commands(page.read_text(encoding="utf-8"))}
    assert set(main.PROGRAMS) <= shown


def test_targets_of_make_are_there():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for name, page in PAGES.items():
        used = set(re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE))
        assert used <= targets, name


def test_commands_are_found_and_held_against_the_flags():
    text = """`bert-tf embed --normalize` and `bert-tf NAME --help`; `python -m bert_tf serve`.

```
$ .venv/bin/bert-tf tune run_classifier --trials=8 \\
    --tuning_metric=x -- --seed=3 --sed=4 | tee log
```

    bert-tf run_glue --seeds=1,2 -- --precision=mixed_bfloat61 --train_batch_size=many   # no more
    bert-tf sing
"""
    found = commands(text)
    assert [each.program for each in found] == ["tune", "run_glue", "sing", "embed", "serve"]
    assert found[0].words[-1] == "--sed=4" and found[1].words[-1] == "--train_batch_size=many"
    wrong = [fault for each in found for fault in faults(each)]
    assert wrong == ["there is no flag --sed", "--precision cannot be mixed_bfloat61",
                     "--train_batch_size cannot be many", "there is no program sing"]  # fmt: skip
