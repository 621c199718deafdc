"""TokenizerLayer: a model from raw text that is built, trained, saved and loaded elsewhere."""

import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.export.hub import layer_files
from bert_tf.export.hub.tokenizer_layer import TokenizerLayer
from bert_tf.models import family_registry
from bert_tf.tokenization.byte_bpe import ByteBpeTokenizer
from bert_tf.tokenization.unigram import UnigramTokenizer
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import tiny

GOLDENS = pathlib.Path(__file__).parents[2] / "goldens" / "tokenizers"
TEXTS = np.array(["the film is Good", "bad, a dull story of people"])


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(tiny.VOCAB)


def test_texts_and_pairs_become_the_encoders_inputs(tokenizer):
    layer = TokenizerLayer(tokenizer, 6)
    ours = tokenizer.pad(tokenizer.pack(tokenizer.tokenize(TEXTS), max_seq_length=6))
    for name, value in layer(tf.constant(TEXTS)).items():
        np.testing.assert_array_equal(value, ours[name])
    assert layer(tf.constant(["film"]))["input_mask"].shape == (1, 3)
    fixed = TokenizerLayer(tokenizer, 16, fixed_length=True)
    pair = fixed((tf.constant(TEXTS), tf.constant(TEXTS[::-1])))
    for name, value in tokenizer(TEXTS, TEXTS[::-1], 16).items():
        np.testing.assert_array_equal(pair[name], value)
    for given in (TEXTS, TEXTS.tolist(), iter(TEXTS)):
        np.testing.assert_array_equal(fixed(given)["input_ids"], fixed(tf.constant(TEXTS))["input_ids"])
    symbols = fixed(keras.Input((), dtype="string"))
    assert {name: (symbol.shape, symbol.dtype) for name, symbol in symbols.items()} == dict.fromkeys(
        ("input_ids", "input_mask", "segment_ids"), ((None, 16), "int32")
    )


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([tf.constant(["a"])] * 3, "two of them for pairs. got 3. Join"),
        ([keras.Input((), dtype="string") for _ in range(3)], "two of them for pairs; got 3"),
        (keras.Input((1,), dtype="string"), r"strings \[n\]; got string of shape \(None, 1\); create the input"),
        (keras.Input(()), r"got float32 of shape \(None,\)"),
        ("film", "got one text, 'film'; put it in a list"),
        ([("film", "good")], "got tuple at position 0"),
        ({"text": ["a"]}, r"got a dict of text; choose one of them"),
    ],
)
def test_inputs_that_are_no_texts_are_refused(tokenizer, texts, message):
    with pytest.raises(ValueError, match=message):
        TokenizerLayer(tokenizer)(texts)


def _make(kind):
    if kind == "byte_bpe":
        return ByteBpeTokenizer.from_directory(GOLDENS / "byte_bpe")
    if kind == "unigram_in_front":
        return UnigramTokenizer.from_directory(GOLDENS / "unigram", family=family_registry.family("xlm-roberta"))
    return WordPieceTokenizer([*tiny.VOCAB, "\u00e9t\u00e9"], strip_accents=False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["byte_bpe", "unigram_in_front", "accents"])
def test_every_tokenizer_is_the_same_again(kind, tmp_path, monkeypatch):
    layer = TokenizerLayer(_make(kind), 12)
    layer.save_assets(str(tmp_path))
    monkeypatch.setattr(layer_files, "_KNOWN", {})
    again = TokenizerLayer.from_config(layer.get_config())
    again.load_assets(str(tmp_path))
    texts = tf.constant(["Hello world, 9, \u00c9t\u00e9", "``quoted'' <mask>"])
    for name, value in layer((texts, texts)).items():
        np.testing.assert_array_equal(again((texts, texts))[name], value)
    assert again.tokenizer.vocab == layer.tokenizer.vocab and again.tokenizer.template == layer.tokenizer.template


def test_a_copy_in_memory_shares_the_tokenizer(tokenizer):
    layer = TokenizerLayer(tokenizer)
    assert TokenizerLayer.from_config(layer.get_config()).tokenizer is tokenizer


def test_a_layer_without_its_vocabulary(tokenizer, tmp_path, monkeypatch):
    config = TokenizerLayer(tokenizer, name="words").get_config()
    monkeypatch.setattr(layer_files, "_KNOWN", {})
    layer = TokenizerLayer.from_config(config)
    with pytest.raises(ValueError, match=r"'words' was called without its vocabulary, which is in its model's"):
        layer(tf.constant(TEXTS))
    with pytest.raises(ValueError, match="must be the one that it was saved with; the file has none"):
        layer.load_assets(None)
    WordPieceTokenizer([*tiny.VOCAB, "more"]).save(tmp_path)
    with pytest.raises(ValueError, match="must be the one that it was saved with; the file has another"):
        layer.load_assets(str(tmp_path))


def test_a_directory_will_do(tmp_path):
    layer = TokenizerLayer(tiny.checkpoint(tmp_path))
    assert layer(tf.constant(["film"]))["input_ids"].numpy().tolist() == [[2, 14, 3]]


def test_what_has_no_end_is_not_read(tokenizer, tmp_path, monkeypatch):
    layer = TokenizerLayer(tokenizer, 12)
    layer.save_assets(str(tmp_path))
    (tmp_path / "zero").symlink_to("/dev/zero")
    monkeypatch.setattr(layer_files, "_KNOWN", {})
    with pytest.raises(ValueError, match=r"/zero is not a regular file"):
        TokenizerLayer.from_config(layer.get_config()).load_assets(str(tmp_path))
