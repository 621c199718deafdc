"""bert_tf.lite answers without TensorFlow what bert_tf.Predictor answers."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import bert_tf
from bert_tf import lite
from bert_tf.export.export_options import ExportOptions
from tests.conftest import ROOT

LITERT = ExportOptions(export_for="litert")
PREDICT = """
import json, sys
from bert_tf import lite
print(json.dumps(lite.Predictor(sys.argv[1])(json.loads(sys.argv[2]))))
assert not {"tensorflow", "keras", "tokenizers"} & set(sys.modules), sorted(sys.modules)
"""
EXAMPLES = {
    "classification": ["a good film", "the story, warm and bad."],
    "tagging": ["Anna's film-story is bad !", ""],
    "questions": [{"question": "good film", "context": "the story of the film, warm and bad."}],
    "choices": [{"context": "the film", "choices": ["good", "bad", "warm story"]}],
    "reranking": [{"query": "film", "documents": ["good", "bad film"]}, {"query": "a", "documents": ["b"]}],
    "embedding": ["a good film", "bad"],
}

FAST = ("classification",)


def numbers(value):
    """Returns all numbers in a prediction, and the prediction with 0 in their place."""
    if isinstance(value, dict):
        found = {key: numbers(each) for key, each in value.items()}
        return sum((each for each, _ in found.values()), []), {key: each for key, (_, each) in found.items()}
    if isinstance(value, list):
        found = list(map(numbers, value))
        return sum((each for each, _ in found), []), [each for _, each in found]
    return ([value], 0) if isinstance(value, float) else ([], value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in EXAMPLES]
)
def test_every_task_is_answered_without_tensorflow(exported, name):
    path = os.path.dirname(exported(name, LITERT))
    command = [sys.executable, "-c", PREDICT, path, json.dumps(EXAMPLES[name])]
    pytest.importorskip("ai_edge_litert", reason="the package ai-edge-litert is LiteRT without TensorFlow")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    found, wanted = json.loads(done.stdout), bert_tf.Predictor(exported(name))(EXAMPLES[name])
    (ours, form), (theirs, wanted_form) = numbers(found), numbers(wanted)
    assert form == wanted_form
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_one_example_and_none(exported):
    predict = lite.Predictor(exported("classification", LITERT))
    assert predict("a good film") == predict(["a good film"])[0] and predict([]) == []
    assert predict("a \ud800good film") == predict("a good film")


@pytest.mark.slow
def test_a_pair_is_a_tuple_or_has_names(exported):
    of_pairs = lite.Predictor(exported("regression", LITERT), threads=1)
    assert of_pairs(("a film", "b")) == of_pairs({"text_a": "a film", "text_b": "b"}) == of_pairs([("a film", "b")])[0]


@pytest.mark.parametrize("example", [3, ["a", "b", 3], {"text": "a", "more": "b"}, {"text": ["a"]}, [["a", "b"]]])
def test_what_is_no_example_is_refused(exported, example):
    predict = lite.Predictor(exported("classification", LITERT))
    with pytest.raises(ValueError, match="`texts` must be"):
        predict(example)


def test_a_model_must_be_there(exported, tmp_path):
    with pytest.raises(ValueError, match=r"`path` must be a model.tflite, or an export that has one; got "):
        lite.Predictor(tmp_path)
    with pytest.raises(ValueError, match=r"`path` must be a model.tflite"):
        lite.Predictor(exported("classification"))


def test_lines_are_answered_with_lines(exported):
    command = [sys.executable, "-m", "bert_tf.lite", exported("classification", LITERT)]
    done = subprocess.run(command, cwd=ROOT, input="a good film\nbad\n", capture_output=True, text=True, check=True)
    assert [set(json.loads(line)) for line in done.stdout.splitlines()] == [{"label", "probabilities"}] * 2
