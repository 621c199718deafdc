"""Byte pairs merged by SentencePiece's op are those of the merges one by one, whatever the merges."""

import random

import pytest

from bert_tf.tokenization import byte_pair_merges
from bert_tf.tokenization.byte_pair_merges import byte_symbols, effective_merges
from bert_tf.tokenization.byte_pairs import BytePairs

pytestmark = pytest.mark.usefixtures("run_eagerly")


def plain(word, ranks):
    """Merges the pair that was learned first, the leftmost of several, until there is none."""
    parts = list(word)
    while True:
        found = [(ranks[pair], at) for at, pair in enumerate(zip(parts, parts[1:], strict=False)) if pair in ranks]
        if not found:
            return parts
        at = min(found)[1]
        parts[at : at + 2] = ["".join(parts[at : at + 2])]


def drawn_merges(rng, alphabet, in_order):
    """Returns merges of tokens drawn by chance, many of which never happen or make the same token."""
    tokens, merges = list(alphabet), []
    while len(merges) < 30:
        pair = rng.choice(tokens), rng.choice(tokens)
        if len("".join(pair)) <= 12:
            merges.append(pair)
            tokens.append("".join(pair))
    if not in_order:
        rng.shuffle(merges)
    return merges


@pytest.mark.parametrize("in_order", [True, False])
def test_any_merges_in_any_word(in_order):
    rng = random.Random(0)
    for alphabet in ("ab", "abc", "abcdefgh", "ab"):
        merges = drawn_merges(rng, alphabet, in_order)
        ranks = {pair: number for number, pair in reversed([*enumerate(merges)])}
        assert effective_merges(merges) == byte_pair_merges._simulated(ranks)
        tokens = dict.fromkeys([*byte_symbols(), *("".join(pair) for pair in merges)])
        vocab = {token: number for number, token in enumerate(tokens)}
        names = list(vocab)
        words = ["".join(rng.choices(alphabet, k=rng.randrange(1, 40))) for _ in range(40)]
        words += [letter * n for letter in alphabet for n in range(1, 12)]
        for word, ids in zip(words, BytePairs(vocab, merges)(words)[0].to_list(), strict=True):
            assert [names[i] for i in ids] == plain(word, ranks)


def test_a_merge_that_never_happens_is_left_out():
    merges = [("b", "c"), ("a", "b"), ("ab", "c"), ("a", "bc")]  # "abc" is always "a" and "bc" first
    assert effective_merges(merges) == {"bc": 0, "ab": 1, "abc": 3}
    assert effective_merges([("ab", "c"), ("a", "b")]) == {"ab": 1, "abc": 0}  # a part is learned after the whole
