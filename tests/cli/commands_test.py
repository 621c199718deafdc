"""Names and aliases of the commands, and the lists that `bert-tf` prints."""

import re

import pytest

from bert_tf.cli import commands, main

# Every two-word name is a promise, as the names of the modules are. New ones need not be added.
ALIASES = {
    "train classifier": "run_classifier", "train tagger": "run_tagger", "train qa": "run_squad",
    "train choice": "run_multiple_choice", "train embedder": "run_embedder", "train reranker": "run_reranker",
    "data split": "split",
    "data clean": "clean_data", "data check": "check_data", "data label-errors": "find_label_errors",
    "data mine-negatives": "mine_negatives",
    "benchmark glue": "run_glue",
    "benchmark squad-score": "score_squad", "inspect probe": "probe",
    "inspect features": "extract_features", "fill-mask": "fill_mask", "score-text": "score_text",
    "pretrain quick": "pretrain_small", "pretrain run": "run_pretraining",
    "pretrain data": "create_pretraining_data", "vocab train": "train_vocabulary",
    "vocab extend": "extend_vocabulary", "model edit": "edit_model", "client ask": "ask",
    "client load-test": "load_test", "cross-validate": "cross_validate", "index delete": "delete_texts",
}  # fmt: skip


def printed(capsys, *words):
    main.main(list(words))
    return capsys.readouterr().out.splitlines()


def test_commands_keep_their_aliases():
    aliases = {command.alias: command.name for command in commands.COMMANDS.values()}
    assert ALIASES.items() <= aliases.items()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["train", "classifier", "--do_train"], ("run_classifier", "train classifier", ["--do_train"])),
        (["data", "label_errors"], ("find_label_errors", "data label_errors", [])),
        (["fill-mask", "a", "b"], ("fill_mask", "fill-mask", ["a", "b"])),
        (["run-classifier"], ("run_classifier", "run-classifier", [])),
        (["ask", "train", "classifier"], ("ask", "ask", ["train", "classifier"])),
        (["surgery", "--layers=1"], ("edit_model", "surgery", ["--layers=1"])),
        (["see"], ("visualize", "see", [])),
        (["train"], ("", "train", [])),
        (["train", "nothing"], ("", "train", ["nothing"])),
        ([], ("", "", [])),
    ],
)
def test_a_command_is_found_under_all_its_names(words, found):
    assert commands.find(words) == found
    assert all(commands.find(alias.split()).name == name for alias, name in ALIASES.items())
    assert all(commands.find([name]).name == name for name in commands.PROGRAMS)


@pytest.mark.parametrize(
    "words",
    [[], ["--help"], ["help"], ["help", "help"], ["help", "--help"], ["--help", "-h", "--help"], ["-?"], ["--help=1"]],
)
def test_the_short_list_fits_on_a_screen(capsys, words):
    lines = printed(capsys, *words)
    assert len(lines) <= 26 and max(map(len, lines)) <= 80
    assert [line.split("  ")[0] for line in lines[2:-2] if line[0] != " "] == list(commands.GROUPS)
    named = [each for line in lines[2:-2] for each in re.split(", ", re.split("  +", line)[1])]
    for name in named:
        for word in name.replace("data|run", "data").split("|"):
            assert commands.find(word.split()).name or commands.starting_with(word), word


def test_the_full_list_has_every_command_with_its_summary(capsys):
    lines = printed(capsys, "--all")
    for other in (["--help=all"], ["--help=full"], ["--helpfull"], ["help", "--all"]):
        assert printed(capsys, *other) == lines
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    for each in commands.COMMANDS.values():
        assert f"  {each.alias}" in lines
        assert commands.summary(each.name) in text


@pytest.mark.parametrize("flag", [None, "--help", "-h", "--help=all", "--help=full", "--helpfull", "-?"])
def test_a_group_lists_its_commands(capsys, flag):
    lines = printed(capsys, "train", *filter(None, [flag]))
    assert lines == printed(capsys, "help", "train")
    assert lines[0] == "Usage: bert-tf train COMMAND [--flags]"
    assert [line.split("  ")[1] for line in lines if line.startswith("  train")] == [
        command.alias for command in commands.COMMANDS.values() if command.alias.startswith("train ")
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run_clasifier"], "Error: Unknown command 'run_clasifier'. Did you mean `bert-tf train classifier`? "
         "`bert-tf` lists the commands."),
        (["qa"], "Error: Unknown command 'qa'. Did you mean `bert-tf train qa`? `bert-tf` lists the commands."),
        (["ner"], "Error: Unknown command 'ner'. Did you mean `bert-tf train tagger`? `bert-tf` lists the commands."),
        (["zzz"], "Error: Unknown command 'zzz'. `bert-tf` lists the commands."),
        (["trian", "classifier"], "Error: Unknown command 'trian'. Did you mean `bert-tf train classifier`? `bert-tf` "
         "lists the commands."),
        (["trian", "--do_train"], "Error: Unknown command 'trian'. Did you mean `bert-tf train`? `bert-tf` lists"),
        (["inspct"], "Error: Unknown command 'inspct'. Did you mean `bert-tf inspect`? `bert-tf` lists the commands."),
        (["train", "nothing"], "Error: Unknown command 'train nothing'. The commands of 'train':\n\n  train class"),
        (["train", "classifer"], "Error: Unknown command 'train classifer'. Did you mean `bert-tf train classifier`? "
         "The commands of 'train':\n\n  train class"),
        (["train", "classifer", "--help"], "Error: Unknown command 'train classifer'. Did you mean"),
        (["train", "--model=x"], "Error: Unknown command 'train'. Did you mean `bert-tf train classifier`? The "
         "commands of 'train':\n\n  train class"),
    ],
)  # fmt: skip
def test_an_unknown_command_is_refused_with_the_nearest(words, told):
    with pytest.raises(SystemExit) as end:
        main.main(words)
    assert end.value.code.startswith(told) and end.value.code.count("`bert-tf ") <= 3


@pytest.mark.parametrize("name", commands.OTHER_NAMES)
def test_what_other_tools_call_a_command_leads_to_one_of_ours(name):
    for suggested in commands.OTHER_NAMES[name]:
        program, _, rest = commands.find(suggested.split())
        flags = {flag.name for flag in commands.load_command(program).FLAGS} if program else set()
        assert program or commands.starting_with(suggested), suggested
        assert all(word.removeprefix("--").partition("=")[0] in flags for word in rest), suggested
    with pytest.raises(SystemExit) as end:
        main.main([name, "--help"])
    assert f"Did you mean `bert-tf {commands.OTHER_NAMES[name][0]}`" in end.value.code


@pytest.mark.parametrize("name", commands.PROGRAMS)
def test_a_summary_is_one_short_sentence(name):
    summary = commands.summary(name)
    assert len(summary) <= 72 and re.fullmatch("[A-Z][a-z-]+,? .*[^.]\\.", summary)
    assert max(map(len, commands.load_command(name).__doc__.splitlines())) <= 80
