"""Ranges that examples set: of every task, by what its examples hold, and by nothing else."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data.features import keras_inputs
from bert_tf.export import calibration
from bert_tf.export.export_options import ExportOptions
from bert_tf.export.trained_model import export_trained
from bert_tf.models.encoder import Encoder
from tests import tiny
from tests.export import models
from tests.export.models import LENGTH, TASKS
from tests.processor import needs_int8

# What an example of each task is in a line.
LINES = {
    "windows": ["good film good film is it good film good film", "bad film"],
    "regression": ["good film\tis it", "bad\tis film bad"],
    "questions": ["is it good\tgood film is it bad film good film is it bad film", "film\tbad film"],
    "tagging": ["good film", "bad film is it good"],
    "choices": ["good film\tis\tit", "bad film\tgood\tbad\tis it", "is it\tgood film\tbad film"],
    "embedding": ["good film", "bad film is it"],
}


def _file(folder, lines):
    (folder / "texts.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(folder / "texts.txt")


def _answer(path, name, lines):
    serve = tf.saved_model.load(path).signatures["serving_default"]
    texts, inputs = [line.split("\t") for line in lines], TASKS[name][1]
    if name == "choices":
        asked = {"context": texts[0][:1], "choices": [texts[0][1:]]}
    else:
        asked = dict(zip(inputs, zip(*texts, strict=True), strict=True))
    answer = serve(**{name: tf.constant(values) for name, values in asked.items()})
    return {name: values.numpy() for name, values in answer.items() if values.dtype == tf.float32}


@needs_int8
@pytest.mark.slow
@pytest.mark.parametrize("name", LINES)
def test_a_file_sets_ranges_for_every_task(trained, exported, tmp_path, name):
    file, folder = _file(tmp_path, LINES[name]), str(trained(name))
    path = export_trained(folder, str(tmp_path / "int8"), ExportOptions("int8", "cpu"), calibration=file)
    assert b"_QuantizedMatMul" in (tmp_path / "int8" / "1" / "saved_model.pb").read_bytes()
    exact = _answer(exported(name), name, LINES[name])
    answers = _answer(path, name, LINES[name])
    assert answers.keys() == exact.keys() and answers
    for output, wanted in exact.items():
        np.testing.assert_allclose(answers[output], wanted, atol=0.05 * max(1, np.abs(wanted).max()))


def test_batches_hold_examples_with_as_many_choices(trained, tmp_path):
    task, _, tokenizer = models.load_trained(trained("choices"))
    inputs = TASKS["choices"][1]
    examples = calibration.read_calibration_texts(_file(tmp_path, LINES["choices"]), task, inputs)
    batches = calibration.batches_of_texts(examples, task, tokenizer, inputs, LENGTH)
    assert [batch["input_ids"].shape[:2] for batch in batches] == [(2, 2), (1, 3)]


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("regression", ["good\tfilm", "", "good film"], r"txt:3: .* input, text_a <TAB> text_b; got 1"),
        ("choices", ["good film"], r"txt:1: .*, context <TAB> choices <TAB> \.\.\.; got 1"),
        ("tagging", ["good\tfilm"], r"txt:1: .* input, text; got 2 texts"),
    ],
)
def test_a_line_must_be_an_example(tmp_path, name, lines, message):
    make, inputs = TASKS[name]
    with pytest.raises(ValueError, match=message):
        calibration.read_calibration_texts(_file(tmp_path, lines), make(tiny.config()), inputs)


def test_no_more_is_read_than_counts(tmp_path):
    task = types.SimpleNamespace(list_inputs=())
    file = _file(tmp_path, ["good"] * calibration.MOST_EXAMPLES + ["good\tfilm"])
    assert calibration.read_calibration_texts(file, task, ("text",)) == [["good"]] * 512


def _model(encoder):
    inputs = keras_inputs(("input_ids", "input_mask"))
    return keras.Model(inputs, encoder(inputs)["pooled_output"])


def test_without_examples_there_are_no_ranges():
    with pytest.raises(ValueError, match="requires calibration examples"):
        calibration.input_ranges(_model(Encoder(tiny.config())), [])


@pytest.mark.slow
@pytest.mark.parametrize(
    "layers", [{}, pytest.param({"num_hidden_layers": 2, "num_hidden_groups": 1}, marks=pytest.mark.slow)]
)
def test_padding_does_not_count(layers):
    keras.utils.set_random_seed(2)
    encoder = Encoder(tiny.config(**layers))
    ids = np.random.default_rng(0).integers(5, len(tiny.VOCAB), (3, LENGTH)).astype(np.int32)
    lengths = np.array([[LENGTH], [5], [9]])
    mask = (np.arange(LENGTH) < lengths).astype(np.int32)

    model = _model(encoder)
    table = encoder.embeddings.variables[0]
    far = np.random.default_rng(1).normal(size=(1, table.shape[1])).astype(np.float32)
    table.assign(tf.tensor_scatter_nd_update(table, [[0]], far * 9))  # padding goes further than any token
    padded = calibration.input_ranges(model, [{"input_ids": ids * mask, "input_mask": mask}])
    alone = [{"input_ids": row[np.newaxis, :n], "input_mask": np.ones((1, n), np.int32)}
             for row, (n,) in zip(ids, lengths, strict=True)]  # fmt: skip
    ranges = calibration.input_ranges(model, alone)
    assert ranges.keys() == padded.keys() and len(ranges) == 4 * encoder.config.num_blocks
    for path, most in ranges.items():
        np.testing.assert_allclose(padded[path], most, atol=1e-4)
