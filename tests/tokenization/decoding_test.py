"""Ids back to text: what Hugging Face's tokenizers make of the same ids with the files that we write."""

import numpy as np
import pytest
import tensorflow as tf
from tokenizers import Tokenizer as RustTokenizer

from tests.tokenization.fast_tokenizer_test import MAKERS, make
from tests.tokenization.rust import mixed_texts

pytestmark = pytest.mark.usefixtures("run_eagerly")
PLAIN = ["A warm, funny film! Isn't it? I'm sure you said \"do not\".", "北京 naïve \U0001f600", "", " two  spaces "]
TEXTS = [*PLAIN, *mixed_texts()[::100]]


@pytest.mark.parametrize("name", MAKERS)
def test_texts_are_those_of_the_rust_tokenizers(name, tmp_path):
    tokenizer = make(name)
    tokenizer.save(tmp_path)
    rust = RustTokenizer.from_file(str(tmp_path / "tokenizer.json"))
    rows = tokenizer.tokenize(TEXTS).to_list()
    for skip in (True, False):
        assert tokenizer.decode(rows, skip) == rust.decode_batch(rows, skip_special_tokens=skip)
    packed = tokenizer(TEXTS[:2], max_seq_length=64)["input_ids"]
    for skip in (True, False):
        assert tokenizer.decode(packed, skip) == rust.decode_batch(packed.numpy().tolist(), skip_special_tokens=skip)


def test_one_row_or_several_of_any_kind():
    tokenizer = make("wordpiece")
    ids = tokenizer.tokenize(["the the", "the"])
    assert tokenizer.decode(ids) == tokenizer.decode(ids.to_list()) == ["the the", "the"]
    assert tokenizer.decode(ids[1]) == tokenizer.decode(ids[1].numpy()) == tokenizer.decode(ids.to_list()[1]) == "the"
    assert tokenizer.decode([]) == "" and tokenizer.decode([[], []]) == ["", ""]
    assert tokenizer.decode(tf.ragged.constant([[], [1]], tf.int32), skip_special_tokens=False)[0] == ""


@pytest.mark.parametrize("ids", [[-1], [10**6], [1.0], np.zeros([1, 1, 1], int), ["the"], [[1], [10**6]]])
def test_what_are_no_ids(ids):
    tokenizer = make("wordpiece")
    with pytest.raises(ValueError, match=rf"`ids` must be integers from 0 to {tokenizer.vocab_size - 1}, in one row"):
        tokenizer.decode(ids)
