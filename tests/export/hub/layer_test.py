"""HubLayer: a SavedModel of anybody's as a layer that is trained, saved, loaded and copied."""

import pathlib
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from bert_tf.export.hub import layer_files
from bert_tf.export.hub.layer import HubLayer
from bert_tf.export.hub.preprocessor import Preprocessor
from bert_tf.export.hub.symbols import symbol_of
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import tiny
from tests.export.hub import models

IDS = np.array([[1, 2, 3], [4, 5, 19]], np.int32)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    tf.saved_model.save(models.LookAlike(), str(folder), signatures={})
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    return pathlib.Path(shutil.copytree(saved, tmp_path / "hub"))


@pytest.fixture(scope="module")
def preprocessor(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub")
    tokenizer = WordPieceTokenizer(tiny.VOCAB)
    tokenizer.save(folder / "files")
    preprocessor = Preprocessor(WordPieceTokenizer(folder / "files" / "vocab.txt"), 8)
    tf.saved_model.save(preprocessor, str(folder / "made"), signatures={})
    return folder / "made"


def _model(layer):
    ids = keras.Input((None,), dtype="int32")
    outputs = layer({"input_word_ids": ids})
    return keras.Model(ids, keras.layers.Dense(1, name="head")(outputs["pooled_output"]))


def test_outputs_are_those_of_the_saved_model(folder):
    loaded = tf.saved_model.load(str(folder))
    inputs = {"input_word_ids": tf.constant(IDS)}
    frozen, trained = HubLayer(folder), HubLayer(str(folder), trainable=True)
    expected, scaled = (loaded(inputs, training=training) for training in (False, True))
    for layer, training, outputs in (
        (frozen, False, expected),
        (frozen, True, expected),  # as with hub.KerasLayer: what is not trained runs as it does elsewhere
        (trained, None, expected),
        (trained, True, scaled),
    ):
        given = layer(inputs, training=training)
        assert given.keys() == outputs.keys()
        np.testing.assert_array_equal(given["pooled_output"], outputs["pooled_output"])


def test_symbolic_shapes_are_those_of_the_outputs(folder):
    outputs = HubLayer(folder)({"input_word_ids": keras.Input((7,), dtype="int32")})
    assert outputs["sequence_output"].shape == (None, 7, 3) and outputs["pooled_output"].shape == (None, 3)


def test_variables_are_kerass_own(folder):
    layer = HubLayer(folder, trainable=True, name="hub")
    paths = {variable.path: variable.trainable for variable in layer.variables}
    assert paths == {"hub/word_embeddings/embeddings": True, "hub/scale": False, "hub/Variable": False,
                     "hub/mlm/bias": False}  # fmt: skip
    assert [variable.path for variable in layer.trainable_variables] == ["hub/word_embeddings/embeddings"]
    assert HubLayer(folder).trainable_variables == []
    layer.trainable_variables[0].assign(np.zeros([20, 3]))
    assert not np.any(layer({"input_word_ids": tf.constant(IDS)})["pooled_output"])


def _frozen(folder):
    """Yields a layer for each way to freeze one."""
    yield HubLayer(folder)
    yield HubLayer(folder, trainable=False)
    layer = HubLayer(folder, trainable=True)
    layer.trainable = False
    yield layer
    yield HubLayer.from_config(layer.get_config())


@pytest.mark.slow
def test_a_model_around_a_frozen_layer_does_not_train_it(folder):
    for layer in _frozen(folder):
        model = _model(layer)
        assert [variable.path for variable in model.trainable_variables] == ["head/kernel", "head/bias"]
        _train_a_step(model, layer, moves=False)


@pytest.mark.slow
@pytest.mark.parametrize("trainable", [False, True])
def test_a_copy_is_frozen_as_its_model_was(folder, tmp_path, trainable):
    model = _model(HubLayer(folder, trainable=trainable, name="hub"))
    model.save(tmp_path / "model.keras")
    for copy in (keras.models.load_model(tmp_path / "model.keras"), keras.models.clone_model(model)):
        assert len(copy.trainable_variables) == 2 + trainable
        _train_a_step(copy, copy.get_layer("hub"), moves=trainable)


def test_a_frozen_layer_can_be_trained_later(folder):
    layer = HubLayer(folder)
    model = _model(layer)
    layer.trainable = True
    assert [variable.path.split("/", 1)[1] for variable in layer.trainable_variables] == ["word_embeddings/embeddings"]
    _train_a_step(model, layer, moves=True)


def _train_a_step(model, layer, moves):
    before = layer.get_weights()
    model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=False)
    model.fit(IDS, np.full([2, 1], 9.0, np.float32), verbose=0)
    moved = [not np.array_equal(a, b) for a, b in zip(layer.get_weights(), before, strict=True)]
    assert moved == [moves, False, False, False]


def test_regularization_losses_count_while_it_is_trained(folder):
    table = HubLayer(folder).variables[0].numpy()
    layer = HubLayer(folder, trainable=True)
    layer({"input_word_ids": tf.constant(IDS)})
    np.testing.assert_allclose(layer.losses, [0.5 * np.sum(table**2)], rtol=1e-6)
    frozen = HubLayer(folder)
    frozen({"input_word_ids": tf.constant(IDS)})
    assert frozen.losses == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "fresh", [pytest.param(True, marks=pytest.mark.slow), False], ids=["elsewhere", "in the same process"]
)
def test_a_trained_model_is_saved_whole_and_trained_on(folder, tmp_path, fresh, monkeypatch):
    layer = HubLayer(folder, trainable=True)
    model = _model(layer)
    model.compile(keras.optimizers.Adam(0.01), "mse")
    before = layer.get_weights()
    model.fit(IDS, np.ones([2, 1], np.float32), epochs=2, verbose=0)
    moved = [np.abs(a - b).max() > 0 for a, b in zip(layer.get_weights(), before, strict=True)]
    assert moved == [True, False, False, False]
    model.save(tmp_path / "model.keras")
    expected = model.predict(IDS, verbose=0)
    if fresh:
        shutil.rmtree(folder)
        monkeypatch.setattr(layer_files, "_KNOWN", {})  # what another process knows
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.predict(IDS, verbose=0), expected)
    histories = [each.fit(IDS, np.ones([2, 1], np.float32), verbose=0).history["loss"] for each in (model, again)]
    np.testing.assert_allclose(histories[1], histories[0], rtol=1e-6)
    np.testing.assert_allclose(again.predict(IDS, verbose=0), model.predict(IDS, verbose=0), rtol=1e-5)
    again.save(tmp_path / "again.keras")  # also from what came out of a file
    np.testing.assert_array_equal(
        keras.models.load_model(tmp_path / "again.keras").predict(IDS, verbose=0), again.predict(IDS, verbose=0)
    )


def test_a_copy_in_memory_has_the_values_of_the_folder(folder):
    layer = HubLayer(folder, trainable=True)
    before = layer.get_weights()
    layer.variables[0].assign(layer.variables[0].numpy() + 1)
    copy = HubLayer.from_config(layer.get_config())
    np.testing.assert_array_equal(copy.variables[0].numpy(), before[0])
    copy.set_weights(layer.get_weights())
    np.testing.assert_array_equal(*(x({"input_word_ids": tf.constant(IDS)})["pooled_output"] for x in (copy, layer)))


def test_without_its_files_it_says_where_they_are(folder, tmp_path):
    config = HubLayer(folder, name="bert").get_config()
    shutil.rmtree(folder)
    layer = HubLayer.from_config(config)
    with pytest.raises(ValueError, match=r"'bert' was called without its SavedModel, which is in its model's"):
        layer({"input_word_ids": tf.constant(IDS)})
    with pytest.raises(ValueError, match=": its SavedModel has changed or is missing in"):
        layer.save_assets(str(tmp_path))


def test_parts_of_a_saved_model_are_layers_too(folder):
    layer = HubLayer(folder, part="mlm")
    loaded = tf.saved_model.load(str(folder))
    inputs = {"input_word_ids": tf.constant(IDS)}
    np.testing.assert_array_equal(layer(inputs)["mlm_logits"], loaded.mlm(inputs)["mlm_logits"])
    with pytest.raises(ValueError, match=r"hub has no part 'nsp'; it has \['mlm'\]"):
        HubLayer(folder, part="nsp")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(keras.KerasTensor, "ragged_rank"), reason="needs Keras 3.12 or later")
def test_texts_become_rows_by_parts(preprocessor, tmp_path, monkeypatch):
    a, b = (keras.Input((), dtype="string") for _ in range(2))
    tokenize = HubLayer(preprocessor, part="tokenize")
    assert tokenize(a).ragged
    pack = HubLayer(preprocessor, part="bert_pack_inputs", arguments={"seq_length": 6})
    model = keras.Model([a, b], pack([tokenize(a), tokenize(b)]))
    texts = tf.constant(["good film"]), tf.constant(["bad"])
    rows = model(texts)
    assert rows["input_word_ids"].numpy().tolist() == [[2, 5, 14, 3, 9, 3]]
    model.save(tmp_path / "model.keras")
    monkeypatch.setattr(layer_files, "_KNOWN", {})
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(texts)["input_type_ids"], rows["input_type_ids"])
    assert HubLayer(preprocessor)(tf.constant(["film"]))["input_mask"].shape == (1, 8)


def test_a_keras_without_ragged_symbols_says_which_has_them(monkeypatch):
    monkeypatch.delattr(keras.KerasTensor, "ragged_rank", raising=False)
    with pytest.raises(ValueError, match=rf"Keras 3\.12 or later is needed. Installed: {keras.__version__}"):
        symbol_of(tf.RaggedTensorSpec([None, None], tf.int32))


def test_folders_that_are_refused(tmp_path):
    with pytest.raises(ValueError, match="SavedModel not found:"):
        HubLayer(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"text")
    with pytest.raises(ValueError, match=r"saved_model\.pb is not the graph of a SavedModel"):
        HubLayer(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(ValueError, match="is not the graph of a SavedModel: it has no graph"):
        HubLayer(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(saved_model_pb2.SavedModel(meta_graphs=[{}]).SerializeToString())
    with pytest.raises(ValueError, match=r"must be a SavedModel of TensorFlow 2, with objects"):
        HubLayer(tmp_path)


def test_a_saved_model_without_a_function_is_refused(tmp_path):
    tf.saved_model.save(tf.Module(), str(tmp_path))
    with pytest.raises(ValueError, match=r"no function of its own; pass a `part` of it, \[\]"):
        HubLayer(tmp_path)
