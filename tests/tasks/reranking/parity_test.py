"""CrossEncoders of sentence-transformers: read with their activation and length, and written as they are."""

import json
import os

import numpy as np
import pytest

from bert_tf.checkpoints.loading import load_description
from bert_tf.export.conversion.convert import convert_model
from bert_tf.inference.predictor import Predictor
from bert_tf.tasks.registry import stated_task
from tests import other_envs, parity, tiny

SCRIPT = "torch_cross_encoder.py"
CASES = {  # case -> activation, length
    "bert": ("sigmoid", 20),
    "bert-odd": ("identity", 13),
    "distilbert": ("identity", 20),
    "electra": ("sigmoid", 15),
    "modernbert": ("sigmoid", 40),
    "deberta": ("identity", 40),
}
# No query exceeds half of a sequence: if both texts do, Rust's tokenizers leave the odd token to the longer one.
QUERIES = ["good film", "the Film is dull", "MUSIC ?"]
DOCUMENTS = ["a warm film", "music", "the story of people and music " * 4, "dull", "It is a film , of people ."]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "vocab.txt").write_text("\n".join(tiny.VOCAB) + "\n", encoding="utf-8")
    other_envs.sentence_transformers_python()  # or the test is skipped
    parity.run_torch(SCRIPT, "make", folder, folder / "vocab.txt")
    return folder


def _asked(folder, *directories):
    """Returns the scores that sentence-transformers gives for each query and document, [model, query, document]."""
    pairs = [(query, document) for query in QUERIES for document in DOCUMENTS]
    (folder / "pairs.json").write_text(json.dumps(pairs), encoding="utf-8")
    found = json.loads(parity.run_torch(SCRIPT, "ask", folder / "pairs.json", *directories))
    return np.reshape(found, [len(directories), len(QUERIES), len(DOCUMENTS)])


def _scores(path):
    return np.array([each["scores"] for each in Predictor(path)([(query, DOCUMENTS) for query in QUERIES])])


def test_scores_are_theirs(theirs):
    names = [f"{case}{form}" for case in CASES for form in ("", "-old")]
    for name, expected in zip(names, _asked(theirs, *(theirs / name for name in names)), strict=True):
        trained = stated_task(os.fspath(theirs / name), load_description([os.fspath(theirs / name)]))
        assert (trained.task.activation, trained.max_seq_length) == CASES[name.removesuffix("-old")]
        found = _scores(theirs / name)
        print(name, np.abs(found - expected).max(), np.ptp(expected))
        assert np.ptp(expected) > 0.01
        np.testing.assert_allclose(found, expected, atol=1e-5, err_msg=name)


def test_what_we_write_they_read(theirs, tmp_path):
    paths = []
    for case in CASES:
        for form in ("sentence_transformers", "huggingface"):
            paths.append(tmp_path / f"{case}-{form}")
            convert_model(theirs / case, paths[-1], form)
    expected = _asked(tmp_path, *(theirs / case for case in CASES for _ in range(2)))
    found = _asked(tmp_path, *paths)
    for number, path in enumerate(paths):
        short = path.name.endswith("huggingface")  # a length that this format does not keep
        columns = [number for number, text in enumerate(DOCUMENTS) if len(text) < 12 or not short]
        np.testing.assert_allclose(found[number][:, columns], expected[number][:, columns], atol=1e-6)
        if not short:
            np.testing.assert_allclose(_scores(path), expected[number], atol=1e-5)
