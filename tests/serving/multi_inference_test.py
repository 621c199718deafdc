"""MultiInference: several signatures on one Input, and what is refused."""

import grpc
import pytest
import tensorflow as tf
from tensorflow_serving.apis import inference_pb2, prediction_log_pb2, prediction_service_pb2_grpc

from bert_tf.serving.errors import ServingError
from bert_tf.serving.server.batching_limits import BatchingLimits
from bert_tf.serving.server.multi_inference import multi_inference
from bert_tf.serving.server.signatures import CLASSIFY, REGRESS
from bert_tf.serving.server.versions import ServedModel
from tests.serving.models import example, serve_quickly


def write(folder):
    """Writes a SavedModel with "kind" (Classify), "score" (Regress) on one input and "other" on another."""
    graph = tf.Graph()
    with graph.as_default(), tf.compat.v1.Session() as session:
        read = tf.compat.v1.placeholder(tf.string, [None], "examples")
        other = tf.compat.v1.placeholder(tf.string, [None], "more")
        size = tf.cast(tf.strings.length(read), tf.float32)
        build = tf.compat.v1.saved_model.signature_def_utils
        info = tf.compat.v1.saved_model.utils.build_tensor_info
        rows = tf.stack([size, -size], 1)
        signatures = {
            "kind": build.build_signature_def({"inputs": info(read)}, {"scores": info(rows)}, CLASSIFY),
            "score": build.build_signature_def({"inputs": info(read)}, {"outputs": info(size)}, REGRESS),
            "other": build.build_signature_def(
                {"inputs": info(other)}, {"outputs": info(0.5 + tf.cast(tf.strings.length(other), tf.float32))}, REGRESS
            ),
        }
        builder = tf.compat.v1.saved_model.builder.SavedModelBuilder(str(folder))
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.save()
    return folder


def request(*tasks, texts=("fine", "longer")):
    """Returns a request of tasks (signature, method) or (signature, method, model)."""
    found = inference_pb2.MultiInferenceRequest()
    for signature, method, *model in tasks:
        task = found.tasks.add(method_name=method)
        task.model_spec.name, task.model_spec.signature_name = (model or ["sizes"])[0], signature
    found.input.example_list.examples.extend(example(text) for text in texts)
    return found


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sizes")
    write(folder / "1")
    file = folder / "1" / "assets.extra" / "tf_serving_warmup_requests"
    file.parent.mkdir()
    log = prediction_log_pb2.PredictionLog()
    log.multi_inference_log.request.CopyFrom(request(("kind", CLASSIFY), ("score", REGRESS)))
    with tf.io.TFRecordWriter(str(file)) as writer:
        writer.write(log.SerializeToString())
    return folder


@pytest.fixture(scope="module")
def version(base):
    model = ServedModel("sizes", str(base))
    model.poll()
    with model.lease() as found:
        yield found
    model.close()


def test_all_tasks_are_answered_from_one_run(version, monkeypatch):
    runs = []
    run = version.model.run
    monkeypatch.setattr(version.model, "run", lambda feeds, fetches: (runs.append(fetches), run(feeds, fetches))[1])
    answer = multi_inference(version, request(("kind", CLASSIFY), ("score", REGRESS)))
    sizes = [example(text).ByteSize() for text in ("fine", "longer")]
    kind, score = answer.results
    assert [[item.score for item in row.classes] for row in kind.classification_result.classifications] == [
        [size, -size] for size in sizes
    ]
    assert [row.value for row in score.regression_result.regressions] == sizes
    assert [(each.model_spec.name, each.model_spec.version.value) for each in answer.results] == [("sizes", 1)] * 2
    assert [each.model_spec.signature_name for each in answer.results] == ["kind", "score"]
    assert len(runs) == 1


def test_each_input_tensor_is_fed_the_same_examples(version):
    answer = multi_inference(version, request(("other", REGRESS), ("kind", CLASSIFY)))
    sizes = [example(text).ByteSize() for text in ("fine", "longer")]
    other, kind = answer.results
    assert [row.value for row in other.regression_result.regressions] == [size + 0.5 for size in sizes]
    assert [row.classes[1].score for row in kind.classification_result.classifications] == [-size for size in sizes]
    assert [each.model_spec.signature_name for each in answer.results] == ["other", "kind"]


def test_a_model_of_saved_model_save_answers_all_its_signatures_in_batches_too(film_path):
    tasks = ("regress", REGRESS, "film"), ("classify", CLASSIFY, "film")
    with (
        serve_quickly(film_path, batching=BatchingLimits()) as server,
        grpc.insecure_channel(f"localhost:{server.port}") as channel,
    ):
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        answer = stub.MultiInference(request(*tasks, texts=("fine", "x")))
        with pytest.raises(grpc.RpcError) as caught:
            stub.MultiInference(request(*tasks, ("classify", REGRESS, "film")))
    values, classes = answer.results
    assert [row.value for row in values.regression_result.regressions] == [0.75, 0.25]
    rows = classes.classification_result.classifications
    found = [[(each.label, each.score) for each in row.classes] for row in rows]
    assert found == [[("bad", 0.25), ("good", 0.75)], [("bad", 0.75), ("good", 0.25)]]
    assert [each.model_spec.version.value for each in answer.results] == [3, 3]
    assert caught.value.details() == "Duplicate evaluation of signature: classify"


REFUSED = {
    "method": (request(("kind", "foo")), "UNIMPLEMENTED", "Unsupported signature method_name: foo"),
    "two models": (
        request(("kind", CLASSIFY), ("score", REGRESS, "else")),
        "INVALID_ARGUMENT",
        "All ModelSpecs in a MultiInferenceRequest must access the same model name.",
    ),
    "no model": (request(("kind", CLASSIFY, "")), "INVALID_ARGUMENT", "Found ModelSpec with an empty model name."),
    "no model in the second": (
        request(("kind", CLASSIFY), ("score", REGRESS, "")),
        "INVALID_ARGUMENT",
        "Found ModelSpec with an empty model name.",
    ),
    "twice": (
        request(("kind", CLASSIFY), ("kind", CLASSIFY)), "INVALID_ARGUMENT", "Duplicate evaluation of signature: kind"
    ),
    "unknown": (request(("no", CLASSIFY)), "INVALID_ARGUMENT", "Requested signature not found in model graph: no"),
    "not of that kind": (request(("score", CLASSIFY)), "INVALID_ARGUMENT", "Expected classification signature outputs"),
    "no examples": (request(("kind", CLASSIFY), texts=()), "INVALID_ARGUMENT", "Input is empty."),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_tasks_are_refused_in_tensorflow_serving_s_words(version, case):
    asked, code, message = REFUSED[case]
    with pytest.raises(ServingError) as caught:
        multi_inference(version, asked)
    assert caught.value.code.name == code and caught.value.message.startswith(message)
