"""The report on a vocabulary: its numbers, counted by hand."""

import re
from collections import Counter

import pytest

from bert_tf.tokenization import vocabulary_fit, word_counts
from bert_tf.tokenization.wordpiece import WordPieceTokenizer

pytestmark = pytest.mark.usefixtures("run_eagerly")

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "walk", "##s", "##ed", "."]


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(VOCAB)


def test_by_hand(tokenizer):
    """the x4 and . x2 are whole; walks x2 and walkeds x1 split; cat x1 unknown: 10 words, 34 characters, 3 lost."""
    counts = Counter({"the": 4, ".": 2, "walks": 2, "walkeds": 1, "cat": 1})
    fit = vocabulary_fit.measure_vocabulary(tokenizer, counts)
    assert (fit.vocab_size, fit.words, fit.distinct_words) == (9, 10, 5)
    assert fit.share_whole == 0.6
    assert fit.tokens_per_word == pytest.approx((4 + 2 + 2 * 2 + 3 + 1) / 10)
    assert fit.share_unknown == 0.1
    assert fit.share_characters_unknown == pytest.approx(3 / (12 + 2 + 10 + 7 + 3))
    assert fit.split == [("walks", 2, ["walk", "##s"]), ("walkeds", 1, ["walk", "##ed", "##s"])]
    assert fit.unknown == [("cat", 1)]


def test_words_give_the_tokens_that_sentences_give(tokenizer):
    sentences = ["The walks, the WALKED.", "Walkeds? Thé cat"]
    fit = vocabulary_fit.measure_vocabulary(tokenizer, word_counts.count_words([sentences], True))
    ids = tokenizer.tokenize(sentences).flat_values
    assert fit.words * fit.tokens_per_word == pytest.approx(len(ids))
    assert fit.words * fit.share_unknown == pytest.approx(int((ids.numpy() == tokenizer.unk_id).sum()))


def test_many_words_are_tokenized_in_parts(tokenizer, monkeypatch):
    counts = Counter({"the": 3, "walks": 2, "cat": 1})
    whole = vocabulary_fit.measure_vocabulary(tokenizer, counts)
    monkeypatch.setattr(vocabulary_fit, "_BATCH", 2)
    assert vocabulary_fit.measure_vocabulary(tokenizer, counts) == whole


def test_no_words(tokenizer):
    with pytest.raises(ValueError, match="The text for the report contains no words"):
        vocabulary_fit.measure_vocabulary(tokenizer, Counter())


def test_as_text(tokenizer):
    counts = Counter({"the": 3, "walks": 1})
    lines = vocabulary_fit.format_fit(vocabulary_fit.measure_vocabulary(tokenizer, counts), "About.").splitlines()
    assert [re.split(" {2,}", line) for line in lines[2:9]] == [
        ["tokens in the vocabulary", "9"],
        ["words", "4"],
        ["distinct words", "2"],
        ["words that are a single token", "75.00%"],
        ["tokens per word", "1.250"],
        ["words that are [UNK]", "0.000%"],
        ["characters lost to [UNK]", "0.000%"],
    ]
    assert len({len(line) for line in lines[2:9]}) == 1
    assert lines[0] == "About." and "walks  =  walk ##s" in lines[11]
    assert lines[-1].strip() == "none"
