"""An unknown name of a setting leads to the one that is meant."""

import pytest

from bert_tf.utils.flag_synonyms import suggest

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
        ("lr", ("export_dir",), None),
    ],
)
def test_the_setting_that_is_meant(name, known, expected):
    assert suggest(name, known) == expected
