"""Families whose published checkpoints come with code, which is never run: what their config.json says is followed."""

import dataclasses
import json
import logging
import re

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import bert_tf
from bert_tf.checkpoints.joined_weights import JoinedWeights, split_joined
from bert_tf.checkpoints.names.rows import JoinedName
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.models.config import EncoderConfig, config_for
from bert_tf.models.rotary_positions import rotation
from tests import parity, tiny

# config.json of nomic-embed-text-v1.5, and of gte-multilingual-base.
NOMIC = {
    "activation_function": "swiglu", "architectures": ["NomicBertModel"], "attn_pdrop": 0.0,
    "auto_map": {"AutoModel": "nomic-ai/nomic-bert-2048--modeling_hf_nomic_bert.NomicBertModel"},
    "bos_token_id": None, "causal": False, "dense_seq_output": True, "embd_pdrop": 0.0, "eos_token_id": None,
    "fused_bias_fc": True, "fused_dropout_add_ln": True, "initializer_range": 0.02, "layer_norm_epsilon": 1e-12,
    "max_trained_positions": 2048, "mlp_fc1_bias": False, "mlp_fc2_bias": False, "model_type": "nomic_bert",
    "n_embd": 768, "n_head": 12, "n_inner": 3072, "n_layer": 12, "n_positions": 8192, "pad_vocab_size_multiple": 64,
    "parallel_block": False, "parallel_block_tied_norm": False, "prenorm": False, "qkv_proj_bias": False,
    "reorder_and_upcast_attn": False, "resid_pdrop": 0.0, "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False, "rotary_emb_scale_base": None, "rotary_scaling_factor": None,
    "scale_attn_by_inverse_layer_idx": False, "scale_attn_weights": True, "summary_activation": None,
    "summary_first_dropout": 0.0, "summary_proj_to_labels": True, "summary_type": "cls_index",
    "summary_use_proj": True, "torch_dtype": "float32", "transformers_version": "4.37.2", "type_vocab_size": 2,
    "use_cache": True, "use_flash_attn": True, "use_rms_norm": False, "use_xentropy": True, "vocab_size": 30528,
}  # fmt: skip
GTE = {
    "architectures": ["NewModel"], "attention_probs_dropout_prob": 0.0,
    "auto_map": {"AutoModel": "Alibaba-NLP/new-impl--modeling.NewModel"}, "classifier_dropout": 0.0,
    "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02,
    "intermediate_size": 3072, "layer_norm_eps": 1e-12, "layer_norm_type": "layer_norm",
    "logn_attention_clip1": False, "logn_attention_scale": False, "max_position_embeddings": 8192,
    "model_type": "new", "num_attention_heads": 12, "num_hidden_layers": 12, "pack_qkv": True, "pad_token_id": 1,
    "position_embedding_type": "rope", "rope_scaling": {"factor": 8.0, "type": "ntk"}, "rope_theta": 20000,
    "torch_dtype": "float16", "transformers_version": "4.39.1", "type_vocab_size": 1, "unpad_inputs": False,
    "use_memory_efficient_attention": False, "vocab_size": 250048,
}  # fmt: skip


def _but(config, **changes):
    return {key: value for key, value in {**config, **changes}.items() if value != "absent"}


@pytest.mark.parametrize("values, size", [(NOMIC, "nomic-embed-text"), (GTE, "gte-multilingual-base")])
def test_every_key_of_a_published_file_is_known(values, size, tmp_path, caplog):
    (tmp_path / "config.json").write_text(json.dumps(values), encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        config = EncoderConfig.load(tmp_path)
    assert not caplog.records
    expected = {**config_for(size).to_dict(), **config.extra, "hidden_dropout_prob": config.hidden_dropout_prob}
    assert {**config.to_dict(), **config.extra} == expected
    config.save(tmp_path / "bert_config.json")
    assert EncoderConfig.load(tmp_path) == config


def test_the_forms_of_a_file_mean_the_same():
    config = EncoderConfig.from_dict(NOMIC)
    shape = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
    own = {"model_type": "nomic_bert", "vocab_size": 30528, "max_position_embeddings": 8192, "hidden_act": "silu",
           "head_dim": 64, "rope_parameters": {"rope_type": "default", "rope_theta": 1000}, **shape}  # fmt: skip
    ours = EncoderConfig.from_dict(own).to_dict()  # of Transformers 5, whose masked-LM head has biases
    differ = {name for name in ours if ours[name] != config.to_dict().get(name)}
    assert differ == {"classifier_bias", "decoder_bias"} and not config.decoder_bias
    assert EncoderConfig.from_dict(_but(NOMIC, vocab_size=30522)) == config  # padded to a multiple of 64
    assert EncoderConfig.from_dict(_but(GTE, rope_scaling=None)).rope_ntk_factor is None
    assert EncoderConfig.from_dict(_but(GTE, rope_scaling={"rope_type": "ntk", "factor": 8})).rope_ntk_factor == 8


def test_scaling_by_the_length_of_other_texts_limits_the_length(caplog):
    with caplog.at_level(logging.WARNING):
        config = EncoderConfig.from_dict(_but(NOMIC, rotary_scaling_factor=2))
    assert config.max_length == 2048 and "the maximum is 2048 tokens, not 8192" in caplog.text
    assert EncoderConfig.from_dict(config.to_dict()) == config
    assert EncoderConfig.from_dict(_but(NOMIC, rotary_scaling_factor=2, n_positions=512)).max_length == 512


@pytest.mark.parametrize(
    "values, message",
    [
        (_but(NOMIC, prenorm=True), "prenorm must be False or absent for this model_type; got True"),
        (_but(NOMIC, use_rms_norm=True), "use_rms_norm must be False or absent for this model_type; got True"),
        (_but(NOMIC, parallel_block=True), "parallel_block must be False or absent"),
        (_but(NOMIC, causal=True), "causal must be False or absent"),
        (_but(NOMIC, rotary_emb_interleaved=True), "rotary_emb_interleaved must be False or absent"),
        (_but(NOMIC, rotary_emb_scale_base=512), "rotary_emb_scale_base must be None or absent"),
        (_but(NOMIC, rotary_emb_fraction=0.5), "rotary_emb_fraction must be 1.0 or absent"),
        (_but(NOMIC, rotary_emb_fraction="absent"), "rotary_emb_fraction must be 1.0 for this model_type; got"),
        (_but(NOMIC, qkv_proj_bias=True), "qkv_proj_bias must be False or absent for this model_type; got True"),
        (_but(NOMIC, mlp_fc1_bias="absent"), "mlp_fc1_bias must be false for this model_type; got none, wh"),
        (_but(NOMIC, mlp_fc2_bias=True), "mlp_fc2_bias must be False or absent"),
        (_but(NOMIC, activation_function="gelu"), "activation_function must be 'swiglu' or absent"),
        (_but(NOMIC, moe_every_n_layers=2), "moe_every_n_layers must be 0 or absent, because all tokens pass through"),
        (_but(NOMIC, num_heads_kv=4), "num_heads_kv must be null or absent"),
        (_but(NOMIC, n_inner=None), "n_inner must be set for this model_type; got none"),
        (_but(NOMIC, rotary_emb_base=None), "rotary_emb_base must be a positive number for this model_type; got"),
        (_but(NOMIC, head_dim=32), "head_dim must be 64, hidden_size / num_attention_heads, or absent; got 32"),
        (_but(NOMIC, rope_parameters={"rope_type": "yarn", "rope_theta": 1000}), "rope_parameters must have the rope_"),
        (_but(GTE, logn_attention_scale=True), "logn_attention_scale must be False or absent"),
        (_but(GTE, logn_attention_clip1=True), "logn_attention_clip1 must be False or absent"),
        (_but(GTE, layer_norm_type="rms_norm"), "layer_norm_type must be 'layer_norm' or absent for this mode"),
        (_but(GTE, position_embedding_type="absolute"), "position_embedding_type must be 'rope' or absent"),
        (_but(GTE, rope_theta=None), "rope_theta must be a positive number for this model_type; got null"),
        (_but(GTE, rope_scaling={"type": "dynamic", "factor": 2.0}), "rope_scaling must have the type ntk and"),
        (_but(GTE, rope_scaling={"type": "ntk", "factor": 2.0, "mixed_b": 0.6}), "rope_scaling must have the "),
        (_but(GTE, rope_scaling={"type": "ntk", "factor": 0.5}), "rope_scaling must have the type ntk and a factor of"),
        (_but(GTE, rope_parameters={"rope_theta": 5}), "rope_parameters must be absent for this model_type: rope_t"),
    ],
)
def test_what_is_computed_otherwise_is_refused_by_name(values, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        EncoderConfig.from_dict(values)


def test_scaled_positions_turn_more_slowly():
    """By hand, of a head of width 4, base 100 and factor 16: angles 1 / 16^(1/2) and 1 / 10 / 16."""
    plain, scaled = (np.arctan2(*rotation(np.array([[1]]), 4, 100.0, factor)[::-1])[0, 0, 0] for factor in (None, 16.0))
    np.testing.assert_allclose(plain, [1, 0.1], rtol=1e-6)
    np.testing.assert_allclose(scaled, [1 / 4, 0.1 / 16], rtol=1e-6)
    with pytest.raises(ValueError, match="rope_ntk_factor requires global_rope_theta; got none."):
        tiny.config(rope_ntk_factor=2.0)


@pytest.mark.parametrize(
    "case",
    ["nomic", *(pytest.param(name, marks=pytest.mark.slow)
                for name in ("nomic-biased", "nomic-classifier", "gte", "gte-parts", "gte-classifier"))],
)  # fmt: skip
def test_published_folders_are_written_as_they_were(case, tmp_path):
    golden = parity.GOLDENS / "families" / case
    for file in ("config.json", "model.safetensors"):
        (tmp_path / file).write_bytes((golden / file).read_bytes())
    size = json.loads((golden / "config.json").read_text(encoding="utf-8"))["vocab_size"]
    words = [*tiny.VOCAB, *(f"w{n}" for n in range(size - len(tiny.VOCAB)))]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    bert = bert_tf.load(tmp_path)
    bert_tf.save(bert, tmp_path / "again", "huggingface")
    old, new = (load_file(path / "model.safetensors") for path in (golden, tmp_path / "again"))
    if case == "gte-parts":  # written in one
        old = _packed(old)
    old = {name if name.startswith("nomic_") else name.replace("bert.", "nomic_bert."): old[name] for name in old}
    assert old.keys() <= new.keys() and all("pooler" in name for name in new.keys() - old.keys())
    assert all(np.array_equal(old[name].astype(np.float32), new[name]) for name in old)
    folders = golden, tmp_path / "again"
    before, after = (json.loads((path / "config.json").read_text(encoding="utf-8")) for path in folders)
    changed = {key for key in before if key in after and before[key] != after[key]}
    # The vocabulary above pads with 0; the published class of a masked LM has another name than Transformers'.
    assert changed <= {"pad_token_id", "architectures", "pack_qkv"} and after.get("pack_qkv", True)
    # Weights with these names are those of Transformers' classes, not of the published code.
    assert ("auto_map" in after) == ("auto_map" in before and not case.startswith("nomic"))
    config, again = (EncoderConfig.load(path) for path in folders)
    assert dataclasses.replace(again, extra=config.extra) == config


def _packed(weights):
    found = dict(weights)
    for name in [name for name in weights if ".q_proj." in name]:
        parts = [found.pop(name.replace("q_proj", f"{letter}_proj")) for letter in "qkv"]
        found[name.replace("q_proj", "qkv_proj")] = np.concatenate(parts)
    return found


class _File:
    def __init__(self, **arrays):
        self.arrays = arrays
        self.shapes = {name: array.shape for name, array in arrays.items()}

    def read(self, name):
        return self.arrays[name]


def test_weights_in_several_arrays_are_read_as_one():
    joined = JoinedName("map.ab", ("map.b", "map.a"))
    one, two, kept = np.ones((2, 3)), np.zeros((2, 3)), np.ones(1)
    file = JoinedWeights(_File(**{"0.map.a": two, "0.map.b": one, "map.b": one, "map.a": two, "other": kept}), [joined])
    assert file.shapes == {"0.map.ab": (4, 3), "map.ab": (4, 3), "other": (1,)}
    np.testing.assert_array_equal(file.read("0.map.ab"), np.concatenate([one, two]))
    parts = split_joined({"0.map.ab": file.read("0.map.ab"), "other": kept}, [joined])
    assert parts.keys() == {"0.map.b", "0.map.a", "other"} and np.array_equal(parts["0.map.a"], two)
    for wrong in ({"map.b": one}, {"map.b": one, "map.a": np.ones((2, 4))}, {"map.b": np.ones(()), "map.a": two},
                  {"bigmap.b": one, "bigmap.a": one}):  # fmt: skip
        assert JoinedWeights(_File(**wrong), [joined]).shapes == _File(**wrong).shapes


def test_a_missing_part_of_a_weight_is_named(tmp_path):
    golden = parity.GOLDENS / "families" / "nomic"
    weights = load_file(golden / "model.safetensors")
    gone = "bert.encoder.layers.1.mlp.fc11.weight"
    save_file({name: array for name, array in weights.items() if name != gone}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_bytes((golden / "config.json").read_bytes())
    checkpoint = open_checkpoint(tmp_path)
    assert checkpoint.unknown == [gone.replace("fc11", "fc12")]
    assert "bert/encoder/layer_1/intermediate/dense/kernel" not in checkpoint.names
