"""The fast forward pass: equal to the model's in every configuration, whole and in parts, each weight held once."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.export.cpu.encoder import FastEncoder
from bert_tf.export.cpu.int8_ranges import RangedInt8, RecordingFloats
from bert_tf.export.cpu.products import Floats, Int8
from bert_tf.models.config import EncoderConfig
from bert_tf.models.encoder import Encoder
from bert_tf.models.lora import Lora
from tests.harness import numbers, randomize
from tests.processor import needs_int8

CONFIG = EncoderConfig(
    vocab_size=30, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12,
    max_position_embeddings=10,
)  # fmt: skip

MODERN = {
    "global_rope_theta": 50.0, "local_rope_theta": 9.0, "local_attention": 2, "global_attn_every_n_layers": 2,
    "norm_first": True, "gated_mlp": True, "first_attention_norm": False, "norm_bias": False,
    "attention_bias": False, "mlp_bias": False, "hidden_act": "gelu",
}  # fmt: skip
DISENTANGLED = {
    "pos_att_type": ("c2p", "p2c"), "position_buckets": 4, "position_biased_input": False, "type_vocab_size": 0,
    "hidden_act": "gelu",
}  # fmt: skip
BIASED = {"relative_attention_num_buckets": 6, "first_position": 2, "max_position_embeddings": 12,
          "type_vocab_size": 0}  # fmt: skip
SWIGLU = {
    "global_rope_theta": 50.0, "gated_mlp": True, "attention_bias": False, "mlp_bias": False, "hidden_act": "silu",
}  # fmt: skip
SCALED = {
    "global_rope_theta": 50.0, "rope_ntk_factor": 4.0, "gated_mlp": True, "mlp_input_bias": False,
    "type_vocab_size": 0, "hidden_act": "gelu",
}  # fmt: skip
MASKS = {
    "packed": (np.arange(10) < np.array([10, 1, 3, 2, 4, 1])[:, np.newaxis]).astype(np.int32),
    "padded": (np.arange(10) < np.array([10, 9])[:, np.newaxis]).astype(np.int32),
    "one": np.ones((1, 7), np.int32),
}


def _encoder(**changes):
    encoder = Encoder(dataclasses.replace(CONFIG, **changes))
    encoder.build()
    randomize(encoder)
    return encoder


def _features(mask):
    ids = np.random.default_rng(0).integers(4, 30, mask.shape, np.int32)
    return {"input_ids": ids, "input_mask": mask, "segment_ids": ids % 2 * mask}


def _traced(fast, features):
    specs = {name: tf.TensorSpec([None, None], tf.int32) for name in features}
    return tf.function(fast, input_signature=[specs], autograph=False).get_concrete_function()


def _ranges(encoder, features):
    recording = RecordingFloats()
    FastEncoder(encoder, recording)(features)
    return {key: most.numpy() for key, most in recording.found.items()}


def _arithmetic(kind, encoder, features):
    return RangedInt8(_ranges(encoder, features)) if kind == "ranged" else Int8() if kind == "int8" else Floats(kind)


MORE = (
    {"classifier_pooling": "mean"},
    {"norm_first": True, "hidden_act": "relu"},
    {"first_position": 2, "max_position_embeddings": 12, "type_vocab_size": 0, "has_pooler": False},
    {"task_type_vocab_size": 3, "pruned_heads": {0: [1]}},
    {"lora": Lora(2, 4.0, ("query", "value", "output"))},
    {"global_rope_theta": 50.0, "local_attention": 4, "global_attn_every_n_layers": 2, "type_vocab_size": 0},
    {**BIASED, "num_attention_heads": 4, "pruned_heads": {1: [0, 2]}},
    SWIGLU,
    {"pos_att_type": ("p2c",), "pruned_heads": {1: [0]}, "lora": Lora(2, 4.0, ("query", "key"))},
)


@pytest.mark.parametrize("parts", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        MODERN,
        {**DISENTANGLED, "num_hidden_layers": 1},
        *(
            pytest.param(changes, marks=pytest.mark.slow)
            for changes in (
                {"is_decoder": True},
                {"num_hidden_layers": 3, "num_hidden_groups": 1, "embedding_size": 6},
                BIASED,
                SCALED,
                {"conv_kernel_size": 3, "conv_act": "gelu"},
                *MORE,
            )
        ),
    ],
    ids=str,
)
def test_it_computes_what_the_model_does(changes, parts):
    encoder = _encoder(**changes)
    computed = _traced(FastEncoder(encoder, Floats(), parts), _features(MASKS["one"]))
    for mask in MASKS.values():
        features = _features(mask)
        plain, fast = encoder(features), computed(features)
        assert fast.keys() == plain.keys()
        np.testing.assert_allclose(fast["pooled_output"], plain["pooled_output"], atol=1e-5)
        names = "sequence_output", "embedding_output"
        pairs = [(fast[name], plain[name]) for name in names]
        for ours, true in [*pairs, *zip(fast["encoder_outputs"], plain["encoder_outputs"], strict=True)]:
            assert ours.shape == true.shape
            np.testing.assert_allclose(ours[mask > 0], true[mask > 0], atol=1e-5)


def test_local_layers_compute_no_score_beyond_their_windows(monkeypatch):
    encoder = _encoder(**MODERN, num_hidden_layers=4, max_position_embeddings=600)
    fast, matmul, shapes = FastEncoder(encoder, Floats()), tf.matmul, []

    def recorded(*args, **kwargs):
        product = matmul(*args, **kwargs)
        shapes.append(tuple(product.shape[-2:]))
        return product

    monkeypatch.setattr(tf, "matmul", recorded)
    fast(_features(np.ones((1, 600), np.int32)))
    whole = sum(not encoder.config.is_local(layer) for layer in range(4))
    assert shapes.count((600, 600)) == whole == 2


def test_a_sequence_of_more_tokens_than_positions_is_refused():
    fast = FastEncoder(_encoder(num_hidden_layers=1), Floats())
    features = _features(np.ones((1, CONFIG.max_position_embeddings + 1), np.int32))
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not in"):
        _traced(fast, features)(features)
    features = _features(np.ones((1, 11), np.int32))
    with pytest.raises(ValueError, match=r"at most max_position_embeddings = 10 tokens; got 11; truncate"):
        FastEncoder(_encoder(**MODERN), Floats())(features)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "bfloat16",
        pytest.param("int8", marks=needs_int8),
        pytest.param("ranged", marks=[needs_int8, pytest.mark.slow]),
    ],
)
@pytest.mark.parametrize("parts", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_act": "gelu"},
        pytest.param(MODERN, marks=pytest.mark.slow),
        pytest.param(DISENTANGLED, marks=pytest.mark.slow),
        pytest.param(BIASED, marks=pytest.mark.slow),
        pytest.param({"conv_kernel_size": 3}, marks=pytest.mark.slow),
        pytest.param(SWIGLU, marks=pytest.mark.slow),
        pytest.param(SCALED, marks=pytest.mark.slow),
    ],
    ids=["bert", "modern", "deberta", "mpnet", "convolution", "swiglu", "scaled"],
)
def test_fewer_bits_are_near_and_every_text_is_computed_alone(kind, parts, changes):
    encoder, features = _encoder(**changes), _features(MASKS["packed"])
    fast = _traced(FastEncoder(encoder, _arithmetic(kind, encoder, features), parts), features)
    ours, mask = fast(features), features["input_mask"] > 0
    true = encoder(features)["sequence_output"].numpy()[mask]
    assert 0 < np.linalg.norm(numbers(ours["sequence_output"])[mask] - true) / np.linalg.norm(true) < 0.03
    for n in range(len(mask)):
        alone = fast({name: values[n : n + 1, : mask[n].sum()] for name, values in features.items()})
        together = numbers(ours["pooled_output"])[n : n + 1]
        np.testing.assert_allclose(numbers(alone["pooled_output"]), together, atol=1e-5 if kind != "bfloat16" else 0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "operation"), [("int8", "QuantizedMatMulWithBiasAndDequantize"),
                                                 ("ranged", "_QuantizedMatMul")])  # fmt: skip
def test_kernels_that_layers_share_are_there_once(kind, operation):
    encoder = _encoder(num_hidden_layers=3, num_hidden_groups=1, hidden_act="gelu", intermediate_size=64)
    features = _features(MASKS["one"])
    fast = FastEncoder(encoder, _arithmetic(kind, encoder, features), 2)
    operations = _traced(fast, features).graph.get_operations()
    integers = sum(np.prod(each.shape) for each in fast.arithmetic.weights if each.dtype == "int8")
    H, pooler = CONFIG.hidden_size, CONFIG.hidden_size**2
    assert integers == 4 * H * H + 2 * H * 64 + (pooler if kind == "int8" else 0)
    assert [each.type for each in operations].count(operation) == 3 * 2 * 4 + (kind == "int8")


def test_a_text_is_not_mixed_with_what_fills_the_flat_list_up():
    fill = tf.function(RangedInt8({}).fill_up, input_signature=[tf.TensorSpec([None], tf.int32)])
    for number in (1, 7, 8, 9, 16, 63, 64, 65, 127, 128, 129, 1000, 3000):
        tokens = np.arange(1, number + 1, dtype=np.int32)
        filled = fill(tokens).numpy()
        assert number <= len(filled) < max(number * 1.13, number + 8) and len(filled) % 8 == 0
        np.testing.assert_array_equal(filled[:number], tokens)
        assert not filled[number:].any()
    assert len({len(fill(tf.ones(n, tf.int32))) for n in range(129, 513)}) == 16
