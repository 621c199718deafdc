"""The help of commands: what it shows of flags, how wide it is, and that every flag has its group."""

import re
import types

import pytest

from bert_tf.cli import commands, main, usage
from bert_tf.utils.settings import Flag


def module(name):
    return commands.load_command(name)


def shown(page):
    return re.findall(r"^  --(\w+)", page, re.MULTILINE)


def help_of(capsys, *words):
    with pytest.raises(SystemExit) as end:
        main.main(list(words))
    assert end.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", commands.PROGRAMS)
def test_help_shows_what_is_essential_and_all_of_it_when_asked(name):
    table = [flag for flag in module(name).FLAGS if flag.has_effect]
    few, every = (usage.help_page(module(name), name, f"bert-tf {name}", each) for each in (False, True))
    assert sorted(shown(every)) == sorted(flag.name for flag in table)
    assert set(shown(few)) <= set(shown(every)) and {flag.name for flag in table if flag.required} <= set(shown(few))
    if len(table) > 25:
        assert 12 <= len(shown(few)) <= 26
        assert few.splitlines()[-1] == f"`bert-tf {name} --help=all` lists all {len(table)} flags."
    else:
        assert few == every
    assert max(map(len, every.splitlines())) <= 80
    assert "[no]" not in every and "No effect" not in every and "helpfull" not in every


@pytest.mark.parametrize("name", commands.PROGRAMS)
def test_every_flag_has_a_group(name):
    table = [flag for flag in module(name).FLAGS if flag.has_effect]
    assert all(flag.group in usage.GROUPS[:-1] and flag.help for flag in table)


@pytest.mark.parametrize(
    ("words", "count"),
    [(["run_classifier", "--help"], 30), (["run_classifier", "--do_train", "-h"], 30),
     (["train", "classifier", "--helpshort"], 30), (["help", "run-classifier"], 30),
     (["help", "help", "run_classifier"], 30), (["run_classifier", "--help=True"], 30),
     (["run_classifier", "--help=1"], 30), (["run_classifier", "--help=please"], 30),
     (["run_classifier", "--help=all"], 200), (["run_classifier", "--helpfull"], 200),
     (["run_classifier", "--help=full"], 200), (["run_classifier", "--help", "--help=ALL"], 200)],
)  # fmt: skip
def test_ways_to_ask_for_help(capsys, words, count):
    page = help_of(capsys, *words)
    assert page.startswith(commands.summary("run_classifier"))
    assert len(shown(page)) < 30 if count == 30 else len(shown(page)) > 80


def test_words_after_two_dashes_ask_for_nothing():
    assert usage.asked_for(["a", "--", "--help"]) == "" and usage.asked_for(["--output_dir=help"]) == ""


def test_help_that_is_turned_off_is_not_asked_for():
    assert not usage.asked_for(["--help=false", "--help=False", "--help=0", "--nohelp", "help"])


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        (Flag("do_train", False, "Train.", "bool"), "Train."),
        (Flag("header", True, "Read it.", "bool"), "Read it. (default: true; --noheader turns it off)"),
        (Flag("rate", 1e-6, "Rate.", "float", low=0), "Rate. (a non-negative number; default: 1e-6)"),
        (Flag("kind", None, "Kind.", choices=("a", "b")), "Kind. (one of a, b)"),
        (Flag("file", None, "File.", required=True), "File. (required)"),
        (Flag("columns", ["text"], "Columns.", "list"), "Columns. (a comma-separated list; default: text)"),
        (Flag("a_name_that_is_too_long_by_far", 0, "Seed.", "integer"), "Seed. (default: 0)"),
        (Flag("folder", "", "Folder.", words=()), "Folder."),
    ],
)
def test_a_flag_is_shown_in_plain_form(flag, text):
    made = types.SimpleNamespace(__doc__="Does it.", FLAGS=(flag, Flag("old", 1, "No effect.")))
    page = usage.help_page(made, "made", "bert-tf made", False)
    assert " ".join(page.split()) == f"Does it. {usage.group_of(flag)} --{flag.name} {text}"


@pytest.mark.parametrize(
    ("requires", "excludes", "text"),
    [
        ((), (), ""),
        (("a",), (), "Requires --a."),
        (("a=1", "b"), ("c",), "Requires --a=1 and --b. Cannot be combined with --c."),
        ((), ("a", "b", "c=1"), "Cannot be combined with --a, --b or --c=1."),
        (("other",), ("other=1", "b"), "Cannot be combined with --b."),  # the command has no such flag
    ],
)
def test_help_says_what_a_flag_requires_and_excludes(requires, excludes, text):
    flag = Flag("size", 1, "Size.", "integer", requires=requires, excludes=excludes)
    assert usage.describe_combinations(flag, "abc") == text
    made = types.SimpleNamespace(__doc__="Does it.", FLAGS=(flag, *(Flag(name, None, "Text.") for name in "abc")))
    page = " ".join(usage.help_page(made, "made", "bert-tf made", True).split())
    assert f"--size {' '.join(['Size.', text]).strip()} (default: 1)" in page
