"""A configuration is compared with the shapes in a checkpoint before the model is built."""

import dataclasses
import os
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import bert_tf
from bert_tf.checkpoints import tf1
from bert_tf.checkpoints.config_shapes import check_shapes
from bert_tf.checkpoints.names import family_mappings
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.models.encoder import Encoder
from tests import tiny

KINDS = {
    "plain": {"num_hidden_layers": 2},
    "factorized, layers shared": {"embedding_size": 8, "num_hidden_layers": 4, "num_hidden_groups": 2},
    "a table of tasks": {"task_type_vocab_size": 3},
    "no segments, no pooler": {"type_vocab_size": 0, "has_pooler": False},
    "a convolution": {"conv_kernel_size": 3},
    "a bias of relative positions": {"relative_attention_num_buckets": 8},
}
# Every field that gives a variable its shape, with a value that differs.
CHANGES = {
    "vocab_size": 99, "hidden_size": 64, "num_hidden_layers": 7, "num_hidden_groups": 1, "intermediate_size": 65,
    "max_position_embeddings": 33, "type_vocab_size": 5, "task_type_vocab_size": 4, "embedding_size": 16,
    "conv_kernel_size": 7, "relative_attention_num_buckets": 12,
}  # fmt: skip
# Or never asks for more memory than it says: pruned heads; or is seen by `assign_weights` alone: relative positions.
_SHAPELESS = {"num_attention_heads", "first_position", "local_attention", "global_attn_every_n_layers", "pruned_heads",
              "position_buckets", "max_relative_positions"}  # fmt: skip


def _encoder(**changes):
    encoder = Encoder(tiny.config(**changes))
    encoder.build()
    return encoder


@pytest.fixture(scope="module", params=KINDS)
def saved(request, tmp_path_factory):
    """A configuration and the checkpoint of its encoder."""
    encoder = _encoder(**KINDS[request.param])
    prefix = os.fspath(tmp_path_factory.mktemp("sizes") / "bert_model.ckpt")
    tf1.write_tf1(prefix, encoder.variables)
    return encoder.config, open_checkpoint(prefix)


def test_an_encoder_is_described_by_its_own_configuration(saved):
    check_shapes(saved[1], saved[0])


def test_every_field_that_shapes_a_variable_is_compared(saved):
    config, checkpoint = saved
    whole = {field.name for field in dataclasses.fields(config) if "int" in str(field.type)} - _SHAPELESS
    assert whole == set(CHANGES)
    for field, value in CHANGES.items():
        if field == "num_hidden_layers" and config.num_hidden_groups:
            continue  # layers that share weights leave no trace in them
        if field == "num_hidden_groups" and config.num_hidden_layers == 1:
            continue  # one layer is one group
        with pytest.raises(ValueError, match=rf"does not match the weights in .*: .*{value}"):
            check_shapes(checkpoint, dataclasses.replace(config, **{field: value}))


def test_layers_that_start_anew_need_not_be_there(saved):
    config, checkpoint = saved
    more = config.num_blocks + 1
    deeper = dataclasses.replace(config, num_hidden_layers=more, num_hidden_groups=None)
    check_shapes(checkpoint, deeper, new_layers=1)
    with pytest.raises(ValueError, match=f"num_hidden_layers {more}, but layers"):
        check_shapes(checkpoint, deeper)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A folder of Hugging Face's, of two layers."""
    folder = tiny.checkpoint(tmp_path_factory.mktemp("good") / "tf1", num_hidden_layers=2)
    weight_mapping, checkpoint = family_mappings.hugging_face(), open_checkpoint(folder)
    arrays = {path: checkpoint.get(path) for path in checkpoint.names}
    tensors = {
        weight_mapping.from_ours(path): np.ascontiguousarray(array.T) if weight_mapping.transposed(path) else array
        for path, array in arrays.items()
    }
    other = folder.parent / "hf"
    other.mkdir()
    save_file(tensors, other / "model.safetensors")
    for name in ("bert_config.json", "vocab.txt"):
        shutil.copy(folder / name, other / name)
    return other


def _text(old, new):
    def change(folder):
        path = folder / "bert_config.json"
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    return change


def _weights(change):
    def rewrite(folder):
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors")

    return rewrite


_FIRST, _SECOND = "bert.encoder.layer.0.", "bert.encoder.layer.1."
BROKEN = {
    "vocab_size 10^12": (
        _text('"vocab_size": 28', '"vocab_size": 1000000000000'), "vocab_size must be at most 2,147,483,647"
    ),
    "vocab_size 10^9": (
        _text('"vocab_size": 28', '"vocab_size": 1000000000'),
        r"vocab_size 1000000000, but bert/embeddings/word_embeddings of shape \(28, 32\). Use the configuration and",
    ),
    "10^9 layers": (_text('layers": 2', 'layers": 1000000000'), "num_hidden_layers must be at most 10,000"),
    "9,999 layers": (_text('layers": 2', 'layers": 9999'), "num_hidden_layers 9999, but layers 0 to 1 in the weights"),
    "a width": (_text('mediate_size": 64', 'mediate_size": 2000000000'), "intermediate_size 2000000000, but"),
    "positions": (_text('embeddings": 32', 'embeddings": 1000000000'), "max_position_embeddings 1000000000, but"),
    "one tensor of another shape": (
        _weights(lambda t: t.update({_FIRST + "output.dense.bias": np.zeros(5, np.float32)})),
        r"1 of 39 variables:\n    bert/encoder/layer_0/output/dense/bias: \(32,\) in the model, \(5,\)",
    ),
    "a table of another width": (
        _weights(lambda t: t.update({"bert.embeddings.word_embeddings.weight": np.zeros((28, 16), np.float32)})),
        r"hidden_size 32, but bert/embeddings/word_embeddings of shape \(28, 16\)",
    ),
    "one missing": (
        _weights(lambda t: t.pop(_SECOND + "output.dense.bias")),
        r"1 in the model but missing in the checkpoint:\n    bert/encoder/layer_1/output/dense/bias",
    ),
    "a whole layer missing": (
        _weights(lambda t: [t.pop(name) for name in list(t) if name.startswith(_FIRST)]),
        r"num_hidden_layers 2, but layers \[1\] in the weights",
    ),
    "one too many": (
        _weights(lambda t: t.update({"bert.adapter": np.zeros(3, np.float32)})),
        r"1 in the checkpoint but not in the model:\n    bert.adapter",
    ),
    "no word embeddings": (
        _weights(lambda t: t.pop("bert.embeddings.word_embeddings.weight")),
        "vocab_size 28, but no bert/embeddings/word_embeddings among the weights. Use",
    ),
    "integers": (
        _weights(lambda t: t.update({_FIRST + "output.dense.bias": np.zeros(32, np.int8)})),
        "must be floating-point numbers; got .* of int8; use the checkpoint before quantization",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_weights_and_configurations_that_contradict_each_other(good, tmp_path, case):
    change, message = BROKEN[case]
    folder = shutil.copytree(good, tmp_path / "model")
    change(folder)
    with pytest.raises(ValueError, match=message) as error:
        bert_tf.load(folder)
    assert str(folder) in str(error.value)


def test_the_folder_that_was_broken_is_good(good):
    assert bert_tf.load(good).config.num_hidden_layers == 2


def test_google_s_own_albert_is_refused_by_its_names(good, tmp_path):
    checkpoint = open_checkpoint(good)
    theirs = "bert/encoder/transformer/group_0/inner_group_"
    arrays = {path.replace("bert/encoder/layer_", theirs): checkpoint.get(path) for path in checkpoint.names}
    tf1.write_tensors(os.fspath(tmp_path / "model.ckpt-best"), arrays)
    for name in ("bert_config.json", "vocab.txt"):
        shutil.copy(good / name, tmp_path / name)
    with pytest.raises(ValueError, match="layers without numbers in the weights; unknown names: ") as e:
        bert_tf.load(tmp_path / "model.ckpt-best")
    assert f"'{theirs}0/attention/output/LayerNorm/beta'" in str(e.value)
