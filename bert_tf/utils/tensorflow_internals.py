"""Everything outside TensorFlow's public API that this package uses, so that a new release can break only this module.

Each use has a reason: there is no public equivalent (looking up an operation by name, running a session without
parsing), or it does more than is wanted (`tf.saved_model.load` traces every function again).
`tensorflow_internals_test.py` names them all. (LiteRT's own are in `export/litert.py`,
`export/litert_metadata.py` and `serving/server/tflite_graph.py`.)
"""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.client import device_lib, pywrap_tf_session
from tensorflow.python.eager import context
from tensorflow.python.framework import op_def_library, op_def_registry
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
from tensorflow.python.framework.ops import dismantle_graph
from tensorflow.python.saved_model.loader_impl import SavedModelLoader
from tensorflow.python.saved_model.pywrap_saved_model import fingerprinting

__all__ = ("SavedModelLoader", "convert_variables_to_constants_v2", "dismantle_graph")

apply_op = op_def_library.apply_op  # tf.raw_ops lacks operations with a name that begins with _
load_partial = tf.__internal__.saved_model.load_partial
create_fingerprint = fingerprinting.CreateFingerprintDef


def is_operation(name: str) -> bool:
    """Returns whether an operation of this name is registered; tf.raw_ops lacks some, such as DumpTensor."""
    return op_def_registry.get(name) is not None


def knows_devices() -> bool:
    """Returns whether TensorFlow has looked for devices in this process; it no longer reads its environment then."""
    return context.context()._physical_devices is not None


def gpu_memory_limits() -> list[int]:
    """Returns the bytes that TensorFlow has reserved on each GPU."""
    return [device.memory_limit for device in device_lib.list_local_devices() if device.device_type == "GPU"]


# Not `Session.run`: it parses feeds and fetches at each call, and casts feeds silently where the runtime would refuse.
def run_options(inter_op_thread_pool: int):
    """Returns what `run_session` takes; with -1, the caller's thread computes all; with 0, all of TensorFlow's do."""
    options = config_pb2.RunOptions(inter_op_thread_pool=inter_op_thread_pool)
    return pywrap_tf_session.TF_NewBufferFromString(options.SerializeToString())


def session_key(tensor: tf.Tensor):
    """Returns what names a tensor of a graph in `run_session`."""
    return tensor._as_tf_output()


def run_session(session: tf.compat.v1.Session, options, feeds: Mapping, outputs: Sequence) -> list[np.ndarray]:
    """Computes tensors of a session's graph; feeds and outputs by `session_key`, options by `run_options`."""
    return session._call_tf_sessionrun(options, feeds, outputs, [], None)


def forget_functions(graph: tf.Graph):
    """Drops the Python objects for a graph's functions, which hold two more copies of every constant.

    A session can still run the functions, but nothing that calls one of them can be added to the graph afterwards.
    """
    graph._functions.clear()


def extend_graph(session: tf.compat.v1.Session):
    """Adds a graph's new operations to its session; `Session.run` does this by itself, `run_session` does not."""
    session._extend_graph()
