"""[MASK] in a text: the mask where it is written so, text in every other spelling."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.export.saved_model import write_export_tokenizer
from bert_tf.tokenization.mask_reader import MaskReader
from bert_tf.tokenization.table_registry import read_saved_tables
from bert_tf.tokenization.wordpiece import WordPieceTokenizer

pytestmark = pytest.mark.usefixtures("run_eagerly")

VOCAB = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[", "]", "mask", "cls", "i", "saw", "##s", ".")


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(VOCAB)


def _tokens(reader, texts):
    return [[VOCAB[i] for i in row] for row in reader.tokenize(texts).to_list()]


def test_between_masks_everything_is_as_usual(tokenizer):
    texts = {
        "": [],
        "I saw[MASK]. [CLS]": ["i", "saw", "[MASK]", ".", "[", "cls", "]"],
        "[MASK][MASK]": ["[MASK]", "[MASK]"],
        "[mask] [ MASK ]": ["[", "mask", "]", "[", "mask", "]"],
        "[[MASK]s": ["[", "[MASK]", "[UNK]"],
        "saws": ["saw", "##s"],
    }
    assert _tokens(MaskReader(tokenizer), list(texts)) == list(texts.values())
    assert MaskReader(tokenizer).tokenize(tf.constant([], tf.string)).shape[0] == 0


def test_text_without_a_mask_is_the_tokenizers(tokenizer):
    texts = ["I saw saws .", "[CLS] \u00ef\u0301 \x00[MA SK]", "\U0001f3ac " * 50]
    assert MaskReader(tokenizer).tokenize(texts).to_list() == tokenizer.tokenize(texts).to_list()


def test_masked_positions_are_those_of_the_masks():
    reader = MaskReader(WordPieceTokenizer(VOCAB))
    rows = reader.pad(reader.pack(reader.tokenize(["i [MASK] saw [MASK]", "saw", "[MASK]"]), max_seq_length=16))
    assert rows["input_ids"].numpy().tolist() == [[2, 9, 4, 10, 4, 3], [2, 10, 3, 0, 0, 0], [2, 4, 3, 0, 0, 0]]
    assert rows["masked_lm_positions"].numpy().tolist() == [[2, 4], [0, 0], [1, 0]]
    assert rows["masked_lm_positions"].dtype == tf.int32
    first = MaskReader(WordPieceTokenizer(VOCAB), most=1)
    packed = first.pack(first.tokenize(["i [MASK] saw [MASK]", "saw", "[MASK]"]), max_seq_length=16)
    assert first.pad(packed)["masked_lm_positions"].numpy().tolist() == [[2], [0], [1]]


@pytest.mark.parametrize("texts", [[], ["saw"]])
def test_there_is_always_a_column_for_a_position(tokenizer, texts):
    reader = MaskReader(tokenizer)
    rows = reader.pad(reader.pack(reader.tokenize(tf.constant(texts, tf.string)), max_seq_length=16))
    np.testing.assert_array_equal(rows["masked_lm_positions"], np.zeros((len(texts), 1)))


def test_a_vocabulary_without_the_mask_is_refused():
    with pytest.raises(ValueError, match=r"the mask token \[MASK\], but none of the 5 tokens of None is \[MASK\]"):
        MaskReader(WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"]))


def test_an_export_keeps_its_tokenizer(tmp_path):
    write_export_tokenizer(tmp_path / "tokenizer", MaskReader(WordPieceTokenizer(VOCAB)))
    assert read_saved_tables(tmp_path / "tokenizer").vocab == list(VOCAB)
