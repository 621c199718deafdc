"""Exports for GPUs: the same answers, computed in few shapes, which XLA compiles where the server is told to."""

import collections
import os
import pathlib

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2

from bert_tf.export import gpu
from bert_tf.export.export_options import ExportOptions
from bert_tf.export.trained_model import export_trained
from bert_tf.serving import golden_requests, verification
from bert_tf.serving.exports import open_export
from tests.export.models import TASKS, write_trained
from tests.serving.server_process import running

NAMES = (*TASKS, "disentangled", "biased")
TOLERANCES = {"float32": 1e-5, "bfloat16": 2e-2, "float16": 5e-3}
FAST = [("classification", "float32")]
SLOW = [(name, dtype) for name in NAMES for dtype in TOLERANCES if (name, dtype) not in FAST]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype"), [*FAST, *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOW)])
def test_it_answers_as_the_portable_export(exported, name, dtype):
    portable, form = exported(name), ExportOptions(dtype, "gpu")
    model = open_export(exported(name, form))
    answer = verification.local_answer(model)
    verdicts = verification.judge(golden_requests.read_goldens(portable), answer, TOLERANCES[dtype])
    model.close()
    assert len(verdicts) >= 2 and not any(each.problems for each in verdicts)
    assert "| exported for | gpu |" in pathlib.Path(exported(name, form), "assets.extra", "MODEL_CARD.md").read_text()


@pytest.mark.slow
def test_a_server_is_warmed_up_with_texts_of_every_shape(exported):
    folder = exported("classification", ExportOptions("float32", "gpu"))
    records = tf.data.TFRecordDataset(os.path.join(folder, "assets.extra", "tf_serving_warmup_requests"))
    rows = collections.defaultdict(set)
    for record in records:
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        if log.HasField("classify_log"):
            rows["classify"].add(len(log.classify_log.request.input.example_list.examples))
        else:
            request = log.predict_log.request
            (tensor, *_) = request.inputs.values()
            rows[request.model_spec.signature_name].add(tensor.tensor_shape.dim[0].size)
    assert rows.keys() == {"serving_default", "ids", "classify"}
    assert all(each >= {1, 2, 4, 8, 16, 32} for each in rows.values())


@pytest.mark.slow
def test_the_windows_of_an_export_are_all_computed(exported):
    """Those that are none, too: their number would be a shape of its own."""
    path = os.path.join(exported("choices", ExportOptions("float32", "gpu")), "saved_model.pb")
    saved = saved_model_pb2.SavedModel.FromString(pathlib.Path(path).read_bytes())
    model = next(f for f in saved.meta_graphs[0].graph_def.library.function if "model_for_xla" in f.signature.name)
    assert not {"Where", "GatherNd", "ScatterNd"} & {node.op for node in model.node_def}


def test_sizes():
    assert gpu.widths(512) == [16, 32, 64, 128, 256, 512] and gpu.widths(100) == [16, 32, 64, 100]
    assert gpu.widths(16) == [16] and gpu.widths(9) == [9]
    shapes = gpu.warm_up_shapes(512, 128)
    assert {width for _, width in shapes} == {16, 32, 64, 128} and {rows for rows, _ in shapes} == {1, 2, 4, 8, 16, 32}
    assert {width for _, width in gpu.warm_up_shapes(512, 100)} == {16, 32, 64, 128}
    assert {width for _, width in gpu.warm_up_shapes(40, 40)} == {16, 32, 40}
    assert {width for _, width in gpu.warm_up_shapes(512, 8)} == {16}


def test_all_requests_are_computed_in_few_shapes_and_answered_in_their_own():
    shapes = []

    def forward(features):
        if not isinstance(features["input_ids"].shape[0], int):  # not where the outputs' axes are looked for
            tf.numpy_function(lambda ids, mask: shapes.append((ids.shape, int(mask.sum()))),
                              [features["input_ids"], features["input_mask"]], [])  # fmt: skip
        total = tf.reduce_sum(features["input_ids"], -1)
        return {"of_text": total, "of_tokens": [features["input_ids"] * 2, tf.ones([2, 3])[None] + tf.cast(
            total, tf.float32)[:, None, None]]}  # fmt: skip

    specs = [tf.TensorSpec([None, None], tf.int32, name=name) for name in ("input_ids", "input_mask")]
    call = gpu.with_rounded_shapes(forward, specs, 40)
    graph = tf.function(lambda ids, mask: call({"input_ids": ids, "input_mask": mask}), specs)
    for rows in (1, 2, 3, 5, 8):
        for width in (1, 5, 16, 17, 33, 40):
            ids = np.arange(rows * width, dtype=np.int32).reshape(rows, width)
            answer = graph(ids, np.ones_like(ids))
            np.testing.assert_array_equal(answer["of_text"], ids.sum(1))
            np.testing.assert_array_equal(answer["of_tokens"][0], ids * 2)
            assert answer["of_tokens"][1].shape == (rows, 2, 3)
            (shape, tokens) = shapes[-1]
            assert shape[0] in (1, 2, 4, 8) and shape[1] in (16, 32, 40) and tokens == ids.size
    assert graph(np.zeros([0, 5], np.int32), np.zeros([0, 5], np.int32))["of_text"].shape == (0,)


def test_what_a_gpu_does_not_do_is_refused():
    with pytest.raises(
        ValueError, match="`export_dtype=int8` cannot be combined with `export_for=gpu`"
    ):
        ExportOptions("int8", "gpu")


@pytest.mark.slow
def test_a_server_has_xla_compile_it_where_it_may(exported, tmp_path, monkeypatch):
    """On a CPU here; the same flags of XLA compile it on a GPU, where `--xla_gpu_compilation_enabled` allows it."""
    monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit")
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    base = os.path.dirname(exported("tagging", ExportOptions("float32", "gpu")))
    with running(base, tmp_path / "log", "--xla_cpu_compilation_enabled") as server:
        with grpc.insecure_channel(f"localhost:{server.port}") as channel:
            answer = verification.remote_answer(channel, "", "film", 60, exported("tagging"))
            verdicts = verification.judge(golden_requests.read_goldens(exported("tagging")), answer, 1e-5)
        assert "Compiled cluster using XLA!" in server.log()
    assert len(verdicts) >= 2 and not any(each.problems for each in verdicts)


@pytest.mark.slow
def test_the_number_of_threads_is_that_of_the_parts(exported, tmp_path):
    write_trained(tmp_path / "trained", "classification")
    form = ExportOptions("float32", "cpu", threads=4)
    assert form.parts == 4 and ExportOptions("float32", "cpu", threads=1).parts == 1 == ExportOptions(threads=4).parts
    model = open_export(export_trained(str(tmp_path / "trained"), str(tmp_path / "four"), form))
    goldens, answer = golden_requests.read_goldens(exported("classification")), verification.local_answer(model)
    verdicts = verification.judge(goldens, answer, 1e-5)
    assert model._has_parts and not any(each.problems for each in verdicts)
    model.close()
