"""An export that explains itself: in plain TensorFlow, and served over REST and gRPC."""

import json
import pathlib
import urllib.error
import urllib.request

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

import bert_tf
from bert_tf.export.export_options import ExportOptions
from bert_tf.export.trained_model import export_trained
from bert_tf.serving import golden_requests, verification
from bert_tf.serving.client.client import Client
from bert_tf.serving.exports import open_export
from bert_tf.serving.server.server import serve
from tests.export.models import LENGTH, TASKS

pytestmark = pytest.mark.slow  # tests/interpret/exported_test.py has the graphs

TEXTS = ["The films, a story", "bad"]
KINDS = ("attention", "attributions")


@pytest.fixture(scope="module")
def explained(exported):
    """The export of a classifier."""
    return pathlib.Path(exported("classification", ExportOptions(explanations=KINDS)))


@pytest.fixture(scope="module")
def seen(trained):
    """(attributions, attention) of the texts, by `bert_tf.inspect`."""
    bert = bert_tf.load(trained("classification"))
    return bert_tf.inspect.attributions(bert, TEXTS), bert_tf.inspect.attention(bert, TEXTS)


def check(seen, attributions, attention):
    """Compares what the signatures gave, arrays, with what `inspect` says of each text alone."""
    for k, (why, looked) in enumerate(zip(*seen, strict=True)):
        S = len(why)
        np.testing.assert_allclose(attributions["attribution"][k][:S], why.values, atol=1e-5)
        np.testing.assert_allclose(attention["attention"][k, 0, :, :S, :S], looked.weights[-1], atol=1e-5)
        assert not attributions["attribution"][k][S:].any() and not attention["attention"][k, ..., S:].any()
        for answer in (attributions, attention):
            assert list(map(_text, answer["token"][k][:S])) == why.tokens
            spans = zip(answer["start"][k][1 : S - 1], answer["end"][k][1 : S - 1], strict=True)
            assert "".join(TEXTS[k][a:b] for a, b in spans) == TEXTS[k].replace(" ", "")
        assert _text(attributions["target"][k]) == why.target and attributions["steps"][k] == why.steps
        assert attributions["score"][k] == pytest.approx(why.score, abs=1e-5)
        assert attributions["gap"][k] == pytest.approx(why.gap, abs=1e-4) and attributions["gap"][k] <= 0.01


def _text(value):
    return value.decode() if isinstance(value, bytes) else value


@pytest.mark.slow
def test_in_plain_tensorflow(explained, seen):
    signatures = tf.saved_model.load(explained).signatures
    assert list(signatures) == ["serving_default", "ids", "classify", "attention", "attributions"]
    graph = saved_model_pb2.SavedModel.FromString((explained / "saved_model.pb").read_bytes()).meta_graphs[0].graph_def
    assert not any(each.attr["_XlaMustCompile"].b for each in graph.library.function)  # servers would refuse them
    asked = {"text": tf.constant(TEXTS)}
    answers = (signatures["attributions"](**asked, target=tf.constant(["", ""])),
               signatures["attention"](**asked, layers=tf.constant([[-1], [0]])))  # fmt: skip
    check(seen, *({name: values.numpy() for name, values in each.items()} for each in answers))


@pytest.mark.slow
def test_what_it_brings_along(explained):
    model = open_export(str(explained))
    goldens = golden_requests.read_goldens(str(explained))
    assert [each.signature for each in goldens].count("attributions") == 1
    verdicts = verification.judge(goldens, verification.local_answer(model), 1e-4)
    model.close()
    assert {each.signature for each in verdicts} == {"serving_default", "ids", "classify", *KINDS}
    assert not any(each.problems for each in verdicts)


@pytest.fixture(scope="module")
def server(explained):
    with serve(str(explained.parent), "films", poll_seconds=0) as server:
        yield server


@pytest.mark.slow
def test_explanations_over_grpc(server, seen):
    with Client(f"localhost:{server.port}", "films") as client:
        why = client.predict({"text": TEXTS, "target": ["", ""]}, "attributions")
        looked = client.predict({"text": TEXTS, "layers": np.array([[0], [-1]], np.int32)}, "attention")
        check(seen, why, looked)
        other = {"good": "bad", "bad": "good"}[seen[0][0].target]
        named = client.predict({"text": TEXTS, "target": [other, ""]}, "attributions")
        assert [_text(name) for name in named["target"]] == [other, seen[0][1].target]
        np.testing.assert_allclose(named["attribution"][1], why["attribution"][1], atol=1e-6)
        with pytest.raises(ValueError, match="`target` must be a label of this model: bad, good, or empty"):
            client.predict({"text": TEXTS, "target": ["", "ugly"]}, "attributions")
        with pytest.raises(ValueError, match="`layers` must be from 0 to 0, or from -1, the last, to -1"):
            client.predict({"text": TEXTS, "layers": np.array([[0], [1]], np.int32)}, "attention")


def test_what_lies_far_behind_is_not_tokenized(server):
    for spaces, tokens in ((60_000, ["[CLS]", "good", "[SEP]"]), (70_000, ["[CLS]", "[SEP]"])):
        text = [" " * spaces + "good"]
        with Client(f"localhost:{server.port}", "films") as client:
            why = client.predict({"text": text, "target": ["good"]}, "attributions")
            looked = client.predict({"text": text, "layers": np.array([[0]], np.int32)}, "attention")
        assert [*map(_text, why["token"][0])] == [*map(_text, looked["token"][0])] == tokens


def _rest(server, signature, instances):
    url = f"http://localhost:{server.rest_port}/v1/models/films:predict"
    body = json.dumps({"signature_name": signature, "instances": instances}).encode()
    with urllib.request.urlopen(url, body, timeout=60) as response:
        rows = json.load(response)["predictions"]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def test_explanations_over_rest(server, seen):
    why = _rest(server, "attributions", [{"text": text, "target": ""} for text in TEXTS])
    looked = _rest(server, "attention", [{"text": text, "layers": [-1]} for text in TEXTS])
    check(seen, why, looked)
    with pytest.raises(urllib.error.HTTPError, match="400"):
        _rest(server, "attributions", [{"text": "a film", "target": "ugly"}])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["questions", "tagging", "regression"])
def test_taggers_and_readers_explain_themselves(trained, exported, name):
    signatures = tf.saved_model.load(exported(name, ExportOptions(explanations=KINDS))).signatures
    texts = dict(zip(TASKS[name][1], (["is it good", "a"], TEXTS)[-len(TASKS[name][1]) :], strict=True))
    got = signatures["attributions"](**{k: tf.constant(v) for k, v in texts.items()}, target=tf.constant(["", ""]))
    columns = list(zip(*texts.values(), strict=True))
    asked = TEXTS if len(texts) == 1 else columns
    for k, why in enumerate(bert_tf.inspect.attributions(bert_tf.load(trained(name)), asked)):
        assert got["target"][k].numpy().decode() == why.target
        np.testing.assert_allclose(got["attribution"][k, : len(why)], why.values, atol=1e-5)
    assert got["token"].shape[1] <= LENGTH


@pytest.mark.parametrize(
    ("name", "kinds", "dtype", "message"),
    [
        ("embedding", ["attributions"], "float32", "requires a model with a head for labels, tags or answers"),
        ("choices", ["attention"], "float32", "a model that reads an example as one sequence"),
        ("windows", ["attributions"], "float32", "averages over the windows"),
        ("classification", ["attributions"], "bfloat16", "`export_dtype=float32`"),
    ],
)
def test_models_that_cannot_be_explained_are_refused(trained, tmp_path, name, kinds, dtype, message):
    with pytest.raises(ValueError, match=f"`export_explanations.* {message}"):
        export_trained(str(trained(name)), str(tmp_path / "out"), ExportOptions(dtype, explanations=kinds))
    assert not (tmp_path / "out").exists()


def test_constants_cannot_be_explained():
    with pytest.raises(ValueError, match="`export_for=cpu` and `export_dtype=bfloat16` cannot be combined"):
        ExportOptions("bfloat16", "cpu", ("attention",))
