"""Every command line of the documentation is one that our programs take: names, flags, values, what goes with what."""

import ast

import pytest

from bert_tf.cli.commands import PROGRAMS, load_command
from tests.conftest import ROOT
from tests.documentation import checks, commands
from tests.documentation.pages import markdown

PAGES = {commands.name_of(page): page for page in markdown.pages()}


@pytest.mark.parametrize("page", PAGES)
def test_commands_are_such_as_programs_take(page):
    for command in commands.in_blocks(PAGES[page]):
        try:
            checks.check(command)
        except checks.FAULTS as error:
            raise AssertionError(f"{page}: {command.text}\n{error}") from error


@pytest.mark.parametrize("page", PAGES)
def test_what_sentences_name_is_there(page):
    for text in commands.in_sentences(PAGES[page]):
        try:
            checks.check_mention(page, text)
        except checks.FAULTS as error:
            raise AssertionError(f"{page}: `{text}`\n{error}") from error


def test_help_shows_commands_that_are_taken():
    for name in PROGRAMS:
        found = commands.in_text(name, load_command(name).__doc__)
        assert found, name
        for command in found:
            checks.check(command)


def test_measurements_are_started_as_their_files_say():
    for path in sorted((ROOT / "benchmarks").glob("*.py")):
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        for command in commands.in_text(path.name, docstring or ""):
            checks.check_options(path, command.words)


@pytest.mark.parametrize(
    "text",
    [
        "bert-tf run_clasifier --do_train --output_dir=out",
        "bert-tf train clasifier --do_train --output_dir=out",
        "bert-tf embed --model=m --input_file=a.txt --output_file=b.npz --poling=mean",
        "bert-tf convert --from=a --to=b --format=onnx",
        "bert-tf convert --from=a --to=b",
        "bert-tf embed --model=m --input_file=a.txt superfluous",
        "bert-tf train classifier --train_file=train.tsv --output_dir=out",
        "bert-tf train classifier --do_eval --output_dir=out --overwrite_output_dir",
        "bert-tf train classifier --do_train --output_dir=out --learning_rate=-1",
        "bert-tf tune train classifier --search=seed=1,2 --tuning_metric=eval_f1 --output_dir=out -- --do_trian",
        "bert-tf tune train classifier --search=sed=1,2 --tuning_metric=eval_f1 --output_dir=out",
        "bert-tf tune train classifier --search=seed=1,x --tuning_metric=eval_f1 --output_dir=out",
        "bert-tf benchmark glue --glue_dir=glue --output_dir=out -- --precison=float32",
        "python -m bert_tf doctor --jsn",
        "python run_squad.py --do_train",
        "make tests",
        "make test ARG=tests",
        "python benchmarks/speed.py",
        "python benchmarks/serving_load.py export texts.txt --embeder=e",
        "python benchmarks/serving_load.py export",
        "python -m pytest tests/no_test.py",
    ],
)
def test_wrong_commands_are_found(text):
    with pytest.raises(checks.FAULTS):
        checks.check(commands.parse("page", text))


@pytest.mark.parametrize(
    ("text", "program", "arguments"),
    [
        ("bert-tf train classifier --do_train", "run_classifier", ["--do_train"]),
        ("python -m bert_tf data label-errors ...", "find_label_errors", []),
        (".venv/bin/bert-tf fill-mask --model=m 'A [MASK] .'", "fill_mask", ["--model=m", "A [MASK] ."]),
        ("python run_squad.py --do_train", "run_squad", ["--do_train"]),
        ("bert-tf train nothing", "train", ["nothing"]),
        ("bert-tf --all", None, ["--all"]),
        ("make test", None, []),
    ],
)
def test_names_of_two_words_stand_for_a_program(text, program, arguments):
    command = commands.parse("page", text)
    assert (command.program, command.arguments) == (program, arguments)


@pytest.mark.parametrize(
    "text",
    [
        "bert-tf train classifier --do_train --output_dir=out",
        "bert-tf tune train tagger --search=seed=1,2 --tuning_metric=eval_f1 --output_dir=out -- --precision=float32",
        "bert-tf train",
    ],
)
def test_commands_under_other_names_are_taken(text):
    checks.check(commands.parse("page", text))
    checks.check_mention("page", text.partition(" -- ")[0])


@pytest.mark.parametrize("text", ["bert-tf serv", "bert-tf serve --uii", "--do_trian", "--pooling=men", "make tset"])
def test_wrong_mentions_are_found(text):
    with pytest.raises(checks.FAULTS):
        checks.check_mention("page", text)


BLOCKS = {
    "": (
        "bert-tf embed \\\n    --model=m   # the model\nA=1 make test\n",
        ["bert-tf embed --model=m   # the model", "A=1 make test"],
    ),
    "console": ("$ bert-tf doctor\nok  Python\n$ make\n", ["bert-tf doctor", "make"]),
    "sh": ("# first\necho '{\n}' > a.json\nHOST=a\npip install x\n", ["echo '{\n}' > a.json", "pip install x"]),
    "python": ("make = 1\n", []),
}


@pytest.mark.parametrize("language", BLOCKS)
def test_commands_are_found_in_blocks(tmp_path, monkeypatch, language):
    text, expected = BLOCKS[language]
    monkeypatch.setattr(commands, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(f"Words `bert-tf client\nask`.\n\n```{language}\n{text}```\n\n    make lint\n", encoding="utf-8")
    assert [command.text for command in commands.in_blocks(page)] == [*expected, "make lint"]
    assert commands.in_sentences(page) == ["bert-tf client ask"]


def test_what_is_no_command_in_a_block_of_commands_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(commands, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text("```sh\nmake test\nmystery --flag\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError, match=r"page\.md: a block of commands must be nothing else"):
        commands.in_blocks(tmp_path / "page.md")
