"""Token counts of exports: a server can fetch them, and neither clients nor loaders of SavedModels see them."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from bert_tf.export.counted_signatures import hide_token_counts
from bert_tf.serving.server.saved_model import SavedModel
from bert_tf.utils.names import TOKEN_COUNTS


@pytest.fixture
def loaded(exported):
    model = SavedModel(exported("classification"))
    yield model
    model.close()


def _read(folder):
    return saved_model_pb2.SavedModel.FromString((pathlib.Path(folder) / "saved_model.pb").read_bytes())


def _example(text):
    feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[text]))
    return tf.train.Example(features=tf.train.Features(feature={"text": feature})).SerializeToString()


@pytest.mark.slow
def test_every_signature_that_reads_texts_is_counted(loaded):
    texts = [b"film zebra", b"film " * 100]
    inputs = {"serving_default": texts, "classify": [*map(_example, texts)]}
    for runs, (name, values) in enumerate(inputs.items(), 1):
        signature = loaded.signatures[name]
        (endpoint,) = signature.inputs.values()
        loaded.run({endpoint.tensor: np.array(values, object)}, signature.key[1])
        assert loaded.token_counts.total == (2 * runs, 1 * runs, 102 * runs, 1 * runs, 0)
    ids = loaded.signatures["ids"]
    loaded.run({each.tensor: np.zeros([1, 16], np.int32) for each in ids.inputs.values()}, ids.key[1])
    assert loaded.token_counts.total == (4, 2, 204, 2, 0)


@pytest.mark.slow
def test_clients_and_loaders_do_not_see_the_counts(exported):
    (graph,) = _read(exported("classification")).meta_graphs
    assert {name: sorted(each.outputs) for name, each in graph.signature_def.items() if name[:2] != "__"} == {
        "serving_default": ["label", "labels", "probabilities"], "ids": ["label", "labels", "probabilities"],
        "classify": ["classes", "scores"],
    }  # fmt: skip
    assert len(graph.collection_def[TOKEN_COUNTS].node_list.value) == 2
    model = tf.saved_model.load(exported("classification"))
    served = model.signatures["serving_default"](text=tf.constant(["a good film"]))
    assert sorted(served) == ["label", "labels", "probabilities"]
    assert sorted(model.signatures["classify"](inputs=tf.constant([_example(b"a good film")]))) == ["classes", "scores"]


def test_each_loader_gets_the_output_that_it_asks_for(tmp_path):
    """With outputs before and after the hidden one in the order of names."""

    def measure(text):
        length = tf.strings.length(text)
        return {"a": length + 1, TOKEN_COUNTS: tf.range(1, 6, dtype=tf.int64), "z": tf.cast(length, tf.float32)}

    spec = tf.TensorSpec([None], tf.string, name="text")
    function = tf.function(measure, [spec], autograph=False).get_concrete_function()
    tf.saved_model.save(tf.Module(), str(tmp_path), function)
    saved = _read(tmp_path)
    hide_token_counts(saved.meta_graphs[0])
    (tmp_path / "saved_model.pb").write_bytes(saved.SerializeToString())

    measured = tf.saved_model.load(str(tmp_path)).signatures["serving_default"](text=tf.constant(["film"]))
    assert {name: value.numpy().tolist() for name, value in measured.items()} == {"a": [5], "z": [4.0]}
    model = SavedModel(str(tmp_path))
    signature = model.signatures["serving_default"]
    fetches = [each.tensor for each in signature.outputs.values()]
    values = model.run({signature.inputs["text"].tensor: np.array([b"film"], object)}, fetches)
    assert [value.tolist() for value in values] == [[5], [4.0]] and model.token_counts.total == (1, 2, 3, 4, 5)
    model.close()
