"""Texts asked of a .tflite file get the answers of the SavedModel, for every task, without TensorFlow in between."""

import os

import numpy as np
import pytest

from bert_tf.export.export_options import ExportOptions
from bert_tf.lite.litert_file import MODEL_FILE
from bert_tf.lite.text_model import LitertTextModel
from bert_tf.serving.exports import open_export
from tests.export.models import OTHERS, TASKS

LITERT = ExportOptions(export_for="litert")
NAMES = [name for name in (*TASKS, *OTHERS) if name != "lstm"]
FAST = ("questions",)
LONG = " ".join(["the film is a warm story"] * 6)
TEXTS = ["a good film", "the story, warm and bad.", "", "Anna's film-story is ünknown 电影 !", LONG]
LISTS = [
    ["a good film", "bad", LONG], ["the story", " ", "warm!"], ["", "\t", ""], ["a", "film", "is"], ["x", "y", "z"],
]  # fmt: skip


def columns_of(inputs, list_input):
    """Returns the texts of five examples, different ones for each input."""
    return {
        name: LISTS if name == list_input else TEXTS[k:] + TEXTS[:k] for k, name in enumerate(inputs)
    }


def answers_of_saved_model(path, columns):
    model = open_export(path)
    signature = model.signatures["serving_default"]
    encoded = {name: np.array([[t.encode() for t in each] if isinstance(each, list) else each.encode()
                               for each in texts], object) for name, texts in columns.items()}  # fmt: skip
    before = model.token_counts.total
    outputs = list(signature.outputs)
    found = model.run({signature.inputs[name].tensor: array for name, array in encoded.items()},
                      [signature.outputs[name].tensor for name in outputs])  # fmt: skip
    assert not any(before)
    return dict(zip(outputs, found, strict=True)), model.token_counts.total


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]
)
def test_every_task_answers_texts_as_the_saved_model_does(exported, name):
    model = LitertTextModel(os.path.join(exported(name, LITERT), MODEL_FILE))
    columns = columns_of(model.inputs, model.list_input)
    found, counts = model.answer(model.make_runner(1), columns)
    wanted, counted = answers_of_saved_model(exported(name), columns)
    assert found.keys() == wanted.keys()
    assert counts == counted
    for output, values in wanted.items():
        if values.dtype.kind == "f":
            np.testing.assert_allclose(found[output], values, atol=1e-5, err_msg=output)
        else:
            np.testing.assert_array_equal(found[output], values, err_msg=output)
        assert found[output].dtype == values.dtype, output


@pytest.mark.parametrize(
    "text",
    [
        "a good film " * 9000,
        *(pytest.param(text, marks=pytest.mark.slow)
          for text in ("é" * 70_000, "\u3000 \t" * 30_000 + "bad", "." * 70_000)),
    ],
)  # fmt: skip
def test_a_text_far_longer_than_what_is_read_is_cut_as_in_the_graph(exported, text):
    model, tokenized = LitertTextModel(os.path.join(exported("classification", LITERT), MODEL_FILE)), []
    tokenize = model.tokenizer.tokenize
    model.tokenizer.tokenize = lambda text: tokenized.append(len(text.encode())) or tokenize(text)
    found, counts = model.answer(model.make_runner(1), {"text": [text]})
    wanted, counted = answers_of_saved_model(exported("classification"), {"text": [text]})
    np.testing.assert_allclose(found["probabilities"], wanted["probabilities"], atol=1e-5)
    assert counts == counted and tokenized[0] <= 2**16
