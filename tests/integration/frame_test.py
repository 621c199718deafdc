"""A task of another package and a family that this file alone knows: from a file of text to an answer over gRPC.

The task is one class, that of docs/guides/custom_tasks.md, and the family one row and one map of names.
"""

import dataclasses
import json
import logging
import os
import re
import signal
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import save_file

import bert_tf
from bert_tf.checkpoints.loading import load_description
from bert_tf.checkpoints.names.family_mappings import WEIGHT_MAPPINGS
from bert_tf.checkpoints.names.rows import WeightName
from bert_tf.checkpoints.names.weight_mapping import WeightMapping
from bert_tf.evaluation.results import read_results
from bert_tf.models import family_registry
from bert_tf.models.config import EncoderConfig
from bert_tf.models.encoder import Encoder
from bert_tf.models.family_spec import Family, InputTemplate
from bert_tf.serving.client.client import Client
from bert_tf.serving.server.server import serve
from tests import tiny
from tests.run_cases import run_here
from tests.scripts import assert_same_tensors
from tests.tasks import custom_task

ROW = Family(
    weight_mapping="strange",
    template=InputTemplate(("[SEP]", "[CLS]"), ("[SEP]", "[SEP]"), ("[SEP]", "[CLS]", "[SEP]"), second_segment=0),
    keys={"layers": "num_hidden_layers", "width": "hidden_size", "heads": "num_attention_heads"},
    fixed={"first_position": 2, "type_vocab_size": 1, "has_pooler": False},
)
_ROWS = WEIGHT_MAPPINGS["distilbert"].rows
MAP = WeightMapping((
    WeightName("bert/embeddings/token_type_embeddings", "strange.segments"),
    *(dataclasses.replace(row, theirs=f"strange.{row.theirs}") for row in _ROWS),
))  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A checkpoint of the family as its authors would have written it."""
    monkeypatch.setitem(family_registry.FAMILIES, "mine", ROW)
    monkeypatch.setitem(WEIGHT_MAPPINGS, "strange", MAP)
    path = tmp_path / "theirs"
    path.mkdir()
    values = {"model_type": "mine", "layers": 1, "width": 32, "heads": 2, "intermediate_size": 48}
    values |= {"vocab_size": len(tiny.VOCAB), "max_position_embeddings": 26, "initializer_range": 0.1}
    (path / "config.json").write_text(json.dumps(values), encoding="utf-8")
    (path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in tiny.VOCAB), encoding="utf-8")
    keras.utils.set_random_seed(0)
    encoder = Encoder(EncoderConfig.load(path))
    encoder.build()
    weights = {}
    for v in encoder.variables:
        array = v.value.numpy()
        weights[MAP.from_ours(v.path)] = np.ascontiguousarray(array.T if MAP.transposed(v.path) else array)
    save_file(weights, path / "model.safetensors")
    return path


def test_it_is_read_with_its_own_names_and_laid_out_with_its_own_template(folder):
    bert = bert_tf.load(folder)
    assert bert.config.max_length == 24 and bert.tokenizer.template.segments == 1
    inputs = bert.tokenizer(["good film"], ["bad"], 16)
    pieces = [tiny.VOCAB[i] for i in inputs["input_ids"].numpy()[0]]
    assert " ".join(pieces[:10]) == "[SEP] [CLS] good film [SEP] [SEP] bad [SEP] [CLS] [SEP]"
    assert inputs["input_mask"].numpy().sum() == 10 and not inputs["segment_ids"].numpy().any()
    places = bert.encoder.embeddings.position_embeddings[2:18]
    words = tf.gather(bert.encoder.embeddings.word_embeddings, inputs["input_ids"])
    summed = words + places + bert.encoder.embeddings.token_type_embeddings[0]
    embedded = bert.encoder.embeddings(inputs["input_ids"], inputs["segment_ids"])
    np.testing.assert_allclose(embedded, bert.encoder.embeddings.norm(summed), atol=1e-5)
    message = "`max_seq_length` must be at most 24, max_position_embeddings - first_position of the checkpoint; got"
    with pytest.raises(ValueError, match=re.escape(message)):
        load_description([str(folder)]).check_length(25)


def _table(path, n, seed, with_ratings=True):
    """Writes texts of two or three words and how many of them are good ones; returns the texts."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(n):
        words = rng.choice([*tiny.GOOD, *tiny.FILL[:4]], rng.integers(2, 4)).tolist()
        rows.append((" ".join(words), str(sum(word in tiny.GOOD for word in words))))
    header = "text\trating" if with_ratings else "text"
    tiny.write_tsv(path, rows if with_ratings else [row[:1] for row in rows], header)
    return [text for text, _ in rows]


class _EndAt(logging.Handler):
    """Asks this process to end, as a cluster would, when the log reports a step."""

    def __init__(self, step):
        super().__init__()
        self.step = step

    def emit(self, record):
        if record.getMessage().startswith(f"step {self.step}/"):
            os.kill(os.getpid(), signal.SIGTERM)


def _run(out, *flags):
    """Returns the status and the log of the task's command, in this process."""
    ended = run_here("train rating", [f"--output_dir={out}", *flags])
    return ended["status"], ended["log"]


@dataclasses.dataclass(frozen=True)
class _Rating:
    """The prediction of the task, as clients get it."""

    rating: int
    expected_rating: float


@pytest.mark.slow
def test_from_a_file_of_text_to_an_answer_over_grpc(folder, tmp_path, monkeypatch):
    custom_task.install(tmp_path / "site", monkeypatch)
    for name, n, seed in (("train", 96, 0), ("dev", 24, 1), ("test", 24, 3)):
        _table(tmp_path / f"{name}.tsv", n, seed)
    texts = _table(tmp_path / "new.tsv", 9, 2, with_ratings=False)
    monkeypatch.delitem(sys.modules, "bert_tf.cli.check_data", False)  # it knows the packages of a process's start
    looked = [f"--{name}_file={tmp_path}/{name if name != 'eval' else 'dev'}.tsv" for name in ("train", "eval", "test")]
    checked = run_here("check_data", ["--task=rating", *looked, "--", "--highest=3"])
    rows = [f"{tmp_path}/{name}.tsv ({split}): {n} examples"
            for name, split, n in (("train", "train", 96), ("dev", "dev", 24), ("test", "final", 24))]  # fmt: skip
    assert checked["status"] == 0 and all(row in checked["log"] for row in rows), checked["log"]

    train = (f"--train_file={tmp_path}/train.tsv", f"--init_checkpoint={folder}", "--do_train", "--seed=3",
             "--highest=3", "--max_seq_length=12", "--train_batch_size=16", "--num_train_epochs=20",
             "--learning_rate=5e-3", "--save_checkpoints_steps=25")  # fmt: skip
    status, log = _run(tmp_path / "whole", *train)
    assert status == 0, log

    out, logger, end = tmp_path / "out", logging.getLogger("absl"), _EndAt(40)
    logger.addHandler(end)
    try:
        status, log = _run(out, *train)
    finally:
        logger.removeHandler(end)
    assert status == 128 + signal.SIGTERM and not (out / "model.ckpt-120.index").exists(), log
    status, log = _run(out, *train)
    assert status == 0, log
    assert_same_tensors(tmp_path / "whole" / "model.ckpt-120", out / "model.ckpt-120")
    status, log = _run(out, *train, "--highest=4")
    assert status == 1 and "highest" in log

    given = f"--eval_file={tmp_path}/dev.tsv", f"--predict_file={tmp_path}/new.tsv"
    status, log = _run(out, *given, f"--test_file={tmp_path}/test.tsv", "--do_eval", "--do_predict", "--do_export")
    assert status == 0, log
    for suffix in ("", "_test"):
        results = read_results(out, suffix)
        assert results.keys() == {"eval_mean_absolute_error", "eval_loss", "global_step"}
        assert results["eval_mean_absolute_error"] < 0.4
    ratings = [int(line) for line in (out / "ratings.txt").read_text().splitlines()]
    assert json.loads((out / "task.json").read_text()) == {
        **{"task": "rating", "package": "my-tasks", "highest": 3, "text_inputs": ["text"], "max_seq_length": 12}
    }
    with serve(str(out / "export"), "rating") as server, Client(f"localhost:{server.port}", "rating") as client:
        answers = client.ask({"text": texts})
        results = client.ask({"text": texts}, typed=_Rating)
    assert [answer["rating"] for answer in answers] == ratings
    assert results == [_Rating(**answer) for answer in answers]
    assert EncoderConfig.load(out).model_type == "mine"  # our own checkpoint, with google-research/bert's names
