"""Documents of text become arrays of tokens, in parts with random keys."""

import numpy as np
import pytest

from bert_tf.pretraining.corpus.document_tokenization import random_keys, tokenize_documents
from bert_tf.tokenization.added_tokens import AddedToken
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from bert_tf.utils.documents import Document
from tests.pretraining import families
from tests.pretraining.corpus import support


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer([*support.SPECIAL, "the", "cat", "sat", "##s", "."])


def test_ids_sentences_and_documents(tokenizer):
    texts = [
        Document(0, 1, 1, ["The cat sat.", "The cats."]),
        Document(0, 9, 9, ["\u200b", "cat"]),  # the first has no piece
        Document(0, 12, 12, ["\u200b"]),  # nor has this whole document
        Document(1, 1, 1, ["dog"]),
    ]
    made = tokenize_documents(texts, tokenizer, 0)
    assert (np.diff(made.keys.astype(object)) > 0).all()
    by_id = {int(made.ids[part]): support.sentences(made, part) for part in range(len(made))}
    assert by_id == {1: [[5, 6, 7, 9], [5, 6, 8, 9]], 9: [[6]], (1 << 40) + 1: [[1]]}


def test_pieces_are_those_of_whole_sentences(minilm):
    """However odd the characters: what stands between two spaces does not depend on what is around it."""
    tokenizer = WordPieceTokenizer.from_directory(minilm)
    rng = np.random.default_rng(0)
    alphabet = list("abc ABC  .,!'  \u00e9\u0301\u03a3\u4e2d\u00df\u200b\x0b\x1c\u2028\u3000\ufffd\U0001f600\u0660")
    texts = ["".join(rng.choice(alphabet, rng.integers(1, 40))) for _ in range(2000)]
    expected = tokenizer.tokenize(texts).to_list()
    made = tokenize_documents([Document(0, n + 1, n + 1, [text]) for n, text in enumerate(texts)], tokenizer, 0)
    found = {int(made.ids[part]): support.sentences(made, part)[0] for part in range(len(made))}
    assert found == {n + 1: ids for n, ids in enumerate(expected) if ids}


@pytest.mark.parametrize("model_type", [
    "roberta", *(pytest.param(name, marks=pytest.mark.slow) for name in ("albert", "modernbert", "deberta-v2")),
])  # fmt: skip
def test_tokens_of_other_kinds_are_those_of_the_whole_document(tmp_path, model_type):
    """The first token of a sentence as well, where a word has another token behind a space than at the beginning."""
    tokenizer = families.tokenizer_of(tmp_path / "tokenizer", model_type)
    sentences = ["the old ships, and", "gulls   are\there .", "caf\u00e9 \u5317\u4eac the the"]
    late = Document(0, 1, 9, ["the waves"])  # another portion of the document
    made = tokenize_documents([Document(0, 1, 1, sentences), late], tokenizer, 0)
    parts = {len(made.sentences.rows()[part]): np.concatenate(support.sentences(made, part)) for part in (0, 1)}
    whole, behind = tokenizer.tokenize([" ".join(sentences), "the the waves"]).to_list()
    assert parts[3].tolist() == whole
    assert parts[1].tolist() == behind[-len(parts[1]) :] and len(parts[1]) < len(behind)


@pytest.mark.slow
def test_an_added_token_with_a_space_inside():
    added = [AddedToken("new york", 9)]
    tokenizer = WordPieceTokenizer([*support.SPECIAL, "the", "new", "york", "."], added_tokens=added)
    made = tokenize_documents([Document(0, 1, 1, ["the new york ."])], tokenizer, 0)
    assert made.tokens.flat.tolist() == [5, 9, 8]


def test_no_text_at_all(tokenizer):
    assert len(tokenize_documents([], tokenizer, 0)) == 0


def test_a_long_document_comes_in_parts_that_are_placed_apart(tokenizer):
    made = tokenize_documents(
        [Document(0, 1, 1, ["the cat sat"] * 10), Document(0, 20, 20, ["cat"])], tokenizer, 0, 6
    )
    assert sorted(made.tokens.lengths) == [1, 6, 6, 6, 6, 6]
    assert len(set(made.keys.tolist())) == 6 and sorted(made.ids) == [1] * 5 + [20]


def test_keys_depend_on_seed_and_place_alone(tokenizer):
    one, two = Document(3, 5, 5, ["cat"]), Document(3, 6, 6, ["the cat", "sat"])
    both = {int(d): int(k) for d, k in zip(*_ids_and_keys([one, two], tokenizer, 7), strict=True)}
    alone = {int(tokenize_documents([each], tokenizer, 7).keys[0]) for each in (one, two)}
    assert alone == set(both.values())
    assert set(both.values()).isdisjoint(tokenize_documents([one, two], tokenizer, 8).keys.tolist())


def _ids_and_keys(texts, tokenizer, seed):
    made = tokenize_documents(texts, tokenizer, seed)
    return made.ids, made.keys


def test_random_keys_look_random():
    keys = random_keys(1, np.zeros(100_000, np.int64), np.arange(100_000))
    assert len(set(keys.tolist())) == 100_000
    for bit in range(64):
        assert abs((keys >> np.uint64(bit) & np.uint64(1)).mean() - 0.5) < 0.01
    assert abs(np.corrcoef(np.argsort(keys), np.arange(100_000))[0, 1]) < 0.02
