"""Exports for processors: the same answers, no variables where constants are faster, and integers where asked for."""

import collections
import pathlib
import platform

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2

from bert_tf.checkpoints import tf1
from bert_tf.export import calibration
from bert_tf.export.export_options import ExportOptions
from bert_tf.export.saved_model import export_trained
from bert_tf.serving import verification
from bert_tf.serving.verification import open_export
from bert_tf.utils.resources import has_onednn
from tests.export.models import TASKS, write_trained
from tests.harness import randomize

TOLERANCES = {"float32": 1e-5, "bfloat16": 2e-2, "int8": 5e-2}
SLOW = [(name, dtype) for name in TASKS for dtype in TOLERANCES if (name, dtype) != ("classification", "bfloat16")]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("classification", "bfloat16"), *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOW)],
)
def test_it_answers_as_the_portable_export(tmp_path, name, dtype):
    write_trained(tmp_path, name)
    kinds = ("portable", "cpu")
    portable, cpu = (export_trained(str(tmp_path), str(tmp_path / each), ExportOptions(dtype, each)) for each in kinds)
    model = open_export(cpu)
    asked, answer = verification.read_goldens(portable), verification.local_answer(model)
    verdicts = verification.judge(asked, answer, TOLERANCES[dtype])
    model.close()
    assert len(verdicts) >= 2 and [each.problems for each in verdicts] == [[]] * len(verdicts)
    assert [each.problems for each in verification.verify(cpu)] == [[]] * len(verdicts)
    assert _has_variables(portable) and _has_variables(cpu) == (dtype != "bfloat16")
    assert verification.default_tolerance(cpu) == verification.default_tolerance(portable)
    assert _size(cpu) < 1.2 * _size(portable) + 200_000  # the weights are there once, though all signatures need them
    assert "| exported for | cpu |" in pathlib.Path(cpu, "assets.extra", "MODEL_CARD.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow)])
@pytest.mark.skipif(platform.machine() != "x86_64" or not has_onednn(), reason="needs oneDNN in TensorFlow")
def test_grappler_makes_one_operation_of_what_belongs_together(tmp_path, dtype):
    """What the graph is written for, and what a new version of TensorFlow may no longer see in it."""
    task = write_trained(tmp_path, "classification").task
    model = task.build_model()
    randomize(model)
    tf1.write_tf1(str(tmp_path / "model.ckpt-8"), model.variables)
    loaded = open_export(export_trained(str(tmp_path), str(tmp_path / "export"), ExportOptions(dtype, "cpu")))
    assert loaded._has_parts  # so a server has several threads compute a text alone
    kinds = _computed(loaded, loaded.signatures["ids"])
    loaded.close()
    blocks = task.config.num_hidden_layers
    assert kinds["_MklLayerNorm"] == 1 + 2 * blocks and kinds["_MklFusedBatchMatMulV2"] == 2 * blocks, kinds
    assert kinds["_MklNativeFusedMatMul"] >= 2 * 4 * blocks and not kinds["StatelessIf"], kinds


def _computed(model, signature):
    """Returns how often each kind of operation was computed for a request."""
    options = config_pb2.RunOptions(trace_level=config_pb2.RunOptions.FULL_TRACE, output_partition_graphs=True)
    feeds = {each.tensor: np.ones([1, 5], np.int32) for each in signature.inputs.values()}
    metadata = config_pb2.RunMetadata()
    model._session.run(list(signature.key[1]), feeds, options, metadata)
    kinds = {node.name: node.op for graph in metadata.partition_graphs for node in graph.node}
    computed = [each.node_name for device in metadata.step_stats.dev_stats for each in device.node_stats]
    return collections.Counter(kinds[name] for name in computed if name in kinds)


INT8 = [pytest.param(name, marks=() if name == "questions" else pytest.mark.slow) for name in TASKS]


@pytest.mark.parametrize("name", INT8)
def test_int8_answers_nearly_as_float32(tmp_path, name):
    write_trained(tmp_path, name)
    exact, int8 = (
        export_trained(str(tmp_path), str(tmp_path / each), ExportOptions(each)) for each in ("float32", "int8")
    )
    model = open_export(int8)
    verdicts = verification.judge(verification.read_goldens(exact), verification.local_answer(model), 0.05)
    model.close()
    assert len(verdicts) >= 2 and all(0 < each.largest < 0.05 for each in verdicts), verdicts
    assert [each.problems for each in verification.verify(int8)] == [[]] * len(verdicts)
    assert verification.default_tolerance(int8) > verification.default_tolerance(exact)
    shapes = tf.train.load_checkpoint(f"{int8}/variables/variables").get_variable_to_shape_map().values()
    assert [32, 64] not in shapes and [64, 32] not in shapes  # kernels: they are integers now
    card = pathlib.Path(int8, "assets.extra", "MODEL_CARD.md").read_text(encoding="utf-8")
    assert "| numbers | float32, int8 |" in card and "- What it scores in int8 was not measured." in card


def _has_variables(path):
    weights = tf.train.load_checkpoint(f"{path}/variables/variables").get_variable_to_dtype_map()
    return bool(set(weights.values()) - {tf.string})


def _size(path):
    return sum(each.stat().st_size for each in pathlib.Path(path).rglob("*") if each.is_file())


def test_more_than_a_graph_holds_is_refused():
    weights = [tf.TensorSpec([2**20, 1100], tf.bfloat16)]
    with pytest.raises(ValueError, match=r"`export_for=cpu` must take at most 1\.94 GiB.*Received 2\.15 GiB; leave"):
        calibration.with_constants(lambda features: features, [], weights)
