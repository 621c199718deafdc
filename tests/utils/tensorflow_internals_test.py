"""TensorFlow still has every name outside its public API that this package uses, and they do what is asked of them."""

import pathlib
import re

import numpy as np
import tensorflow as tf

import bert_tf
from bert_tf.utils import tensorflow_internals as internals

PACKAGE = pathlib.Path(bert_tf.__file__).parent
PRIVATE = re.compile(r"tensorflow\.(?:python|compiler|lite)\b|tf\.__internal__|\bsession\._|_as_tf_output|_call_tf_")


def test_no_other_module_uses_what_is_not_public():
    users = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if PRIVATE.search(path.read_text())}
    # LiteRT's file format has no public name.
    of_litert = {"export/litert.py", "export/litert_metadata.py", "serving/server/tflite_graph.py"}
    assert users == {"utils/tensorflow_internals.py", *of_litert}


def test_operations_by_name():
    assert internals.is_operation("DumpTensor") and not internals.is_operation("NoSuchOperation")
    with tf.Graph().as_default():
        shape = internals.apply_op("Shape", input=tf.zeros([2, 3]), out_type=tf.int32)
        with tf.compat.v1.Session() as session:
            assert session.run(shape).tolist() == [2, 3]


def test_devices():
    assert internals.gpu_memory_limits() == [] or tf.config.list_physical_devices("GPU")


def test_variables_become_constants():
    weights = tf.Variable([2.0, 3.0])
    traced = tf.function(lambda x: x * weights, input_signature=[tf.TensorSpec([2])]).get_concrete_function()
    frozen = internals.convert_variables_to_constants_v2(traced, lower_control_flow=False)
    assert not frozen.graph.variables
    np.testing.assert_array_equal(frozen(tf.constant([1.0, 2.0]))[0], [2.0, 6.0])


def test_a_saved_model_is_loaded_run_and_freed(tmp_path):
    module = tf.Module()
    module.offset = tf.Variable(1.5)
    module.serve = tf.function(lambda x: {"y": x + module.offset}, input_signature=[tf.TensorSpec([None], name="x")])
    tf.saved_model.save(module, tmp_path, signatures={"serving_default": module.serve.get_concrete_function()})
    assert internals.create_fingerprint(str(tmp_path))
    loader, graph = internals.SavedModelLoader(str(tmp_path)), tf.Graph()
    signature = loader.get_meta_graph_def_from_tags(["serve"]).signature_def["serving_default"]
    session = tf.compat.v1.Session(graph=graph)
    with graph.as_default():
        loader.load(session, ["serve"])
        doubled = graph.get_tensor_by_name(signature.outputs["y"].name) * 2
    internals.extend_graph(session)
    feed = internals.session_key(graph.get_tensor_by_name(signature.inputs["x"].name))
    for pool in (-1, 0):
        values = {feed: np.array([1, 2], np.float32)}
        (y,) = internals.run_session(session, internals.run_options(pool), values, [internals.session_key(doubled)])
        np.testing.assert_array_equal(y, [5.0, 7.0])
    session.close()
    internals.dismantle_graph(graph)
    root = internals.load_partial(str(tmp_path), {"root": None})["root"]
    assert root.signatures["serving_default"](x=tf.constant([1.0]))["y"].numpy() == [2.5]
