"""The served model for questions: windows in the graph, answers in the context's own characters."""

import os

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.export.trained_model import load_trained_model
from bert_tf.serving.server.server import serve
from bert_tf.utils.names import TOKEN_COUNTS
from tests import tiny
from tests.export import models

CONTEXTS = [
    " ".join(tiny.FILL * 250) + " 😀 good",
    "😀 good 👩‍👩‍👧 film 🎬 people music the 😀",
    "the fi\u0301lm is go\u0308od\u0301 mu\u0323\u0301sic",
    "我good喜欢这部film电影。the people",
    "",
]
QUESTIONS = ["who is it", "who", "谁 😀", "people " * 50, "who"]


@pytest.fixture(scope="module")
def signatures(trained):
    return load_trained_model(str(trained("questions"))).served().signatures()


def _ask(signatures, questions, contexts):
    answer = signatures["serving_default"](
        question=tf.constant(questions, tf.string), context=tf.constant(contexts, tf.string)
    )
    return {name: value.numpy() for name, value in answer.items() if name != TOKEN_COUNTS}


def test_signatures_take_questions_and_contexts(signatures):
    assert set(signatures) == {"serving_default", "ids"}
    types = {name: (spec.dtype.name, spec.shape.rank) for name, spec in
             signatures["serving_default"].structured_outputs.items()}  # fmt: skip
    numbers = {name: ("float32", 1) for name in ("score", "null_score")}
    spans = {"answer": ("string", 1), "start": ("int32", 1), "end": ("int32", 1)}
    assert types == numbers | spans | {TOKEN_COUNTS: ("int64", 1)}  # of which the last is hidden in an export


def test_answers_are_the_contexts_own_characters(signatures):
    together = _ask(signatures, QUESTIONS, CONTEXTS)
    for i, (question, context) in enumerate(zip(QUESTIONS, CONTEXTS, strict=True)):
        text = together["answer"][i].decode()
        assert context[together["start"][i] : together["end"][i]] == text and bool(text) == bool(context)
        alone = _ask(signatures, [question], [context])
        assert alone["answer"][0] == together["answer"][i]
        np.testing.assert_allclose(alone["null_score"], together["null_score"][i : i + 1], atol=1e-4)
    assert {name: value.shape for name, value in _ask(signatures, [], []).items()} == dict.fromkeys(together, (0,))


def test_ids_give_the_logits(trained, signatures):
    _, model, _ = models.load_trained(trained("questions"))
    ids = np.array([[2, 5, 3, 6, 7, 3], [2, 5, 3, 8, 3, 0]], np.int32)
    features = {
        "input_ids": ids,
        "input_mask": (ids > 0).astype(np.int32),
        "segment_ids": np.int32([[0, 0, 0, 1, 1, 1]] * 2),
    }
    served = signatures["ids"](**{name: tf.constant(values) for name, values in features.items()})
    for name, logits in model(features).items():
        np.testing.assert_allclose(served[name], logits, atol=1e-4)


@pytest.mark.slow
def test_a_server_warms_up_and_answers(exported):
    import grpc
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    folder = os.path.dirname(exported("questions"))
    with serve(folder, "squad") as server, grpc.insecure_channel(f"localhost:{server.port}") as channel:
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "squad"
        for name, texts in (("question", QUESTIONS), ("context", CONTEXTS)):
            request.inputs[name].CopyFrom(tf.make_tensor_proto(texts))
        outputs = prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(request, timeout=60).outputs
    answers = [text.decode() for text in tf.make_ndarray(outputs["answer"])]
    starts, ends = tf.make_ndarray(outputs["start"]), tf.make_ndarray(outputs["end"])
    assert answers == [context[a:b] for context, a, b in zip(CONTEXTS, starts, ends, strict=True)]
