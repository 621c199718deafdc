"""A task and a family that this file alone knows go all the way: from a file of text to an answer over gRPC.

The task is one class, the family one row and one map of names. No other file knows of either.
"""

import dataclasses
import json
import logging
import os
import re
import signal

import keras
import numpy as np
import pytest
import tensorflow as tf
from absl import logging as absl_logging
from safetensors.numpy import save_file

import bert_tf
from bert_tf.checkpoints.loading import load_description
from bert_tf.checkpoints.name_map import NameMap, WeightName
from bert_tf.checkpoints.name_maps import NAME_MAPS
from bert_tf.cli.common_flags import FINE_TUNING
from bert_tf.cli.fine_tuning_run import run_task
from bert_tf.data import tables
from bert_tf.data.features import ENCODER_INPUTS, keras_inputs
from bert_tf.models import families
from bert_tf.models.config import EncoderConfig
from bert_tf.models.encoder import Encoder
from bert_tf.models.families import Family, InputTemplate
from bert_tf.models.heads import ClassificationHead
from bert_tf.serving.client.client import Client
from bert_tf.serving.server.server import serve
from bert_tf.tasks.base import FineTuningTask, TaskData
from bert_tf.tasks.options import RunOptions, flags_of, option
from bert_tf.tasks.sequences import encode_served_texts, pack_sequences
from bert_tf.utils.files import write_text
from bert_tf.utils.settings import Settings
from tests import tiny
from tests.scripts import assert_same_tensors

ROW = Family(
    name_map="strange",
    template=InputTemplate(("[SEP]", "[CLS]"), ("[SEP]", "[SEP]"), ("[SEP]", "[CLS]", "[SEP]"), second_segment=0),
    keys={"layers": "num_hidden_layers", "width": "hidden_size", "heads": "num_attention_heads"},
    fixed={"first_position": 2, "type_vocab_size": 1, "has_pooler": False},
)
_ROWS = NAME_MAPS["distilbert"].rows
MAP = NameMap((
    WeightName("bert/embeddings/token_type_embeddings", "strange.segments"),
    *(dataclasses.replace(row, theirs=f"strange.{row.theirs}") for row in _ROWS),
))  # fmt: skip


@dataclasses.dataclass(frozen=True)
class CountingOptions(RunOptions):
    train_file: str | None = option(None, "Texts and numbers.")
    eval_file: str | None = option(None, "Texts and numbers.")
    predict_file: str | None = option(None, "Texts.")
    most: int = option(3, "The greatest number.", low=1)


class CountingTask(FineTuningTask):
    """How many of a text's words mean something, 0 to `most`."""

    name = "counting"
    options = CountingOptions()
    files = ("numbers.txt",)
    features = ENCODER_INPUTS
    targets = ("label_ids",)
    head = ("classifier/.*",)
    metric_names = ("error",)

    def __init__(self, config, most=3):
        self.config, self.most = config, most

    @classmethod
    def read_data(cls, options, kinds, trained):
        labels = {"train": "count", "dev": "count", "test": None}
        return TaskData({kind: tables.read_table(options.files[kind], label_column=labels[kind]) for kind in kinds})

    @classmethod
    def create(cls, model, data, options, before, use_xla=False):
        return cls(model.config, options.most)

    def to_dict(self):
        return {"most": self.most}

    def build_model(self):
        inputs = keras_inputs(self.features)
        first = Encoder(self.config)(inputs)["sequence_output"][:, 0]
        return keras.Model(inputs, ClassificationHead(self.most + 1, 0.0, 0.1)(first), name="counting")

    def encode_examples(self, tokenizer, examples, max_seq_length, with_targets):
        rows, _ = pack_sequences(tokenizer, [[tokenizer.tokenize(examples.text_a)]], max_seq_length)
        targets = {"label_ids": np.array(examples.labels, np.int32)} if with_targets else {}
        return dataclasses.replace(rows, targets=targets)

    def example_losses(self, outputs, batch):
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label_ids"], outputs)
        return losses, tf.ones_like(losses)

    def metrics(self, outputs, rows):
        return {"error": float(np.abs(outputs.argmax(-1) - rows.targets["label_ids"]).mean())}

    def decode(self, outcome):
        return outcome.outputs.argmax(-1)

    def write_answers(self, directory, outcome, answers):
        write_text(f"{directory}/numbers.txt", "".join(f"{number}\n" for number in answers))

    def read(self, tokenizer, texts, max_seq_length):
        return encode_served_texts(tokenizer, texts, max_seq_length), None

    def answer(self, outputs, origin=None):
        return {"count": tf.argmax(outputs, -1, tf.int32)}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A checkpoint of the family as its authors would have written it."""
    monkeypatch.setitem(families.FAMILIES, "mine", ROW)
    monkeypatch.setitem(NAME_MAPS, "strange", MAP)
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
    message = "`max_seq_length` must be at most 24, max_position_embeddings - first_position of the checkpoint."
    with pytest.raises(ValueError, match=re.escape(message)):
        load_description([str(folder)]).check_length(25)


def _table(path, n, seed, with_counts=True):
    """Writes texts of two or three words and how many of them are good ones; returns the texts."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(n):
        words = rng.choice([*tiny.GOOD, *tiny.FILL[:4]], rng.integers(2, 4)).tolist()
        rows.append((" ".join(words), str(sum(word in tiny.GOOD for word in words))))
    tiny.write_tsv(path, rows if with_counts else [row[:1] for row in rows], "text\tcount" if with_counts else "text")
    return [text for text, _ in rows]


def _run(**given):
    flags = (*FINE_TUNING, *flags_of(CountingOptions))
    run_task(CountingTask, Settings({flag.name: flag.default for flag in flags} | given, given))


class _EndAt(logging.Handler):
    """Asks this process to end, as a cluster would, when the log tells of a step."""

    def __init__(self, step):
        super().__init__()
        self.step = step

    def emit(self, record):
        if record.getMessage().startswith(f"step {self.step}/"):
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.slow
def test_from_a_file_of_text_to_an_answer_over_grpc(folder, tmp_path):
    for name, n, seed in (("train", 96, 0), ("dev", 24, 1)):
        _table(tmp_path / f"{name}.tsv", n, seed)
    texts = _table(tmp_path / "ask.tsv", 9, 2, with_counts=False)
    train = {"train_file": str(tmp_path / "train.tsv"), "init_checkpoint": str(folder), "do_train": True, "seed": 3,
             "max_seq_length": 12, "train_batch_size": 16, "num_train_epochs": 20.0, "learning_rate": 5e-3,
             "save_checkpoints_steps": 25, "deterministic": False}  # fmt: skip
    _run(**train, output_dir=str(tmp_path / "whole"))

    out, logger, end = str(tmp_path / "out"), logging.getLogger("absl"), _EndAt(40)
    before = absl_logging.get_verbosity()
    absl_logging.set_verbosity(absl_logging.INFO)
    logger.addHandler(end)
    try:
        with pytest.raises(SystemExit) as ended:
            _run(**train, output_dir=out)
    finally:
        logger.removeHandler(end)
        absl_logging.set_verbosity(before)
    assert ended.value.code == 128 + signal.SIGTERM and not os.path.exists(f"{out}/model.ckpt-120.index")
    _run(**train, output_dir=out)
    assert_same_tensors(tmp_path / "whole" / "model.ckpt-120", tmp_path / "out" / "model.ckpt-120")

    asked = {"eval_file": str(tmp_path / "dev.tsv"), "predict_file": str(tmp_path / "ask.tsv"), "output_dir": out}
    _run(**asked, do_eval=True, do_predict=True, do_export=True)
    results = dict(line.split(" = ") for line in (tmp_path / "out" / "eval_results.txt").read_text().splitlines())
    assert results.keys() == {"eval_error", "eval_loss", "global_step"} and float(results["eval_error"]) < 0.4
    numbers = [int(line) for line in (tmp_path / "out" / "numbers.txt").read_text().splitlines()]
    described = json.loads((tmp_path / "out" / "task.json").read_text())
    assert described == {"task": "counting", "most": 3, "text_inputs": ["text"], "max_seq_length": 12}
    with serve(f"{out}/export", "counting") as server, Client(f"localhost:{server.port}", "counting") as client:
        assert client.ask({"text": texts}) == [{"count": number} for number in numbers]
    assert EncoderConfig.load(out).model_type == "mine"  # our own checkpoint, with google-research/bert's names
