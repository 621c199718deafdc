"""The preprocessor of every kind of tokenizer, and of models that know no pairs."""

import dataclasses
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.export.hub.preprocessor import INPUTS, Preprocessor
from bert_tf.models.family_spec import InputTemplate
from bert_tf.tokenization.byte_bpe import ByteBpeTokenizer
from bert_tf.tokenization.unigram import UnigramTokenizer
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import tiny

GOLDENS = pathlib.Path(__file__).parents[2] / "goldens" / "tokenizers"
KINDS = {ByteBpeTokenizer: "vocab_file", UnigramTokenizer: "sp_model_file"}
TEXTS = ["Hello world, 9, été", "", "中 \u2028 it's"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_other_tokenizers_have_no_words(kind, tmp_path):
    tokenizer = kind.from_directory(GOLDENS / kind.KIND)
    tf.saved_model.save(Preprocessor(tokenizer, 12), str(tmp_path / "first"), signatures={})
    tf.saved_model.save(tf.saved_model.load(str(tmp_path / "first")), str(tmp_path / "second"))
    loaded = tf.saved_model.load(str(tmp_path / "second"))  # saved again, it still has its tables
    texts = tf.constant(TEXTS)
    ids, starts, limits = loaded.tokenize_with_offsets(texts)
    assert ids.shape.rank == 2 and ids.to_list() == tokenizer.tokenize(TEXTS).to_list()
    for text, begin, end, a, b in zip(TEXTS, starts, limits, *tokenizer.tokenize_with_offsets(TEXTS)[1:], strict=True):
        data = text.encode()
        cut = [data[i:j].decode() for i, j in zip(begin.numpy(), end.numpy(), strict=True)]
        assert cut == [text[i:j] for i, j in zip(a.numpy(), b.numpy(), strict=True)]
    for given, rows in (
        (loaded(texts), tokenizer(TEXTS, max_seq_length=12)),
        (loaded.bert_pack_inputs([ids, ids], seq_length=9), tokenizer(TEXTS, TEXTS, 9)),
    ):
        for name, value in rows.items():
            np.testing.assert_array_equal(given[INPUTS[name]], value)
    special = {name: int(value) for name, value in loaded.tokenize.get_special_tokens_dict().items()}
    assert special["start_of_sequence_id"] == tokenizer.vocab.index(tokenizer.template.before[0])
    assert special["padding_id"] == tokenizer.pad_id and special["vocab_size"] == tokenizer.vocab_size
    assert getattr(loaded, KINDS[kind]).asset_path.numpy().endswith(pathlib.Path(tokenizer.vocab_file).name.encode())


def test_a_model_without_a_second_segment_takes_one_text():
    template = InputTemplate(segments=1)
    assert not template.takes_pairs and dataclasses.replace(template, second_segment=0).takes_pairs
    preprocessor = Preprocessor(WordPieceTokenizer(tiny.VOCAB, template=template), 8)
    ids = preprocessor.tokenize(tf.constant(["film"]))
    assert preprocessor.bert_pack_inputs([ids], seq_length=4)["input_word_ids"].numpy().tolist() == [[2, 14, 3, 0]]
    with pytest.raises(ValueError, match="The model does not support text pairs"):
        preprocessor.bert_pack_inputs([ids, ids], seq_length=4)
