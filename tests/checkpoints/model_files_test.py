"""The library's face: `import bert_tf` is light, `bert_tf.load` takes every kind of checkpoint and refuses loudly."""

import json
import logging
import pathlib
import shutil
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

import bert_tf
from bert_tf.checkpoints.loading import has_vocabulary, load_description
from bert_tf.checkpoints.tf1 import write_tf1
from bert_tf.models.config import EncoderConfig
from bert_tf.models.heads import ClassificationHead
from tests import tiny

ROOT = pathlib.Path(__file__).parents[2]
PIECES = [*tiny.VOCAB, *(f"word{n}" for n in range(200 - len(tiny.VOCAB)))]


def _python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_the_import_is_light():
    code = """
import sys, time
start = time.perf_counter()
import bert_tf
print(time.perf_counter() - start)
print(sorted({name.split(".")[0] for name in sys.modules} & {"tensorflow", "keras", "numpy", "torch"}))
"""
    runs = [_python(code).splitlines() for _ in range(3)]
    assert [heavy for _, heavy in runs] == ["[]"] * 3
    assert min(float(seconds) for seconds, _ in runs) < 0.1


@pytest.mark.slow
def test_whichever_way_load_was_imported():
    """From its own module or from the package, it is the same function."""
    code = """
from bert_tf.checkpoints.loading import load
import bert_tf
for face in (load, bert_tf.load):
    try:
        face("/nowhere/at/all")
    except ValueError as error:
        print(error)
from bert_tf import Encoder, EncoderConfig, WordPieceTokenizer
print(Encoder.__name__, EncoderConfig.__name__, WordPieceTokenizer.__name__)
"""
    message = "Checkpoint not found: /nowhere/at/all; /nowhere/at is not a directory. Pass a directory,"
    lines = _python(code).splitlines()
    assert lines[0] == lines[1] and lines[0].startswith(message)
    assert lines[2:] == ["Encoder EncoderConfig WordPieceTokenizer"]


@pytest.fixture
def hugging_face(tmp_path):
    """A directory as Hugging Face writes them, with a vocabulary of 200 pieces."""
    folder = tmp_path / "hf"
    folder.mkdir()
    for file in ("config.json", "model.safetensors"):
        shutil.copy(ROOT / "tests" / "goldens" / "erf" / file, folder / file)
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    return folder


def _change(folder, change):
    """Rewrites the folder's weights; `change` alters the dict of tensors."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def _change_config(folder, **values):
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, **values}), encoding="utf-8")


def test_hugging_face(hugging_face):
    bert = bert_tf.load(hugging_face)
    assert bert.config == EncoderConfig.load(hugging_face)
    assert bert.head is None and bert.labels is None
    expected = load_file(ROOT / "tests" / "goldens" / "erf" / "expected.safetensors")
    outputs = bert.encoder({"input_ids": expected["input_ids"][:1], "segment_ids": expected["token_type_ids"][:1]})
    np.testing.assert_allclose(outputs["pooled_output"], expected["pooler_output"][:1], atol=1e-5)
    same = bert_tf.load(str(hugging_face / "model.safetensors"))
    np.testing.assert_array_equal(same.encoder.get_weights()[0], bert.encoder.get_weights()[0])


def test_tokenizer(hugging_face):
    bert = bert_tf.load(hugging_face)
    ids = bert.tokenizer.tokenize(["The films", "", "GOOD music."])
    assert isinstance(ids, tf.RaggedTensor) and ids.dtype == tf.int32
    pieces = [["the", "film", "##s"], [], ["good", "music", "."]]
    assert ids.to_list() == [[PIECES.index(piece) for piece in row] for row in pieces]
    assert not bert_tf.load(hugging_face, do_lower_case=False).tokenizer.do_lower_case


def test_from_text_to_output(hugging_face):
    bert = bert_tf.load(hugging_face)
    inputs = bert.tokenizer(["the film is good"], ["a story"], max_seq_length=20)
    outputs = bert.encoder(inputs)
    assert outputs["sequence_output"].shape == (1, 20, 32) and outputs["pooled_output"].shape == (1, 32)


def test_hugging_face_with_a_head(hugging_face):
    kernel = np.arange(64, dtype=np.float32).reshape(2, 32)

    def change(tensors):
        tensors.update({f"bert.{name}": tensors.pop(name) for name in list(tensors)})
        tensors.update({"classifier.weight": kernel, "classifier.bias": np.array([1, 2], np.float32)})

    _change(hugging_face, change)
    _change_config(hugging_face, id2label={"1": "good", "0": "bad"})
    bert = bert_tf.load(hugging_face)
    assert bert.labels == ["bad", "good"]
    np.testing.assert_array_equal(bert.head.output_weights, kernel)
    assert bert.head(np.ones((1, 32), np.float32)).numpy().tolist() == [[kernel[0].sum() + 1, kernel[1].sum() + 2]]
    (hugging_face / "labels.txt").write_text("a\nb\nc\n", encoding="utf-8")
    with pytest.raises(ValueError, match="must name every output of the head in .* It has 3 labels for 2 outputs."):
        bert_tf.load(hugging_face)


def test_labels_without_a_head_are_not_the_models(hugging_face):
    _change_config(hugging_face, id2label={"0": "LABEL_0", "1": "LABEL_1"})
    assert bert_tf.load(hugging_face).labels is None


@pytest.mark.parametrize("with_head", [False, True])
def test_tf1(tmp_path, with_head):
    folder = tiny.checkpoint(tmp_path / "tf1")
    bert = bert_tf.load(folder)
    if with_head:
        head = ClassificationHead(3)
        head.build((None, 32))
        head.output_bias.assign([1, 2, 3])
        write_tf1(str(folder / "bert_model.ckpt"), [*bert.encoder.variables, *head.variables])
        (folder / "labels.txt").write_text("no\nperhaps\nyes\n", encoding="utf-8")
    again = bert_tf.load(folder / "bert_model.ckpt")
    for ours, true in zip(again.encoder.variables, bert.encoder.variables, strict=True):
        np.testing.assert_array_equal(ours, true)
    assert again.labels == (["no", "perhaps", "yes"] if with_head else None)
    assert (again.head.get_weights()[1].tolist() == [1, 2, 3]) if with_head else again.head is None


@pytest.mark.slow
def test_sentence_transformers(minilm):
    bert = bert_tf.load(minilm)
    assert (bert.config.num_hidden_layers, bert.config.hidden_size, bert.config.hidden_act) == (6, 384, "gelu")
    assert bert.tokenizer.do_lower_case and bert.head is None and bert.labels is None
    ids = bert.tokenizer.tokenize(["Unaffable!"])
    assert [bert.tokenizer.vocab[i] for i in ids.to_list()[0]] == ["una", "##ffa", "##ble", "!"]
    inputs = bert.tokenizer(["A cat.", "A kitten.", "The tax return is late."], max_seq_length=16)
    tokens = bert.encoder(inputs)["sequence_output"]
    means = tf.ragged.boolean_mask(tokens, inputs["input_mask"] > 0).to_list()
    cat, kitten, tax = (np.mean(row, 0) / np.linalg.norm(np.mean(row, 0)) for row in means)
    assert cat @ kitten > 0.6 > 0.2 > cat @ tax


def test_a_loaded_encoder_is_an_ordinary_keras_model(hugging_face, tmp_path):
    encoder = bert_tf.load(hugging_face).encoder
    encoder.save(tmp_path / "encoder.keras")
    ids = {"input_ids": np.array([[2, 5, 3]])}
    again = keras.saving.load_model(tmp_path / "encoder.keras")
    np.testing.assert_array_equal(again(ids)["pooled_output"], encoder(ids)["pooled_output"])


def test_without_a_pooler_it_warns(hugging_face, caplog):
    def change(tensors):
        del tensors["pooler.dense.weight"], tensors["pooler.dense.bias"]

    _change(hugging_face, change)
    with caplog.at_level(logging.WARNING):
        bert_tf.load(hugging_face)
    message = f"{hugging_face}/model.safetensors has no pooler: pooled_output uses random weights."
    assert message in [record.getMessage() for record in caplog.records]


def test_a_vocabulary_larger_than_the_table(hugging_face):
    with open(hugging_face / "vocab.txt", "a", encoding="utf-8") as file:
        file.write("more\n")
    message = "does not match the embedding table of 200 rows: .*vocab.txt has 201 tokens. Use the `vocab_file`"
    with pytest.raises(ValueError, match=message):
        bert_tf.load(hugging_face)


def test_a_vocabulary_smaller_than_the_table_warns(hugging_face, caplog):
    (hugging_face / "vocab.txt").write_text("\n".join(PIECES[:150]) + "\n", encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        bert_tf.load(hugging_face)
    assert "has 150 tokens, but the embedding table has 200 rows: the last rows are never used." in caplog.text


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("config.json", r"expected bert_config.json or config.json. It contains \["),
        ("vocab.txt", "Vocabulary file not found: .*/vocab.txt. It must be a file .*, or tokenizer.json"),
        ("model.safetensors", "No weights in .*: expected one of .* It contains"),
    ],
)
def test_a_missing_file(hugging_face, file, message):
    (hugging_face / file).unlink()
    with pytest.raises(ValueError, match=message):
        bert_tf.load(hugging_face)


def test_no_such_directory(tmp_path):
    with pytest.raises(ValueError, match="Checkpoint not found: .*/nowhere; .* contains"):
        bert_tf.load(tmp_path / "nowhere")


def test_a_model_of_two_files_has_the_case_that_lies_beside_its_vocabulary(tmp_path):
    folder = tiny.checkpoint(tmp_path / "here")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    files = folder / "bert_config.json", folder / "vocab.txt"
    assert not load_description([], *map(str, files)).tokenizer.do_lower_case
    shutil.copy(files[1], tmp_path)
    assert load_description([], str(files[0]), str(tmp_path / "vocab.txt")).tokenizer.do_lower_case


def test_where_a_vocabulary_lies(tmp_path):
    folder = tiny.checkpoint(tmp_path / "here")
    assert has_vocabulary(folder) and has_vocabulary(folder / "bert_model.ckpt")
    assert not has_vocabulary(tmp_path) and not has_vocabulary(tmp_path / "nowhere" / "bert_model.ckpt")
    (tmp_path / "preset" / "assets" / "tokenizer").mkdir(parents=True)
    shutil.move(folder / "vocab.txt", tmp_path / "preset" / "assets" / "tokenizer" / "vocabulary.txt")
    (tmp_path / "preset" / "tokenizer.json").write_text('{"config": {"lowercase": true}}')
    assert has_vocabulary(tmp_path / "preset") and not has_vocabulary(folder)


def test_a_description_is_told_from_others_by_its_tokens_and_its_configuration(tmp_path):
    model = pathlib.Path(tiny.checkpoint(tmp_path / "model"))
    first = load_description([str(model)]).digest()
    assert load_description([str(model)]).digest() == first and len(first) == 64
    words = (model / "vocab.txt").read_text().splitlines()
    (model / "vocab.txt").write_text("\n".join([*words[:-2], words[-1], words[-2], ""]))
    swapped = load_description([str(model)]).digest()
    other = pathlib.Path(tiny.checkpoint(tmp_path / "other", dropout=0.25))
    assert len({first, swapped, load_description([str(other)]).digest()}) == 3
