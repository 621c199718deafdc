"""What an export brings along for every task: warm-up for each signature, and golden requests that `verify` replays."""

import os
import pathlib
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from bert_tf.export.sample_requests import write_goldens
from bert_tf.serving import golden_requests, verification
from bert_tf.serving.exports import open_export
from bert_tf.serving.server import warmup
from bert_tf.serving.server.scheduling import Scheduler
from bert_tf.serving.server.server import serve
from bert_tf.serving.server.versions import Version, direct
from tests import run_cases
from tests.export.models import LENGTH, TASKS

OTHERS = [name for name in TASKS if name != "classification"]


@pytest.fixture(scope="module")
def classifier(exported):
    return exported("classification")


def test_answers_that_are_not_numbers_end_the_export(tmp_path):
    """As float16 may give them; a server that repeated them would pass the check."""
    answer = {"labels": tf.constant(["bad"]), "probabilities": tf.constant([[0.5, np.nan]], tf.float16)}
    requests = [("serving_default", {"text": tf.constant(["A film."])})]
    with pytest.raises(ValueError, match="NaN or infinity for 1 of 1 examples.*Export it with `export_dtype=float32`"):
        write_goldens(str(tmp_path), requests, {"serving_default": lambda text: answer})


@pytest.fixture(scope="module")
def loaded(classifier):
    """The classifier as servers have it."""
    model = open_export(classifier)
    yield model
    model.close()


@pytest.fixture
def copy(classifier, tmp_path):
    return pathlib.Path(shutil.copytree(classifier, tmp_path / "export" / "1"))


def _logs(path, name):
    records = tf.data.TFRecordDataset(os.path.join(path, "assets.extra", name))
    return [prediction_log_pb2.PredictionLog.FromString(record.numpy()) for record in records]


def _signatures(log):
    return getattr(log, log.WhichOneof("log_type")).request.model_spec.signature_name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["classification", *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def test_every_signature_of_every_task_is_warmed_up_and_golden(exported, name):
    path = exported(name)
    model = open_export(path)
    names = {name for name in model.signatures if not name.startswith("__")}
    assert {"serving_default", "ids"} <= names
    logs = _logs(path, "tf_serving_warmup_requests")
    assert {each: [_signatures(log) for log in logs].count(each) for each in names} == dict.fromkeys(names, 3)
    scheduler = Scheduler()
    version = Version("default", 1, model, direct(model, scheduler), scheduler)
    assert warmup.replay(version, path) == len(logs)
    verdicts = verification.judge(golden_requests.read_goldens(path), verification.local_answer(model), 1e-4)
    model.close()
    assert {each.signature for each in verdicts} == names
    assert [(each.requests, each.problems) for each in verdicts] == [(3, [])] * len(names)
    assert max(each.largest for each in verdicts) < 1e-5
    for each in golden_requests.read_goldens(path):
        rows = {len(array) for array in each.outputs.values()}
        assert len(rows) == 1 and rows.pop() >= 1  # windows have rows of their own in `ids`


def test_requests_are_short_and_long_one_and_several(classifier):
    sizes = [log.predict_log.request.inputs["input_ids"] for log in _logs(classifier, "tf_serving_warmup_requests")
             if _signatures(log) == "ids"]  # fmt: skip
    shapes = [tuple(dim.size for dim in size.tensor_shape.dim) for size in sizes]
    assert [rows for rows, _ in shapes] == [1, 4, 1] and shapes[0][1] < LENGTH == shapes[2][1]


@pytest.mark.slow
def test_a_server_is_held_to_them(classifier):
    base = os.path.dirname(classifier)
    with serve(base, "films", poll_seconds=0) as server:
        verdicts = verification.verify(base, f"localhost:{server.port}", "films")
        assert [each.signature for each in verdicts] == ["serving_default", "ids", "classify"]
        assert not any(each.problems for each in verdicts) and max(each.largest for each in verdicts) < 1e-5
        with pytest.raises(ValueError, match="localhost.* does not serve a model 'other'"):
            verification.verify(base, f"localhost:{server.port}", "other")


def _other_label(log):
    log.predict_log.response.outputs["label"].CopyFrom(tf.make_tensor_proto(["worse"]))


def _other_score(log):
    log.classify_log.response.result.classifications[0].classes[1].score += 0.01


def _other_signature(log):
    log.predict_log.request.model_spec.signature_name = "gone"


def _fewer_rows(log):
    log.predict_log.response.outputs["probabilities"].CopyFrom(tf.make_tensor_proto(np.zeros((0, 2), np.float32)))


@pytest.mark.parametrize(
    ("index", "change", "signature", "problem"),
    [
        (0, _other_label, "serving_default", r"request 1: label is '\w+' in place of 'worse' in row 0"),
        (2, _other_score, "classify", r"request 1: scores is [\d.]+ in place of [\d.]+ in row 0"),
        (1, _other_signature, "gone", "request 1: refused: the signature does not exist"),
        (3, _fewer_rows, "serving_default", r"request 2: probabilities is float32 \[4, 2\] in place of .* \[0, 2\]"),
    ],
)  # fmt: skip
def test_what_differs_is_said(classifier, loaded, index, change, signature, problem):
    logs = _logs(classifier, "golden_requests")
    change(logs[index])
    verdicts = verification.judge(list(map(golden_requests.golden_of, logs)), verification.local_answer(loaded), 1e-4)
    problems = [(each.signature, each.problems) for each in verdicts if each.problems]
    assert [name for name, _ in problems] == [signature]
    assert re.fullmatch(f"{signature}, {problem}", problems[0][1][0]), problems


def test_numbers_may_differ_by_the_tolerance():
    def compare(a, b):
        return golden_requests.difference({"x": np.float32(a)}, {"x": np.float32(b)}, 0.1)

    assert compare([1.0, 2.0], [1.0, 2.0]) == (0.0, "")
    assert compare([100.0, 0.0], [105.0, 0.05]) == (pytest.approx(0.05), "")  # of a hundred, five are 0.05
    assert compare([0.5, 0.0], [0.5, 0.3]) == (pytest.approx(0.3), "x is 0.3 in place of 0 in row 1")
    assert compare([np.nan, np.inf], [np.nan, np.inf]) == (0.0, "")
    assert compare([1.0], [np.nan])[0] == np.inf and compare([np.inf], [1.0])[0] == np.inf
    assert golden_requests.difference({"x": np.ones(1)}, {"y": np.ones(1)}, 1)[1] == "the outputs are y in place of x"
    found = golden_requests.difference({"x": np.int32([3])}, {"x": np.int32([4])}, 9)
    assert found == (np.inf, "x is 4 in place of 3 in row 0")


def test_a_label_may_be_predicted_or_not_where_its_probability_moved_that_way():
    expected = {"probabilities": np.float32([[0.4999, 0.7]]), "predicted": np.array([[False, True]])}

    def problem(probabilities, predicted):
        got = {"probabilities": np.float32([probabilities]), "predicted": np.array([predicted])}
        return golden_requests.difference(expected, got, 0.001)[1]

    assert problem([0.5001, 0.7], [True, True]) == "" == problem([0.4999, 0.6995], [False, False])
    assert problem([0.4998, 0.7], [True, True]) == problem([0.4999, 0.7], [True, True]) != ""
    assert problem([0.4999, 0.7005], [False, False]) == "predicted is False in place of True in row 0"
    assert problem([0.6, 0.7], [True, True]).startswith("probabilities is 0.6 ")


def _verify(words):
    return run_cases.run_here("verify", words)


@pytest.mark.slow
def test_the_program_says_yes(classifier):
    done = _verify([os.path.dirname(classifier)])
    assert done["status"] == 0, done["log"]
    lines = [line.split() for line in done["log"].splitlines()]
    start = lines.index(["signature", "requests", "largest", "difference"])
    assert [line[:2] for line in lines[start + 1 :]] == [["serving_default", "3"], ["ids", "3"], ["classify", "3"]]


def _flip(path):
    """Changes a bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _cut(path):
    os.truncate(path, path.stat().st_size - 10)


@pytest.mark.parametrize(
    ("damage", "file", "message"),
    [
        (pathlib.Path.unlink, "assets.extra/golden_requests", r"has no golden requests \(assets.extra/golden_r"),
        (_cut, "assets.extra/golden_requests", "does not contain TFRecords of PredictionLog with responses:"),
        (_flip, "variables/variables.data-00000-of-00001", "is not a complete SavedModel:"),
        (_cut, "variables/variables.data-00000-of-00001", "is not a complete SavedModel:"),
        (pathlib.Path.unlink, "variables/variables.index", "has no readable weights:"),
        (_cut, "saved_model.pb", "is not a complete SavedModel:"),
        (pathlib.Path.unlink, "assets/vocab.txt", "is not a complete SavedModel:"),
        (pathlib.Path.unlink, "saved_model.pb", "must be a directory with saved_model.pb, or with numbered"),
    ],
)  # fmt: skip
def test_the_program_says_what_is_damaged(copy, damage, file, message):
    damage(copy / file)
    done = _verify([str(copy.parent)])
    assert done["status"] == 1 and re.search(message, done["log"]) and "Traceback" not in done["log"], done["log"]


def test_the_program_says_no(copy):
    """The weights of another model, whole, and not the ones that made the goldens."""
    variables = copy / "variables" / "variables"
    reader = tf.train.load_checkpoint(str(variables))
    index, data = (pathlib.Path(f"{variables}.{end}") for end in ("index", "data-00000-of-00001"))
    changed = {name: np.asarray(reader.get_tensor(name)) for name in reader.get_variable_to_shape_map()}
    changed = {name: np.flip(value) if value.dtype == np.float32 else value for name, value in changed.items()}
    index.unlink()
    data.unlink()
    tf.raw_ops.SaveV2(
        prefix=str(variables), tensor_names=list(changed), shape_and_slices=[""] * len(changed),
        tensors=[tf.constant(value) for value in changed.values()],
    )  # fmt: skip
    done = _verify([str(copy)])
    assert done["status"] == 1 and "does not reproduce its recorded outputs" in done["log"], done["log"]
    assert done["log"].count("   differs") == 3
    assert _verify([])["status"] == 1 and _verify([str(copy), "more"])["status"] == 1


def test_no_server(classifier):
    done = _verify([classifier, "--server=localhost:1", "--timeout=5"])
    assert done["status"] == 1 and "No model server responded at localhost:1" in done["log"], done["log"]


def test_documents_of_nearly_equal_scores_may_change_places():
    def differs(order, scores=((0.5, 0.9, 0.49, 0.0),)):
        expected = {"scores": np.float32([[0.5, 0.9, 0.49, 0.0]]), "order": np.int32([[1, 0, 2, -1]])}
        got = {"scores": np.float32(scores), "order": np.int32([order])}
        return golden_requests.difference(expected, got, 0.01)[1]

    assert differs([1, 0, 2, -1]) == differs([1, 2, 0, -1]) == ""
    assert differs([0, 1, 2, -1]).startswith("order is 0 in place of 1")
    assert differs([1, 0, -1, 2]).startswith("order is") and differs([1, 0, 0, -1]).startswith("order is")


def test_sparse_embeddings_may_have_another_order():
    expected = {"indices": np.int32([[7, 3, 0]]), "weights": np.float32([[0.5, 0.4999, 0]])}

    def problem(indices, weights):
        got = {"indices": np.int32([indices]), "weights": np.float32([weights])}
        return golden_requests.difference(expected, got, 0.001)[1]

    assert problem([3, 7], [0.5001, 0.5]) == problem([7, 3, 9, 5], [0.5, 0.4999, 0.0009, 0]) == ""
    assert problem([7, 3], [0.5, 0.49]) == "weights is 0.49 in place of 0.4999 in row 0"
    assert problem([7], [0.5]) == "weights is 0 in place of 0.4999 in row 0"
    assert problem([7, 3, 9], [0.5, 0.4999, 0.01]) == "weights is 0.01 in place of 0 in row 0"
