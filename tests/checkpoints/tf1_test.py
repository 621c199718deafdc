"""TF1 checkpoints: Google's names, equal when read back, whole or not there, readable for others."""

import os
import re

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.checkpoints import tf1
from bert_tf.checkpoints.readers import open_checkpoint
from tests import other_envs
from tests.checkpoints import fakes


class _Value(fakes.FakeVariable):
    """A fake variable that has a value which TensorFlow can take."""

    def __init__(self, path, value):
        super().__init__(path, value.shape)
        self.value = value

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.value, dtype)


def test_base_has_google_s_206_names_and_shapes(tmp_path):
    tf1.write_tf1(tmp_path / "bert_model.ckpt", [_Value(n, np.zeros(s, np.bool_)) for n, s in fakes.BASE.items()])
    found = dict(tf.train.list_variables(str(tmp_path / "bert_model.ckpt")))
    assert found == fakes.BASE and len(found) == 206
    assert sorted(os.listdir(tmp_path)) == ["bert_model.ckpt.data-00000-of-00001", "bert_model.ckpt.index"]


def test_comes_back_equal(tmp_path):
    weights = fakes.pretraining_weights(layers=1)
    weights["classifier/output_bias"] = np.array([1.0, 2.0, 3.0], np.float32)
    variables = fakes.keras_variables_for(weights)
    tf1.write_tf1(tmp_path / "model.ckpt-1", variables)
    assert "output_bias" in tf1.read_tensors(tmp_path / "model.ckpt-1")
    checkpoint = open_checkpoint(tmp_path)
    assert set(checkpoint.names) == set(weights)
    for path, array in weights.items():
        np.testing.assert_array_equal(checkpoint.get(path), array, strict=True)


def test_values_of_many_types(tmp_path):
    tensors = {
        "step": np.int64(7),
        "flag": np.array([True, False]),
        "text": tf.constant(["ä", "b"]),
        "half": tf.constant([1.5], tf.bfloat16),
        "variable": tf.Variable([[1.0, 2.0]]),
        "no_elements": np.zeros([0, 2], np.float32),
    }
    tf1.write_tensors(tmp_path / "x", tensors)
    read = tf1.read_tensors(tmp_path / "x")
    assert set(read) == set(tensors)
    for name, value in tensors.items():
        expected = tf.convert_to_tensor(value).numpy()
        assert (read[name].dtype, read[name].tolist()) == (expected.dtype, expected.tolist())


def _cut(path, share):
    os.truncate(path, int(os.path.getsize(path) * share))


def _flip(path, at):
    with open(path, "rb+") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


WHOLE = r"model.ckpt-1 is not a complete TF1 checkpoint.* Copy it again"


@pytest.mark.parametrize("ending", [".index", ".data-00000-of-00001"])
@pytest.mark.parametrize("share", [0, 0.3, 0.9, 0.999, None])
def test_a_file_cut_short_or_missing_is_one_clear_error(tmp_path, ending, share):
    tf1.write_tensors(tmp_path / "model.ckpt-1", {"a": np.random.rand(500), "b": np.random.rand(500)})
    path = f"{tmp_path}/model.ckpt-1{ending}"
    os.remove(path) if share is None else _cut(path, share)
    with pytest.raises(ValueError, match=WHOLE):
        tf1.read_tensors(tmp_path / "model.ckpt-1")


def test_no_damaged_byte_gives_other_values(tmp_path):
    tensors = {"a": np.arange(20.0), "b": np.arange(30)}
    tf1.write_tensors(tmp_path / "model.ckpt-1", tensors)
    harmless = dict.fromkeys((".index", ".data-00000-of-00001"), 0)
    for ending in harmless:
        path = f"{tmp_path}/model.ckpt-1{ending}"
        for at in range(os.path.getsize(path)):
            _flip(path, at)
            try:
                read = tf1.read_tensors(tmp_path / "model.ckpt-1")
                assert {n: v.tolist() for n, v in read.items()} == {n: v.tolist() for n, v in tensors.items()}
                harmless[ending] += 1
            except ValueError as error:
                assert re.match(f".*{WHOLE}", str(error))
            _flip(path, at)
    assert harmless[".data-00000-of-00001"] == 0
    assert harmless[".index"] < 60  # its footer is padded, and TensorFlow does not read its second, empty index


def test_a_directory_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match="no/x could not be written: .*No such file or directory"):
        tf1.write_tensors(tmp_path / "no" / "x", {"a": np.zeros(3)})


_TORCH_READS = """
import sys, numpy, torch
from transformers import BertConfig, BertForPreTraining
from transformers.models.bert.modeling_bert import load_tf_weights_in_bert
config = BertConfig(vocab_size=11, hidden_size=4, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12,
                    max_position_embeddings=7, type_vocab_size=2)
model = load_tf_weights_in_bert(BertForPreTraining(config), config, sys.argv[1])
numpy.savez(sys.argv[2], **{name: value.detach().numpy() for name, value in model.named_parameters()})
"""


@pytest.mark.slow
def test_transformers_reads_what_we_write(tmp_path):
    weights = fakes.pretraining_weights()
    tf1.write_tf1(tmp_path / "bert_model.ckpt", [_Value(path, array) for path, array in weights.items()])
    other_envs.run(other_envs.torch_tf_python(), _TORCH_READS, tmp_path / "bert_model.ckpt", tmp_path / "torch.npz")
    expected, found = fakes.to_hugging_face(weights), np.load(tmp_path / "torch.npz")
    assert set(found.files) == set(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, strict=True)
