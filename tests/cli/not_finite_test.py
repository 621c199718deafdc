"""Weights that are NaN, and a training that diverges: said with the cause, and nothing is exported or answered."""

import os

import numpy as np
import pytest

import bert_tf
from bert_tf.checkpoints import tf1
from bert_tf.export.conversion.convert import convert_model
from tests import scripts, tiny

NAME = "bert/encoder/layer_0/output/dense/kernel"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("not_finite")
    tiny.checkpoint(folder / "init", dropout=0.0)
    tiny.checkpoint(folder / "nan")
    prefix = os.fspath(folder / "nan" / "bert_model.ckpt")
    tensors = tf1.read_tensors(prefix)
    tensors[NAME][3, 5] = np.nan
    tf1.write_arrays(prefix, tensors)
    tiny.write_tsv(folder / "train.tsv", tiny.texts(64))
    tiny.write_tsv(folder / "ask.tsv", [(text,) for text, _ in tiny.texts(4)], "text")
    return folder


def _command(home, init, *more):
    return [f"--train_file={home}/train.tsv", f"--eval_file={home}/train.tsv", f"--predict_file={home}/ask.tsv",
            f"--init_checkpoint={home}/{init}", f"--output_dir={home}/out_{init}", "--do_train", "--do_eval",
            "--do_predict", "--do_export", "--train_batch_size=8", "--num_train_epochs=5", "--warmup_proportion=0",
            "--max_seq_length=16", "--save_checkpoints_steps=1000", *more]  # fmt: skip


@pytest.mark.slow
def test_fine_tuning(home):
    bad, wild = scripts.run_programs("run_classifier", [
        _command(home, "nan"), _command(home, "init", "--learning_rate=1e30"),
    ])  # fmt: skip
    assert bad["status"] == 1
    assert f"are not finite: nan in {NAME} at [3, 5] (affected values: 1 of 2,048)." in bad["log"]
    assert not (home / "out_nan").exists()
    assert wild["status"] == 1, wild["log"]
    assert "Training diverged: a loss of nan in step 2 of 40, with a " \
           "learning rate of 9.75e+29 and precision float32; lower --learning_rate, " in wild["log"]  # fmt: skip
    assert "train longer" not in wild["log"]
    left = {name for name in os.listdir(home / "out_init")}
    assert not [name for name in left if name.startswith("model.ckpt")]
    assert not left & {"export", "eval_results.txt", "predictions.jsonl", "eval_predictions.tsv", "test_results.tsv"}


def test_loading_and_conversion(home, tmp_path):
    for load in (bert_tf.load, lambda path: convert_model(path, tmp_path / "hf", "hugging_face")):
        with pytest.raises(ValueError, match=f"nan/bert_model.ckpt are not finite: nan in {NAME} at"):
            load(home / "nan")
    assert not (tmp_path / "hf").exists()
