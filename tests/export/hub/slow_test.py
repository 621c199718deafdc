"""TF Hub's pair with tensorflow_hub itself, in other processes, and with real weights."""

import json
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.export.hub.export import export_hub
from bert_tf.export.hub.layer import HubLayer
from bert_tf.export.hub.preprocessor import INPUTS
from bert_tf.export.hub.tokenizer_layer import TokenizerLayer
from tests import other_envs, tiny
from tests.export.hub import export_test

pytestmark = pytest.mark.slow

TEXTS = ["The film is good.", "people see the music, a bad story"]
_TF_HUB = """
import json, sys, numpy as np, tensorflow as tf, tensorflow_text, tensorflow_hub as hub
preprocessor, encoder, texts = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
found = {}
text = tf.keras.Input((), dtype=tf.string)
layer = hub.KerasLayer(encoder, trainable=True)
outputs = layer(hub.KerasLayer(preprocessor)(text))
found["pooled"] = tf.keras.Model(text, outputs["pooled_output"])(tf.constant(texts)).numpy().tolist()
model = tf.keras.Model(text, tf.keras.layers.Dense(2)(outputs["pooled_output"]))
loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
with tf.GradientTape() as tape:
    pooled = layer(hub.load(preprocessor)(tf.constant(texts)), training=True)["pooled_output"]
    value = tf.reduce_sum(pooled[:, :9] ** 2)
gradients = tape.gradient(value, layer.trainable_variables)
found["norms"] = [float(tf.norm(tf.convert_to_tensor(gradient))) for gradient in gradients]
model.compile(tf.keras.optimizers.SGD(0.1), loss)
before = [v.numpy() for v in layer.trainable_variables]
model.fit(np.array(texts, object), np.array([1, 0]), verbose=0)
found["moved"] = [bool(np.abs(v.numpy() - b).max() > 0) for v, b in zip(layer.trainable_variables, before)]
parts = hub.load(preprocessor)
tokenize = hub.KerasLayer(parts.tokenize)
pack = hub.KerasLayer(parts.bert_pack_inputs, arguments={"seq_length": 9})
a, b = (tf.keras.Input((), dtype=tf.string) for _ in range(2))
pair = tf.keras.Model([a, b], pack([tokenize(a), tokenize(b)]))
found["pair"] = pair([tf.constant(texts), tf.constant(texts[::-1])])["input_word_ids"].numpy().tolist()
mlm = hub.KerasLayer(hub.load(encoder).mlm, trainable=True)
rows = {**parts(tf.constant(texts)), "masked_lm_positions": tf.constant([[1], [2]])}
found["mlm"] = [list(mlm(rows)["mlm_logits"].shape), len(mlm.trainable_weights)]
print(json.dumps(found))
"""


def test_tensorflow_hub_drives_the_pair(pretrained, hub_pair):
    python = other_envs.tf_hub_python()
    found = json.loads(other_envs.run(python, _TF_HUB, *hub_pair, json.dumps(TEXTS)).splitlines()[-1])
    bert = bert_tf.load(pretrained)
    with tf.GradientTape() as tape:
        expected = bert.encoder(bert.tokenizer(TEXTS, max_seq_length=16), training=True)["pooled_output"]
        value = tf.reduce_sum(expected[:, :9] ** 2)
    gradients = tape.gradient(value, [variable.value for variable in bert.encoder.variables])
    norms = [float(tf.norm(tf.convert_to_tensor(gradient))) for gradient in gradients]
    np.testing.assert_allclose(found["pooled"], expected, atol=1e-5)
    np.testing.assert_allclose(found["norms"], norms, rtol=1e-3, atol=1e-5)
    assert all(found["moved"]) and len(found["moved"]) == 23  # by one step of training
    np.testing.assert_array_equal(found["pair"], bert.tokenizer(TEXTS, TEXTS[::-1], 9)["input_ids"])
    assert found["mlm"] == [[2, 1, len(tiny.VOCAB)], 28]


_ELSEWHERE = """
import json, sys
import bert_tf, keras
import tensorflow as tf
print(json.dumps([keras.models.load_model(path).predict(tf.constant(json.loads(sys.argv[1])), verbose=0).tolist()
                  for path in sys.argv[2:]]))
"""


def test_models_are_loaded_where_nothing_else_is_known(pretrained, tmp_path):
    bert = bert_tf.load(pretrained)
    paths = export_hub(pretrained, tmp_path / "hub", 16)
    text = keras.Input((), dtype="string")
    ours = bert.encoder(TokenizerLayer(bert.tokenizer, 16)(text))["pooled_output"]
    theirs = HubLayer(paths[1], trainable=True)(HubLayer(paths[0])(text))["pooled_output"]
    built = [keras.Model(text, keras.layers.Dense(2)(pooled)) for pooled in (ours, theirs)]
    for n, model in enumerate(built):
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(tf.constant(TEXTS), np.array([1, 0]), verbose=0)
        model.save(tmp_path / f"{n}.keras")
    (tmp_path / "hub").rename(tmp_path / "moved")
    files = [tmp_path / f"{n}.keras" for n in range(2)]
    given = json.loads(other_envs.run(sys.executable, _ELSEWHERE, json.dumps(TEXTS), *files).splitlines()[-1])
    for model, values in zip(built, given, strict=True):
        np.testing.assert_allclose(values, model.predict(tf.constant(TEXTS), verbose=0), atol=1e-6)


def test_twenty_steps_with_real_weights(minilm, tmp_path):
    paths = export_hub(minilm, tmp_path / "hub", 32)
    preprocessor, loaded = map(tf.saved_model.load, paths)
    own = bert_tf.load(minilm).encoder
    batches, labels = export_test.examples(preprocessor)
    head = np.random.default_rng(0).normal(0, 0.2, [384, 2]).astype(np.float32)
    ours = export_test.steps(
        lambda x: own({name: x[theirs] for name, theirs in INPUTS.items()}, training=False)["pooled_output"],
        [variable.value for variable in own.variables], batches, labels, head,
    )  # fmt: skip
    theirs = export_test.steps(lambda x: loaded(x)["pooled_output"], loaded.trainable_variables, batches, labels, head)
    np.testing.assert_allclose(theirs, ours, atol=1e-4)
    assert np.ptp(ours) > 0.05
