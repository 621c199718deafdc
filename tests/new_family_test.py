"""A family that this file alone knows goes all the way: a row and a map of names, from its files to an export."""

import dataclasses
import json
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from bert_tf.data.classification import tokenize_examples
from safetensors.numpy import save_file

import bert_tf
from bert_tf import families
from bert_tf.checkpoints.names import NAME_MAPS
from bert_tf.checkpoints.names.table import NameMap, Row
from bert_tf.config import EncoderConfig
from bert_tf.data.tables import Examples
from bert_tf.export.trained import export_trained
from bert_tf.families import Family, Template
from bert_tf.load import load_description, save_description
from bert_tf.modeling.encoder import Encoder
from bert_tf.tasks.classification import ClassificationTask
from bert_tf.tasks.registry import save_task
from bert_tf.training.job import Job
from bert_tf.training.loop import RunConfig
from tests import tiny

ROW = Family(
    name_map="strange",
    template=Template(("[SEP]", "[CLS]"), ("[SEP]", "[SEP]"), ("[SEP]", "[CLS]", "[SEP]"), second_segment=0),
    keys={"layers": "num_hidden_layers", "width": "hidden_size", "heads": "num_attention_heads"},
    fixed={"first_position": 2, "type_vocab_size": 1, "has_pooler": False},
)
_ROWS = NAME_MAPS["distilbert"].rows
MAP = NameMap((
    Row("bert/embeddings/token_type_embeddings", "strange.segments"),
    *(dataclasses.replace(row, theirs=f"strange.{row.theirs}", unless=None) for row in _ROWS),
))  # fmt: skip


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
    message = "--max_seq_length must be at most max_position_embeddings - first_position of the checkpoint, 24."
    with pytest.raises(ValueError, match=re.escape(message)):
        load_description([str(folder)]).check_length(25)


def test_from_its_files_to_an_export(folder, tmp_path):
    model, out = load_description([str(folder)]), str(tmp_path / "out")
    texts, labels = zip(*tiny.texts(32), strict=True)
    n = len(texts)
    pairs = Examples([str(i) for i in range(n)], list(texts), ["a story"] * n, list(labels), "pairs.tsv", [1] * n)
    rows = tokenize_examples(model.tokenizer, pairs, 24, ["0", "1"])
    task = ClassificationTask(model.config, 2)
    run = RunConfig(out, 16, 60, 6, 3e-3, init_checkpoint=str(folder))
    save_description(out, model.config, model.tokenizer, ["0", "1"])
    save_task(out, task, ("text_a", "text_b"), 24)
    job = Job(task, run, 24)
    job.train(rows)
    assert job.scores(rows, 16)["accuracy"] > 0.9
    again = Job(ClassificationTask(load_description([out]).config, 2), run, 24)
    again.restore()
    np.testing.assert_array_equal(again.outputs(rows, 16), job.outputs(rows, 16))
    served = tf.saved_model.load(export_trained(out)).signatures["serving_default"]
    said = served(text_a=tf.constant(texts[:4]), text_b=tf.constant(["a story"] * 4))["probabilities"]
    np.testing.assert_allclose(said, task.answers(job.outputs(rows, 16))[:4], atol=1e-5)
    bert = bert_tf.load(out)  # our own checkpoint, with google-research/bert's names
    assert bert.config == model.config and bert.head.num_labels == 2
