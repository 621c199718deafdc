"""Offsets point into the text as it came: drawn examples, and laws over random strings."""

import functools
import unicodedata

import pytest

from bert_tf.tokenization.wordpiece import Tokenizer
from tests.tokenization import material
from tests.tokenization.reference import Reference, is_dropped

pytestmark = pytest.mark.usefixtures("run_eagerly")

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "unicode", "ﬁ", "ca", "##fe", "中", "国", "!", "σα", "##ς", "i", "##i",
         "ᄒ", "##ᅡ", "##ᆫ", "a", "##b"]  # fmt: skip


def slices(tokenizer, text):
    ids, starts, limits = (tensor[0].numpy() for tensor in tokenizer.tokenize_with_offsets([text]))
    return [(tokenizer.vocab[i], text[a:b]) for i, a, b in zip(ids, starts, limits, strict=True)]


@pytest.mark.parametrize(
    "text, want",
    [
        ("Ünïcode ﬁ", [("unicode", "Ünïcode"), ("ﬁ", "ﬁ")]),
        ("CAFÉ!", [("ca", "CA"), ("##fe", "FÉ"), ("!", "!")]),
        ("cafe\u0301!", [("ca", "ca"), ("##fe", "fe\u0301"), ("!", "!")]),
        ("  中国\u0301 ", [("中", "中"), ("国", "国\u0301")]),
        ("ΣΑΣ", [("σα", "ΣΑ"), ("##ς", "Σ")]),
        ("Iİ\u0323", [("i", "I"), ("##i", "İ\u0323")]),
        ("한", [("ᄒ", "한"), ("##ᅡ", "한"), ("##ᆫ", "한")]),
        ("\u00ada\u200db\u200d!", [("a", "a"), ("##b", "b"), ("!", "!")]),
        ("a\u200d\u0301b", [("a", "a\u200d\u0301"), ("##b", "b")]),
        ("\u0301 \u0301a xyz\u0301 a", [("a", "a"), ("[UNK]", "xyz\u0301"), ("a", "a")]),
        ("a" * 201 + "!", [("[UNK]", "a" * 201), ("!", "!")]),
    ],
)  # fmt: skip
def test_offsets_of_drawn_examples(text, want):
    assert slices(Tokenizer(VOCAB), text) == want


def test_offsets_start_at_0_in_each_text_and_skip_bytes_that_are_no_utf8():
    ids, starts, limits = Tokenizer(VOCAB).tokenize_with_offsets([b"\xe4\xbd a!", "", " é中", "!"])
    assert ids.to_list() == [[18, 10], [], [1, 8], [10]]
    assert starts.to_list() == [[1, 2], [], [1, 2], [0]]
    assert limits.to_list() == [[2, 3], [], [2, 3], [1]]


def test_cased_text_is_the_text_of_its_tokens():
    tokenizer = Tokenizer(material.small_vocabulary(), do_lower_case=False)
    for piece, part in slices(tokenizer, "Tea at Ten, é e\u0301 \u1b05\u1b44 中国 ΣΑΣ!"):
        assert piece.removeprefix("##") == part


@pytest.mark.parametrize("do_lower_case", [True, False], ids=["uncased", "cased"])
def test_laws_over_random_strings(do_lower_case):
    vocab = material.small_vocabulary()
    tokenizer, reference = Tokenizer(vocab, do_lower_case), Reference(vocab, do_lower_case)
    texts = [*material.TRICKY, *material.random_texts(400, seed=4)]
    columns = [tensor.to_list() for tensor in tokenizer.tokenize_with_offsets(texts)]
    assert columns[0] == tokenizer.tokenize(texts).to_list()
    for text, *got in zip(texts, *columns, strict=True):
        spans = list(zip(*got, strict=True))
        assert sorted(got[1]) == got[1] and sorted(got[2]) == got[2], text
        assert [piece for piece, _, _ in spans] == reference.ids(text)
        for (_, start, limit), (_, first, last) in zip(spans, reference.spans(text), strict=True):
            assert 0 <= start <= first < last <= limit <= len(text), text
            if not any(is_sorted_by_class(char) for char in text):
                assert start == first
                assert all(is_dropped(c) or unicodedata.category(c) == "Mn" for c in text[last:limit]), text


@functools.cache
def is_sorted_by_class(char):
    forms = unicodedata.normalize("NFD", char)
    return any(unicodedata.combining(c) and unicodedata.category(c) != "Mn" for c in forms)
