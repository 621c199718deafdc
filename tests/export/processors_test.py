"""Exports for processors: the same answers, no variables where constants are faster, and integers where asked for."""

import collections
import pathlib
import platform

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2

from bert_tf.checkpoints import tf1
from bert_tf.export.cpu import model as cpu_model
from bert_tf.export.export_options import ExportOptions
from bert_tf.export.trained_model import export_trained
from bert_tf.serving import golden_requests, verification
from bert_tf.serving.exports import open_export
from bert_tf.utils.resources import uses_onednn
from bert_tf.utils.tensorflow_internals import SavedModelLoader
from tests import tiny
from tests.export.models import TASKS, write_trained
from tests.harness import randomize
from tests.processor import needs_int8

NAMES = (*TASKS, "disentangled")
TOLERANCES = {"float32": 1e-5, "bfloat16": 2e-2, "int8": 5e-2}
SLOW = [(name, dtype) for name in NAMES for dtype in TOLERANCES if (name, dtype) != ("classification", "bfloat16")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dtype"),
    [("classification", "bfloat16"), *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOW)],
)
def test_it_answers_as_the_portable_export(exported, name, dtype):
    portable, cpu = exported(name), exported(name, ExportOptions(dtype, "cpu"))
    model = open_export(cpu)
    answer, own = verification.local_answer(model), verification.default_tolerance(cpu)
    of_portable = verification.judge(golden_requests.read_goldens(portable), answer, TOLERANCES[dtype])
    of_cpu = verification.judge(golden_requests.read_goldens(cpu), answer, own)
    model.close()
    assert len(of_cpu) >= 2 and not any(each.problems for each in (*of_portable, *of_cpu))
    assert _has_variables(portable) and _has_variables(cpu) == (dtype != "bfloat16")
    assert (own > verification.default_tolerance(portable)) == (dtype != "float32")
    assert _size(cpu) < 1.2 * _size(portable) + 200_000  # the weights are there once, though all signatures need them
    assert "| exported for | cpu |" in pathlib.Path(cpu, "assets.extra", "MODEL_CARD.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def export_random(made_once):
    """export_random(dtype) -> the path of an export of a classifier with no trivial weights, which grappler drops."""

    def fill(folder, dtype):
        task = write_trained(folder / "trained", "classification").task
        model = task.build_model()
        randomize(model)
        tf1.write_tf1(str(folder / "trained" / "model.ckpt-8"), model.variables)
        export_trained(str(folder / "trained"), str(folder / "export"), ExportOptions(dtype, "cpu"))

    return lambda dtype: str(made_once(f"random-{dtype}", lambda folder: fill(folder, dtype)) / "export" / "1")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow)])
@pytest.mark.skipif(platform.machine() != "x86_64" or not uses_onednn(), reason="needs oneDNN in TensorFlow")
def test_grappler_makes_one_operation_of_what_belongs_together(export_random, dtype):
    """What the graph is written for, and what a new version of TensorFlow may no longer see in it."""
    loaded = open_export(export_random(dtype))
    assert loaded._has_parts  # so a server has several threads compute a text alone
    kinds = _computed(export_random(dtype), loaded.signatures["ids"])
    loaded.close()
    blocks = tiny.config().num_hidden_layers
    assert kinds["_MklLayerNorm"] == 1 + 2 * blocks and kinds["_MklFusedBatchMatMulV2"] == 2 * blocks, kinds
    assert kinds["_MklNativeFusedMatMul"] >= 2 * 4 * blocks and not kinds["StatelessIf"], kinds


def _computed(path, signature):
    """Returns how often each kind of operation was computed for a request; a server's session would not say."""
    options = config_pb2.RunOptions(trace_level=config_pb2.RunOptions.FULL_TRACE, output_partition_graphs=True)
    feeds = {each.tensor: np.ones([1, 5], np.int32) for each in signature.inputs.values()}
    metadata = config_pb2.RunMetadata()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        SavedModelLoader(path).load(session, ["serve"])
        session.run(list(signature.key[1]), feeds, options, metadata)
    kinds = {node.name: node.op for graph in metadata.partition_graphs for node in graph.node}
    computed = [each.node_name for device in metadata.step_stats.dev_stats for each in device.node_stats]
    return collections.Counter(kinds[name] for name in computed if name in kinds)


@pytest.mark.slow
def test_a_mask_takes_no_more_memory_than_it_has_numbers(export_random):
    answer = tf.saved_model.load(export_random("float32")).signatures["ids"]
    ids = tf.constant([[2, 5, 3, 0, 0, 0, 0, 0]] * 2)
    mask = [[1, 1, 1] + [0] * 5, [1, 10**9, 1] + [0] * 4 + [-(10**9)]]  # most is padding: texts are laid out again
    with pytest.raises(tf.errors.InvalidArgumentError, match="`input_mask` must be from 0 to 1"):
        answer(input_ids=ids, input_mask=tf.constant(mask), segment_ids=tf.zeros_like(ids))


INT8 = [pytest.param(name, marks=() if name == "classification" else pytest.mark.slow) for name in TASKS]


@pytest.mark.slow
@needs_int8
@pytest.mark.parametrize("name", INT8)
def test_int8_answers_nearly_as_float32(exported, name):
    exact, int8 = (exported(name, ExportOptions(each)) for each in ("float32", "int8"))
    model = open_export(int8)
    answer, own = verification.local_answer(model), verification.default_tolerance(int8)
    of_exact, of_int8 = (verification.judge(golden_requests.read_goldens(path), answer, tolerance)
                         for path, tolerance in ((exact, 0.05), (int8, own)))  # fmt: skip
    model.close()
    assert len(of_exact) >= 2 and all(0 < each.largest < 0.05 for each in of_exact), of_exact
    assert not any(each.problems for each in of_int8) and own > verification.default_tolerance(exact)
    assert _num_variables(int8) < _num_variables(exact) / 2  # kernels are integers now, and constants
    card = pathlib.Path(int8, "assets.extra", "MODEL_CARD.md").read_text(encoding="utf-8")
    assert "| numbers | float32, int8 |" in card and "- Its metrics in int8 were not measured." in card


def _num_variables(path):
    shapes = tf.train.load_checkpoint(f"{path}/variables/variables").get_variable_to_shape_map().values()
    return sum(np.prod(shape) for shape in shapes)


def _has_variables(path):
    weights = tf.train.load_checkpoint(f"{path}/variables/variables").get_variable_to_dtype_map()
    return bool(set(weights.values()) - {tf.string})


def _size(path):
    return sum(each.stat().st_size for each in pathlib.Path(path).rglob("*") if each.is_file())


def test_more_than_a_graph_holds_is_refused():
    weights = [keras.KerasTensor([2**20, 1100], "bfloat16")]
    message = r"bfloat16 with `export_for=cpu` are limited to 1\.94 GiB.*has 2\.15 GiB\. Use `export_dtype=float32`"
    with pytest.raises(ValueError, match=message):
        cpu_model.with_constants(lambda features: features, [], weights)
