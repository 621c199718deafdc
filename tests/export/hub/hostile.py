"""SavedModels that do more than compute, or take more than they seem to."""

import pathlib
from collections.abc import Callable

import keras
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2
from tensorflow.python.framework import op_def_library
from tensorflow.python.trackable import resource

from bert_tf.export.hub.layer import HubLayer

IDS = tf.TensorSpec([None, None], tf.int32)


class Model(tf.Module):
    """Calls `function` with ids, and has what `make` returns."""

    def __init__(self, function, make=None):
        super().__init__()
        self.made = make() if make else None
        self.function = function

    @tf.function(input_signature=[IDS], autograph=False)
    def __call__(self, ids):
        return self.function(ids)


class AtLoad(resource.TrackableResource):
    """Does something when it is made again, which is when the model is loaded."""

    def __init__(self, act: Callable[[], None]):
        super().__init__()
        self.act = act
        self.resource_handle  # noqa: B018  makes it

    def _create_resource(self):
        return tf.raw_ops.MutableHashTableV2(key_dtype=tf.string, value_dtype=tf.int64)

    def _initialize(self):
        self.act()


class Table(tf.Module):
    """Looks ids up in a table whose keys and values are constants."""

    def __init__(self):
        super().__init__()
        keys = tf.constant([1, 2], tf.int64)
        self.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, keys + 5), -1)

    @tf.function(input_signature=[IDS], autograph=False)
    def __call__(self, ids):
        return tf.cast(self.table.lookup(tf.cast(ids, tf.int64)), tf.int32)


class Branch(tf.Module):
    """Writes a file in a branch of a condition, where it is called with ids above 0."""

    def __init__(self, path):
        super().__init__()
        self.path = str(path)

    @tf.function(input_signature=[IDS], autograph=False)
    def __call__(self, ids):
        return tf.cond(tf.reduce_any(ids > 0), lambda: self._written(ids), lambda: ids)

    def _written(self, ids):
        tf.io.write_file(self.path, "text")
        return ids


def writes(path) -> Model:
    """Writes a file when it is loaded."""
    return Model(lambda ids: ids, lambda: AtLoad(lambda: tf.io.write_file(str(path), "text")))


def dumps(path):
    """Empties a file, or makes it, where it is run in a graph."""
    path = pathlib.Path(path)
    op_def_library._apply_op_helper(
        "DumpTensor", tensor_data=tf.constant(1.0), log_dir_path=str(path.parent), file_name=path.name, enabled=True,
        func_name="", node_name="",
    )  # fmt: skip


def dumps_when_loaded(path) -> Model:
    return Model(lambda ids: ids, lambda: AtLoad(lambda: dumps(path)))


def dumps_when_called(path) -> Model:
    def call(ids):
        dumps(path)
        return tf.identity(ids)

    return Model(call)


def reads_passwd(path="/etc/passwd") -> Model:
    def call(ids):
        table = tf.raw_ops.MutableHashTableV2(key_dtype=tf.string, value_dtype=tf.int64)
        tf.raw_ops.InitializeTableFromTextFileV2(
            table_handle=table, filename=tf.constant(str(path)), key_index=-2, value_index=-1
        )
        return tf.identity(ids)

    return Model(call)


def samples_passwd(path="/etc/passwd") -> Model:
    def call(ids):
        found = tf.raw_ops.FixedUnigramCandidateSampler(
            true_classes=tf.cast(ids[:, :1], tf.int64), num_true=1, num_sampled=1, unique=False, range_max=5,
            vocab_file=str(path),
        )  # fmt: skip
        return ids + tf.cast(found.sampled_candidates[0], tf.int32)

    return Model(call)


def save(module, folder) -> pathlib.Path:
    tf.saved_model.save(module, str(folder))
    return pathlib.Path(folder)


def save_keras_file(module, folder) -> pathlib.Path:
    """Returns a .keras file in `folder` with a `HubLayer` of a module that takes ids."""
    save(module, folder / "hub")
    ids = keras.Input((3,), dtype="int32")
    keras.Model(ids, HubLayer(folder / "hub")(ids)).save(folder / "model.keras")  # one's own folder is trusted
    return folder / "model.keras"


def edit(folder, change: Callable[[meta_graph_pb2.MetaGraphDef], None]):
    """Has `change` change the graph in a folder."""
    path = pathlib.Path(folder) / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    change(saved.meta_graphs[0])
    path.write_bytes(saved.SerializeToString())


def constants(graph):
    """Returns the constants of a graph, also in its functions, that are arrays."""
    nodes = [*graph.graph_def.node, *(node for each in graph.graph_def.library.function for node in each.node_def)]
    tensors = (node.attr["value"].tensor for node in nodes if node.op == "Const")
    return [tensor for tensor in tensors if tensor.tensor_shape.dim]


def add_call(function, called: str):
    """Has a function call another one, whose result nobody needs."""
    node = function.node_def.add(name=f"call_{len(function.node_def)}", op="StatefulPartitionedCall")
    node.attr["f"].func.name = called
    for types in ("Tin", "Tout"):
        node.attr[types].list.SetInParent()
    function.control_ret[node.name] = node.name
    function.signature.control_output.append(node.name)


def initializer(graph):
    """Returns a function that runs when the model is loaded."""
    return next(each for each in graph.graph_def.library.function if "initializer" in each.signature.name)
