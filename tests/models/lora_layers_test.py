"""Adapters and heads that are gone, in the layers: the harness, and the encoder that holds them."""

import dataclasses

import numpy as np
import pytest

from bert_tf.models.attention import SelfAttention, attention_bias
from bert_tf.models.config import EncoderConfig
from bert_tf.models.encoder import Encoder
from bert_tf.models.layers import Linear
from bert_tf.models.lora import Lora, is_adapter
from tests import tiny
from tests.harness import check_layer, randomize

LORA = {"rank": 2, "alpha": 3.0, "targets": ["query", "output"]}
X = np.random.default_rng(0).standard_normal((3, 5, 8)).astype(np.float32)
IDS = {"input_ids": np.array([[2, 5, 9, 14, 3], [2, 6, 7, 3, 0]], np.int32)}


@pytest.mark.slow
def test_linear(tmp_path):
    arguments = {"units": 5, "activation": "gelu_tanh", "lora": LORA, "name": "dense"}
    shapes = {"dense/kernel": (8, 5), "dense/bias": (5,), "dense/lora_A": (8, 2), "dense/lora_B": (2, 5)}
    layer = check_layer(Linear, arguments, (X,), shapes, tmp_path)
    kernel, bias, a, b = layer.get_weights()
    plain = Linear(5, "gelu_tanh")
    plain.build(X.shape)
    plain.set_weights([kernel + 3 / 2 * a @ b, bias])
    np.testing.assert_allclose(layer(X), plain(X), atol=1e-5)
    np.testing.assert_allclose(layer(X, training=True), plain(X, training=True), atol=1e-5)


@pytest.mark.slow
def test_attention_of_heads_narrower_than_its_input(tmp_path):
    arguments = {"num_heads": 3, "head_width": 2, "lora": LORA, "name": "attention"}
    shapes = {f"attention/self/{part}/{name}": shape for part in ("query", "key", "value")
              for name, shape in (("kernel", (8, 6)), ("bias", (6,)))}  # fmt: skip
    shapes |= {"attention/output/dense/kernel": (6, 8), "attention/output/dense/bias": (8,)}
    shapes |= {f"attention/output/LayerNorm/{name}": (8,) for name in ("gamma", "beta")}
    shapes |= {"attention/self/query/lora_A": (8, 2), "attention/self/query/lora_B": (2, 6)}
    shapes |= {"attention/output/dense/lora_A": (6, 2), "attention/output/dense/lora_B": (2, 8)}
    bias = attention_bias(np.ones((3, 5), np.int32)).numpy()
    layer = check_layer(SelfAttention, arguments, (X, bias), shapes, tmp_path, unmoved=["key/bias"])
    assert layer(X, bias, return_probs=True)[1].shape == (3, 3, 5, 5)


def test_new_adapters_do_nothing_and_alone_can_be_trained():
    config = tiny.config(num_hidden_layers=2, lora=Lora(2, 4.0))
    encoder, plain = Encoder(config), Encoder(dataclasses.replace(config, lora=None))
    encoder.build()
    plain.build()
    for variable in plain.variables:
        variable.assign(next(v for v in encoder.variables if v.path == variable.path))
    np.testing.assert_array_equal(encoder(IDS)["pooled_output"], plain(IDS)["pooled_output"])
    free = {v.path for v in encoder.trainable_variables}
    adapters = {v.path for v in encoder.variables if is_adapter(v.path)}
    assert free == adapters | {"bert/pooler/dense/kernel", "bert/pooler/dense/bias"}
    assert adapters == {f"bert/encoder/layer_{n}/attention/self/{part}/lora_{m}" for n in (0, 1)
                        for part in ("query", "value") for m in "AB"}  # fmt: skip
    randomize(encoder)
    again = Encoder.from_config(encoder.get_config())
    again.build()
    again.set_weights(encoder.get_weights())
    np.testing.assert_array_equal(again(IDS)["pooled_output"], encoder(IDS)["pooled_output"])
    assert {v.path for v in again.trainable_variables} == free
    again.trainable = False
    assert not again.trainable_variables
    again.trainable = True
    assert {v.path for v in again.trainable_variables} == free, "the weights that adapters stand for stay frozen"


def test_probabilities_of_layers_with_fewer_heads():
    encoder = Encoder(tiny.config(num_hidden_layers=2, num_attention_heads=4, pruned_heads={1: [0, 3]}))
    probs = encoder(IDS, return_attention_probs=True)["attention_probs"]
    assert [p.shape[1] for p in probs] == [4, 2]
    symbolic = encoder.compute_output_spec(IDS, return_attention_probs=True)
    assert [p.shape[1] for p in symbolic["attention_probs"]] == [4, 2]


@pytest.mark.parametrize(
    "values", [(0, 1.0), (2, 0), (True, 1.0), (2, "1"), (2, 1.0, ()), (2, 1.0, ("query", "query")), (2, 1.0, ("word",))]
)
def test_adapters_out_of_range(values):
    with pytest.raises(ValueError, match=r"`lora_(rank|targets)` must be .* got "):
        Lora(*values)


def test_a_configuration_keeps_them(tmp_path):
    config = tiny.config(lora=Lora(2, 4, ("key", "output")))
    config.save(tmp_path / "bert_config.json")
    assert EncoderConfig.load(tmp_path) == config and config.lora.scale == 2
    for wrong in (2, {"rank": 2}, {"rank": 2, "alpha": 1, "dropout": 0.1}):
        with pytest.raises(ValueError, match="lora must contain .'rank', 'alpha', 'targets'.. got "):
            tiny.config(lora=wrong)
