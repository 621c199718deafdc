"""An unknown name of a setting leads to the one that is meant."""

import pytest

from bert_tf.cli import commands, main
from bert_tf.utils.flag_synonyms import SYNONYMS, suggest

TRAINING = ("learning_rate", "num_train_epochs", "train_batch_size", "init_checkpoint", "max_seq_length", "eval_file")


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        ("lr", TRAINING, "learning_rate"),
        ("epochs", TRAINING, "num_train_epochs"),
        ("epochs", ("num_train_steps",), "num_train_steps"),
        ("batch_size", (*TRAINING, "eval_batch_size"), "train_batch_size"),
        ("batch_size", ("predict_batch_size",), "predict_batch_size"),
        ("model", TRAINING, "init_checkpoint"),
        ("init_checkpoint", ("model", "export_dir"), "model"),
        ("max_length", TRAINING, "max_seq_length"),
        ("learning_rat", TRAINING, "learning_rate"),
        ("batch-size", TRAINING, "train_batch_size"),
        ("lr", ("export_dir",), None),
    ],
)
def test_the_setting_that_is_meant(name, known, expected):
    assert suggest(name, known) == expected


@pytest.mark.parametrize("name", SYNONYMS)
def test_what_is_suggested_is_a_flag_of_a_command(name):
    flags = {flag.name for command in commands.PROGRAMS for flag in commands.load_command(command).FLAGS}
    assert set(SYNONYMS[name]) <= flags | {"train", "eval"}, "arguments of finetune"
    assert suggest(name, flags - {name}) == SYNONYMS[name][0] or SYNONYMS[name][0] in ("train", "eval")


@pytest.mark.parametrize(
    ("command", "given", "meant"),
    [
        ("train classifier", "lr", "learning_rate"),
        ("train qa", "epochs", "num_train_epochs"),
        ("pretrain run", "epochs", "num_train_steps"),
        ("train tagger", "batch_size", "train_batch_size"),
        ("train tagger", "batch-size", "train_batch_size"),
        ("train embedder", "model", "init_checkpoint"),
        ("run_classifier", "model_name_or_path", "init_checkpoint"),
        ("predict", "init_checkpoint", "model"),
        ("export", "init_checkpoint", "model"),
        ("predict", "per_device_eval_batch_size", "batch_size"),
        ("pretrain data", "seed", "random_seed"),
        ("train classifier", "overwrite", "overwrite_output_dir"),
    ],
)
def test_a_command_line_with_another_name_is_told_ours(command, given, meant, capsys):
    with pytest.raises(SystemExit) as end:
        main.main([*command.split(), f"--{given}=1"])
    shown = capsys.readouterr().err
    assert end.value.code == 1 and shown.startswith(f"Error: Unknown flag --{given}. Did you mean --{meant}? See")
