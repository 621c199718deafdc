"""Fill-mask as a SavedModel: text in, the program's answers out."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data.features import ENCODER_INPUTS
from bert_tf.export.export_options import ExportOptions
from bert_tf.inference.fill_mask import Filler
from bert_tf.serving.client.client import Client
from bert_tf.serving.golden_requests import read_goldens
from bert_tf.serving.server.server import serve
from bert_tf.serving.verification import verify
from bert_tf.utils.litert_runner import interpreter_class
from tests.export.models import example

TEXTS = ["the [MASK] is a good [MASK] .", "a story", "", "[MASK]", "[mask] film [SEP] [MASK] it"]


@pytest.fixture(scope="module")
def filler(pretrained):
    return Filler(pretrained, top_k=3)


@pytest.fixture(scope="module")
def exported(filler, tmp_path_factory):
    return filler.export(str(tmp_path_factory.mktemp("export")))


def _expected(filler):
    """{text: (tokens, probabilities)} of the first mask of the texts that have one."""
    answers = filler([text for text in TEXTS if "[MASK]" in text])
    return {a["text"]: (a["token"], a["probability"]) for a in answers if a["mask"] == 0}


@pytest.mark.slow
def test_the_saved_model_gives_the_programs_answers(filler, exported):
    answer = tf.saved_model.load(exported).signatures["serving_default"](text=tf.constant(TEXTS))
    assert answer["token"].shape == answer["probability"].shape == (len(TEXTS), 3)
    expected = _expected(filler)
    for text, tokens, probabilities in zip(TEXTS, answer["token"].numpy(), answer["probability"].numpy(), strict=True):
        best, shares = expected.get(text, (["", "", ""], [0, 0, 0]))
        assert [token.decode() for token in tokens] == best
        np.testing.assert_allclose(probabilities, shares, atol=1e-6)


@pytest.mark.slow
def test_no_texts_ids_and_examples(filler, exported):
    signatures = tf.saved_model.load(exported).signatures
    assert signatures["serving_default"](text=tf.constant([], tf.string))["token"].shape == (0, 3)
    by_text = signatures["serving_default"](text=tf.constant(TEXTS))
    reader = filler.reader
    rows = reader.pad(reader.pack(reader.tokenize(TEXTS), max_seq_length=16))
    np.testing.assert_allclose(signatures["ids"](**rows)["probability"], by_text["probability"], atol=1e-6)
    for place in (-1, rows["input_ids"].shape[1]):
        with pytest.raises(tf.errors.InvalidArgumentError, match="`masked_lm_positions` must be from 0 to the last"):
            signatures["ids"](**rows | {"masked_lm_positions": tf.fill([len(TEXTS), 1], place)})
    classes = signatures["classify"](inputs=tf.constant([example(text=TEXTS[0])]))["classes"]
    assert classes.numpy()[0].tolist() == by_text["token"].numpy()[0].tolist()


@pytest.mark.slow
def test_golden_requests_have_a_blank(exported):
    """A text without a mask would be answered with nothing, whatever the weights."""
    first = read_goldens(exported)[0]
    blank = first.request.inputs["text"].string_val[0]
    assert blank.startswith(b"[MASK] ") and all(first.outputs["token"][0])


@pytest.mark.slow
def test_it_is_verified(exported):
    verdicts = verify(exported)
    assert [(each.signature, each.requests, each.problems) for each in verdicts] == [
        (name, 3, []) for name in ("serving_default", "ids", "classify")
    ]


@pytest.mark.slow
def test_our_server_serves_it(filler, exported):
    base, _, _ = exported.rpartition("/")
    with serve(base, "blanks", poll_seconds=0) as server, Client(f"localhost:{server.port}", "blanks") as client:
        answer = client.predict({"text": TEXTS})
    assert [token.decode() for token in answer["token"][0]] == _expected(filler)[TEXTS[0]][0]
    assert answer["probability"][1].tolist() == [0, 0, 0]


@pytest.mark.slow
def test_litert_fills_in_the_same(filler, exported, tmp_path):
    reader = filler.reader
    rows = reader.pad(reader.pack(reader.tokenize(TEXTS[:1]), max_seq_length=16))
    wanted = tf.saved_model.load(exported).signatures["ids"](**rows)
    file = pathlib.Path(filler.export(str(tmp_path), ExportOptions(export_for="litert")), "model.tflite")
    fill = interpreter_class()(model_content=file.read_bytes()).get_signature_runner("ids_16")
    feeds = {name: np.pad(rows[name], [(0, 0), (0, 16 - rows[name].shape[1])]) for name in ENCODER_INPUTS}
    answers = fill(**feeds, masked_lm_positions=rows["masked_lm_positions"][:, :1].numpy())
    assert answers["token"].tolist() == wanted["token"].numpy().tolist()
    np.testing.assert_allclose(answers["probability"], wanted["probability"], atol=1e-5)
