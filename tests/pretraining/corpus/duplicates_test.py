"""Equal sentences are found, and all but one dropped."""

import numpy as np

from bert_tf.pretraining.corpus.documents import drop_sentences, find_duplicates, hash_sentences, locate_sentences
from tests.pretraining.corpus import support


def _left(documents, dropped):
    kept = drop_sentences(documents, dropped)
    return [support.sentences(kept, part) for part in range(len(kept))], kept


def test_equal_sentences_have_equal_hashes_and_no_others():
    documents = support.documents([[5, 6], [6, 5], [5, 6]], [[5], [5, 6, 5], [5, 5], [0, 5, 6]])
    hashes = hash_sentences(documents).tolist()
    assert hashes[0] == hashes[2] and len(set(hashes)) == 6


def test_sentences_are_dropped_and_so_are_parts_without_any():
    documents = support.documents([[5, 6], [7]], [[8]], [[9], [10, 11], [12]])
    left, kept = _left(documents, locate_sentences(documents).take([1, 2, 4]))
    assert left == [[[5, 6]], [[9], [12]]]
    assert kept.ids.tolist() == [0, 2] and kept.keys.tolist() == [0, 2] and kept.tokens.lengths.tolist() == [2, 2]


def test_one_of_several_stays_the_one_with_the_lowest_key():
    documents = support.documents([[5], [6, 6]], [[7], [5]], [[6, 6], [5], [8], [8]])
    dropped = find_duplicates(hash_sentences(documents), locate_sentences(documents))
    assert _left(documents, dropped)[0] == [[[5], [6, 6]], [[7]], [[8]]]


def test_the_order_in_which_they_are_found_does_not_matter():
    documents = support.random_documents(np.random.default_rng(0), 200, (5, 9), 4)
    hashes, places = hash_sentences(documents), locate_sentences(documents)
    order = np.random.default_rng(1).permutation(len(hashes))
    one, other = (_left(documents, find_duplicates(hashes[o], places.take(o)))[0] for o in (slice(None), order))
    assert one == other
    every = [tuple(s) for part in one for s in part]
    everything = {tuple(s) for part in range(len(documents)) for s in support.sentences(documents, part)}
    assert len(every) == len(set(every)) and set(every) == everything


def test_no_sentence_at_all():
    nothing = support.documents([[5]]).take(np.zeros(0, np.int64))
    assert len(find_duplicates(hash_sentences(nothing), locate_sentences(nothing)).part) == 0
