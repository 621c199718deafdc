"""Where words begin and end in tokens, by the texts of the tokens alone, and for the tokenizer of each kind."""

import itertools

import pytest

from bert_tf.tokenization.token_edges import find_token_edges
from bert_tf.tokenization.wordpiece_tables import WordPieceTables
from tests import tiny
from tests.pretraining import families

# Texts of tokens by whether they continue a word, and whether they end one. Those in the surrogates' place are bytes of
# a character that several tokens share: the first one of an ideograph, of é and of an emoji, and others.
EDGES = {
    (False, False): (" film", "'s", " ", "\udce5", " \udce5", "\udcf0"),
    (False, True): (",", " ,", "北", "京", " 北", "\n", "", "ก\u0e31", "한", "€"),
    (True, False): ("s", "9a", "e\u0301", "\u0301", "жи", "\udc8c\udc97", "\udcc3", "a\udce5"),
    (True, True): ("s,", "a北"),
}


@pytest.mark.parametrize("expected", EDGES)
def test_a_token_continues_or_ends_a_word_by_its_characters(expected):
    edges = find_token_edges(EDGES[expected], [False] * len(EDGES[expected]))
    assert [*zip(edges.continues.tolist(), edges.ends.tolist(), strict=True)] == [expected] * len(EDGES[expected])


def test_a_token_apart_is_a_word():
    edges = find_token_edges(["s", "s"], [False, True])
    assert edges.continues.tolist() == [True, False] and edges.ends.tolist() == [False, True]


def test_wordpiece_goes_by_its_mark_alone():
    edges = WordPieceTables(tiny.VOCAB).token_edges
    assert [tiny.VOCAB[i] for i in edges.continues.nonzero()[0]] == ["##s"] and not edges.ends.any()


def _words(tokenizer, text):
    """Returns the words of a text, each as the texts of its tokens."""
    edges, ids, names = tokenizer.token_edges, tokenizer.tokenize([text]).to_list()[0], tokenizer.written_tokens
    words = [[names[ids[0]]]]
    for before, token in itertools.pairwise(ids):
        if edges.continues[token] and not edges.ends[before]:
            words[-1].append(names[token])
        else:
            words.append([names[token]])
    return ["".join(word) for word in words]


@pytest.mark.parametrize("model_type", ["roberta", "modernbert", "deberta-v2"])
def test_words_of_each_kind(run_eagerly, tmp_path, model_type):
    tokenizer = families.tokenizer_of(tmp_path / "tokenizer", model_type)
    first, *others = _words(tokenizer, "the old ships, and gulls.")
    assert [first.strip(), *others] == ["the", " old", " ships", ",", " and", " gulls", "."]


def test_ideographs_are_words_though_their_bytes_are_tokens(run_eagerly, tmp_path):
    tokenizer = families.tokenizer_of(tmp_path / "tokenizer", "roberta")
    edges, ids = tokenizer.token_edges, tokenizer.tokenize(["ab北京cd"]).to_list()[0]
    starts = [not edges.continues[token] or edges.ends[before] for before, token in itertools.pairwise(ids)]
    assert sum(starts) == 2 and len(ids) > 8  # 北 and 京cd: what a last byte ends is not known
