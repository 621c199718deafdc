"""open_checkpoint: every kind of place that weights come from, and clear words where they do not."""

import json
import os
import pathlib
import shutil

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from bert_tf.checkpoints import tf1
from bert_tf.checkpoints.readers import hash_weights, open_checkpoint
from tests.checkpoints import fakes


@pytest.fixture(scope="module")
def weights():
    return fakes.pretraining_weights()


def _assert_holds(checkpoint, weights):
    assert set(checkpoint.names) == set(weights)
    assert checkpoint.unknown == []
    for path, array in weights.items():
        assert checkpoint.shape(path) == array.shape
        np.testing.assert_array_equal(checkpoint.get(path), array, strict=True)


@pytest.mark.parametrize("prefix", ["bert.", ""])
def test_hugging_face_and_sentence_transformers_directories(tmp_path, weights, prefix):
    folder = fakes.save_hugging_face(tmp_path / "hf", fakes.to_hugging_face(weights, prefix))
    for path in (folder, folder / "model.safetensors"):
        checkpoint = open_checkpoint(path)
        _assert_holds(checkpoint, weights)
        assert (checkpoint.format, checkpoint.path) == ("safetensors", str(folder / "model.safetensors"))


def _shard(tmp_path, tensors):
    names = sorted(tensors)
    files = {name: f"model-{1 + i % 2:05d}-of-00002.safetensors" for i, name in enumerate(names)}
    for file in set(files.values()):
        save_file({name: tensors[name] for name in names if files[name] == file}, tmp_path / file)
    index = {"metadata": {}, "weight_map": files}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


def test_sharded(tmp_path, weights):
    _shard(tmp_path, fakes.to_hugging_face(weights))
    _assert_holds(open_checkpoint(tmp_path), weights)
    _assert_holds(open_checkpoint(tmp_path / "model.safetensors.index.json"), weights)
    os.remove(tmp_path / "model-00002-of-00002.safetensors")
    for read in (open_checkpoint, hash_weights):
        with pytest.raises(ValueError, match="is missing next to it: 'model-00002-of-00002.safetensors'"):
            read(tmp_path)


def test_the_hash_is_of_the_shards_too(tmp_path, weights):
    """The index of a fine-tuned model is that of its pretrained one."""
    _shard(tmp_path, fakes.to_hugging_face(weights))
    index, hashed = tmp_path / "model.safetensors.index.json", hash_weights(tmp_path)
    before = index.read_bytes()
    _shard(tmp_path, {name: array + 1 for name, array in fakes.to_hugging_face(weights).items()})
    assert index.read_bytes() == before and hash_weights(tmp_path) != hashed


@pytest.mark.parametrize("index", ['{"weight_map": {"a": ', "[]", '{"weight_map": {"a": "../a.safetensors"}}'])
def test_a_bad_index(tmp_path, index):
    (tmp_path / "model.safetensors.index.json").write_text(index, encoding="utf-8")
    with pytest.raises(ValueError, match=r"model.safetensors.index.json (must be|is missing)"):
        open_checkpoint(tmp_path)


def test_torch_bin_and_its_shards(tmp_path):
    source = pathlib.Path(__file__).parent / "data" / "zip.bin"
    shutil.copy(source, tmp_path / "pytorch_model.bin")
    checkpoint = open_checkpoint(tmp_path)
    assert (checkpoint.format, len(checkpoint.unknown)) == ("torch_bin", 19)
    os.rename(tmp_path / "pytorch_model.bin", tmp_path / "pytorch_model-00001-of-00001.bin")
    index = {"weight_map": {"whole": "pytorch_model-00001-of-00001.bin"}}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(index), encoding="utf-8")
    checkpoint = open_checkpoint(tmp_path)
    assert (checkpoint.format, checkpoint.unknown) == ("sharded torch_bin", ["whole"])


def test_a_checkpoint_of_lightning(tmp_path):
    """Its weights, under `state_dict`, are those of a module with a model of Transformers as an attribute."""
    source = pathlib.Path(__file__).parent / "data" / "nested.bin"
    shutil.copy(source, tmp_path / "epoch=1.ckpt")
    for path in (tmp_path, tmp_path / "epoch=1.ckpt"):
        checkpoint = open_checkpoint(path)
        assert (checkpoint.format, len(checkpoint.unknown)) == ("torch_bin", 19)
        assert checkpoint.path.endswith("epoch=1.ckpt")
    shutil.copy(source, tmp_path / "last.ckpt")
    with pytest.raises(ValueError, match="several PyTorch Lightning checkpoints: epoch=1.ckpt, last.ckpt. P"):
        open_checkpoint(tmp_path)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_every_floating_type_comes_as_float32(tmp_path, dtype):
    array = np.array([[1, 2, 3], [4, 5, 6]]).astype(dtype)
    save_file({"pooler.dense.weight": array}, tmp_path / "model.safetensors")
    read = open_checkpoint(tmp_path).get("bert/pooler/dense/kernel")
    np.testing.assert_array_equal(read, np.array([[1, 4], [2, 5], [3, 6]], np.float32), strict=True)
    tf1.write_tensors(tmp_path / "x.ckpt", {"bert/pooler/dense/kernel": array})
    read = open_checkpoint(tmp_path / "x.ckpt").get("bert/pooler/dense/kernel")
    np.testing.assert_array_equal(read, np.array([[1, 2, 3], [4, 5, 6]], np.float32), strict=True)


def test_tied_and_unused_names_are_left_out(tmp_path, weights):
    tensors = fakes.to_hugging_face(weights)
    tensors["bert.embeddings.position_ids"] = np.arange(7)[None]
    tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"]
    tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"]
    checkpoint = open_checkpoint(fakes.save_hugging_face(tmp_path, tensors))
    _assert_holds(checkpoint, weights)
    expected = ["bert.embeddings.position_ids", "cls.predictions.decoder.bias", "cls.predictions.decoder.weight"]
    assert sorted(checkpoint.left_out) == expected


def test_tf1_by_prefix_by_file_and_by_directory(tmp_path, weights):
    training = {"global_step": np.int64(3), "bert/pooler/dense/bias/adam_m": np.zeros(4, np.float32)}
    tf1.write_tensors(tmp_path / "bert_model.ckpt", weights | training)
    names = ["bert_model.ckpt", "bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001", ""]
    for checkpoint in (open_checkpoint(tmp_path / name) for name in names):
        _assert_holds(checkpoint, weights)
        assert sorted(checkpoint.left_out) == ["bert/pooler/dense/bias/adam_m", "global_step"]
        assert (checkpoint.format, checkpoint.path) == ("tf1", str(tmp_path / "bert_model.ckpt"))


def test_which_of_several_tf1_checkpoints(tmp_path):
    for step in (9, 100, 101):
        tf1.write_tensors(tmp_path / f"model.ckpt-{step}", {"bert/pooler/dense/bias": np.full(4, step, np.float32)})
    os.remove(tmp_path / "model.ckpt-101.data-00000-of-00001")
    assert open_checkpoint(tmp_path).path.endswith("model.ckpt-100")  # the highest that has both files
    state = tmp_path / "checkpoint"
    state.write_text('model_checkpoint_path: "/somewhere/else/model.ckpt-9"\n', encoding="utf-8")
    assert open_checkpoint(tmp_path).path == str(tmp_path / "model.ckpt-9")
    state.write_text('model_checkpoint_path: "model.ckpt-101"\n', encoding="utf-8")
    with pytest.raises(ValueError, match="model.ckpt-101 is not a complete .* no file .data-00000-of-00001"):
        open_checkpoint(tmp_path)
    state.write_text('model_checkpoint_path: "model.ckpt-7"\n', encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"names model.ckpt-7, but model.ckpt-7.index does not exist. .*-100"
    ):
        open_checkpoint(tmp_path)
    state.write_text("what: ever", encoding="utf-8")
    with pytest.raises(ValueError, match="checkpoint does not name the latest checkpoint"):
        open_checkpoint(tmp_path)


def test_nothing_there(tmp_path):
    (tmp_path / "readme.txt").touch()
    with pytest.raises(
        ValueError, match=r"No weights in .*: expected one of \['model.safetensors'.*It contains \['readme.txt'\]"
    ):
        open_checkpoint(tmp_path)
    (tmp_path / "model.onnx").touch()
    with pytest.raises(ValueError, match=r"\['model.onnx', 'readme.txt'\]; .onnx is not supported\."):
        open_checkpoint(tmp_path)
    (tmp_path / "model.onnx").unlink()
    with pytest.raises(ValueError, match=r"nix; .* contains \['readme.txt'\]"):
        open_checkpoint(tmp_path / "nix")
    with pytest.raises(ValueError, match=r"not found: .*/no/nix; .*/no is not a directory"):
        open_checkpoint(tmp_path / "no" / "nix")
    with pytest.raises(ValueError, match=r"must end in one of .*readme.txt"):
        open_checkpoint(tmp_path / "readme.txt")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_safetensors_cut_short(tmp_path, weights, share):
    folder = fakes.save_hugging_face(tmp_path, fakes.to_hugging_face(weights))
    path = folder / "model.safetensors"
    os.truncate(path, int(path.stat().st_size * share))
    with pytest.raises(
        ValueError, match="model.safetensors is not a complete safetensors file: .*download or copy it again"
    ):
        open_checkpoint(folder)


def test_an_object_based_tf2_checkpoint(tmp_path):
    import tensorflow as tf

    tf.train.Checkpoint(weight=tf.Variable([1.0])).write(str(tmp_path / "model.ckpt-1"))
    with pytest.raises(ValueError, match="name-based checkpoint.* but it is an object-based TF2"):
        open_checkpoint(tmp_path)


def test_minilm_has_no_unknown_name(minilm):
    checkpoint = open_checkpoint(minilm)
    assert (checkpoint.unknown, checkpoint.left_out) == ([], ["embeddings.position_ids"])
    assert len(checkpoint.names) == 5 + 16 * 6 + 2
    assert checkpoint.get("bert/encoder/layer_5/intermediate/dense/kernel").shape == (384, 1536)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_the_first_weight_that_is_not_finite_is_named_with_its_place(tmp_path, weights, dtype, value):
    tensors = {name: array.astype(dtype) for name, array in fakes.to_hugging_face(weights).items()}
    name = "bert.encoder.layer.1.attention.self.query.weight"
    tensors[name][2, 1] = value
    tensors[name][3, 3] = np.nan
    checkpoint = open_checkpoint(fakes.save_hugging_face(tmp_path / "hf", tensors))
    shape, ours = tensors[name].shape, "bert/encoder/layer_1/attention/self/query/kernel"
    count = rf"{value} in {name} at \[1, 2\] \(affected values: 2 of {shape[0] * shape[1]}\)"
    for read in (checkpoint.get, checkpoint.stored):
        with pytest.raises(ValueError, match=f"are not finite: {count}.*use an earlier checkpoint"):
            read(ours)
    assert np.isfinite(checkpoint.get("bert/encoder/layer_0/attention/self/query/kernel")).all()


def test_adapters_that_are_not_finite_are_named(tmp_path, weights):
    kernel = "bert/encoder/layer_0/attention/self/query/kernel"
    size = weights[kernel].shape[0]
    a, b = np.zeros((size, 2), np.float32), np.full((2, size), np.inf, np.float32)
    arrays = weights | {f"{kernel[:-7]}/lora_A": a, f"{kernel[:-7]}/lora_B": b}
    tf1.write_tensors(str(tmp_path / "model.ckpt-1"), arrays)
    lora = {"rank": 2, "alpha": 2, "targets": ["query"]}
    (tmp_path / "bert_config.json").write_text(json.dumps({"lora": lora}), encoding="utf-8")
    with pytest.raises(ValueError, match="are not finite: inf in bert/encoder/layer_0/attention/self/query/lora_B at"):
        open_checkpoint(tmp_path).get(kernel)
