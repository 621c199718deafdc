"""Words and the rows they stand in: pictures, windows, and what surrounds a word in running text."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models import family_registry
from bert_tf.tasks.tagging.words import encode_words
from bert_tf.tokenization.registry import read_tokenizer
from bert_tf.tokenization.word_boundaries import word_spans
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import tiny

VOCAB = [*tiny.VOCAB, "(", ")", "!", '"', "u", "ro", "##me", "中"]


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(VOCAB)


def _read(tokenizer, *texts, length=16, stride=4):
    """Returns the pieces of each row, and of each word (text, row, column, word, word without its edges)."""
    packed, words = encode_words(tokenizer, list(texts), length, stride)
    rows = [[VOCAB[i] for i in row] for row in packed["input_ids"].to_list()]
    parts = zip(*(part.numpy().tolist() for part in words[1:]), strict=True)
    listed = [
        (of, row, column, texts[of][start:end], texts[of][inner:inner_limit])
        for of, row, column, start, end, inner, inner_limit in parts
    ]
    return rows, listed


def test_a_word_is_what_stands_between_white_space(tokenizer):
    rows, words = _read(tokenizer, "Good  people\tin\u00a0Rome, (a film).", "", "the end")
    assert rows[0] == ["[CLS]", "good", "people", "[UNK]", "ro", "##me", ",", "(", "a", "film", ")", ".", "[SEP]"]
    assert rows[1] == ["[CLS]", "[SEP]"] and rows[2] == ["[CLS]", "the", "[UNK]", "[SEP]"]
    assert words == [
        (0, 0, 1, "Good", "Good"),
        (0, 0, 2, "people", "people"),
        (0, 0, 3, "in", "in"),
        (0, 0, 4, "Rome,", "Rome"),
        (0, 0, 7, "(a", "a"),
        (0, 0, 9, "film).", "film"),
        (2, 2, 1, "the", "the"),
        (2, 2, 2, "end", "end"),
    ]


@pytest.mark.parametrize(
    ("word", "inner"),
    [
        ("Rome.", "Rome"), ("U.S.", "U.S."), ("...", "..."), ("“Rome”", "Rome"), ("Rome's", "Rome's"),
        ("(U.S.)", "U.S."), ("!", "!"), ("中，", "中"), ("a.b", "a.b"), ("?!", "?!"),
    ],
    ids=str,
)  # fmt: skip
def test_punctuation_at_the_edges_of_a_word_is_no_part_of_a_name(tokenizer, word, inner):
    _, words = _read(tokenizer, f"the {word} film")
    assert [found[3:] for found in words] == [("the", "the"), (word, inner), ("film", "film")]


def test_a_word_speaks_in_the_window_where_most_stands_around_it(tokenizer):
    text = " ".join(tiny.FILL[:9])
    rows, words = _read(tokenizer, text, length=6, stride=2)
    assert [row[1:-1] for row in rows] == [text.split()[i : i + 4] for i in (0, 2, 4, 6)]
    assert [word for *_, word, _ in words] == text.split()
    for _, row, column, word, _ in words:
        assert rows[row][column] == word
        here = min(column - 1, len(rows[row]) - 2 - column)
        others = [min(c - 1, len(r) - 2 - c) for r in rows for c, piece in enumerate(r) if piece == word]
        assert here == max(others)


def test_every_piece_is_in_a_row_and_offsets_are_code_points(tokenizer):
    text = "😀 the fi\u0301lm  is\u200b good 中中 😀"
    _, words = _read(tokenizer, text)
    assert [word for *_, word, _ in words] == text.split()


def test_bytes_that_are_no_utf_8_do_not_count(tokenizer):
    packed, words = encode_words(tokenizer, tf.constant([b"the \xff film"]), 16, 4)
    assert words.texts.numpy().tolist() == [b"the  film"] and words.starts.numpy().tolist() == [0, 5]


def test_words_end_at_punctuation_as_in_files(tokenizer):
    texts = ["Good-film,  (u)", "", "a\u0301!中中", "  the 中\u0301good 서울 서a", "\u200bthe\u200b film", "東タワ€u"]
    for boundaries in ("whitespace", "punctuation", "characters"):
        _, words = encode_words(tokenizer, texts, 64, 8, boundaries)
        found = [[] for _ in texts]
        for of, start, end in zip(words.of_text, words.starts, words.ends, strict=True):
            found[of].append((int(start), int(end)))
        expected = [word_spans(text, boundaries) for text in texts]
        expected[4] = [span for span in expected[4] if span != (0, 1)]  # alone it has no token
        assert found == expected, boundaries


def test_words_of_one_token_are_represented_by_it(tokenizer):
    packed, words = encode_words(tokenizer, ["good 서울에서, film"], 16, 4, "punctuation")
    assert [VOCAB[i] for i in packed["input_ids"][0].numpy()] == ["[CLS]", "good", "[UNK]", ",", "film", "[SEP]"]
    assert words.positions.numpy().tolist() == [1, 2, 2, 2, 2, 3, 4]
    assert words.starts.numpy().tolist() == [0, 5, 6, 7, 8, 9, 11]


def test_no_text_at_all(tokenizer):
    packed, words = encode_words(tokenizer, tf.zeros([0], tf.string), 16, 4)
    assert packed["input_ids"].nrows() == 0 and all(np.size(part) == 0 for part in words)


def test_a_stride_that_leaves_gaps_is_refused(tokenizer):
    message = r"`doc_stride` must be from 1 to 4, .* got 5; with a larger one"
    with pytest.raises(ValueError, match=message):
        encode_words(tokenizer, ["the film"], 6, 5)


@pytest.mark.parametrize("kind", ["byte_bpe", pytest.param("unigram", marks=pytest.mark.slow)])
def test_words_of_other_tokenizers(kind):
    path = pathlib.Path(__file__).parents[2] / "goldens" / "tokenizers" / kind
    family = family_registry.with_tokenizer(kind)
    tokenizer = read_tokenizer(path, family, family.template)
    texts = ["  The  caf\u00e9,\t(U.S.) se\u0301a  ", " ", "", "\u4e2d\u6587"]
    packed, words = encode_words(tokenizer, texts, 12, 5)
    found = [texts[of][a:b] for of, a, b in zip(words.of_text, words.starts, words.ends, strict=True)]
    assert found == ["The", "caf\u00e9,", "(U.S.)", "se\u0301a", "\u4e2d\u6587"]
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    for row, column, of, start in zip(words.sequences, words.positions, words.of_text, words.starts, strict=True):
        here = zip(ids[of].numpy(), starts[of].numpy(), ends[of].numpy(), strict=True)
        first = next(piece for piece, a, b in here if a == start and b > a)
        assert packed["input_ids"][row][column].numpy() == first  # the piece at which the word begins
