"""Which texts make an example: by hand where there is one way only, by law where there are many."""

import dataclasses

import numpy as np
import pytest

from bert_tf.pretraining.corpus import examples as ex
from tests.pretraining.corpus import support

PIECES = support.pieces()


def _example(documents, examples, row):
    """The texts of an example, as lists of ids, and its label."""
    tokens = documents.tokens.flat
    a, b = (tokens[s[row] : s[row] + n[row]].tolist() for s, n in (examples[0:2], examples[2:4]))
    return a, b, int(examples.label[row])


def _all(documents, examples):
    return [_example(documents, examples, row) for row in range(len(examples.label))]


def test_one_text_takes_whole_sentences_as_long_as_they_fit():
    documents = support.documents([[11, 12], [13], [14, 15, 16]], [[17] * 7, [18]])
    examples = ex.one_text(documents, 5, 0.0, np.random.default_rng(0))
    assert _all(documents, examples) == [
        ([11, 12, 13], [], 0),
        ([14, 15, 16], [], 0),
        ([17, 17, 17], [], 0),
        ([17, 17, 17], [], 0),
        ([17, 18], [], 0),
    ]


def test_rows_are_laid_out_as_bert_reads_them():
    documents = support.documents([[11, 12], [13, 14, 15]], [[16]])
    one, two, zero = ([np.array([x], np.int64) for x in v] for v in ([0, 2], [2, 3], [0, 0]))
    pair = ex.PretrainingExamples(one[0], two[0], one[1], two[1], np.array([1], np.int32), np.array([0], np.int8))
    rows = ex.lay_out_examples(documents, pair, 10, PIECES)
    assert rows["input_ids"].tolist() == [[2, 11, 12, 3, 13, 14, 15, 3, 0, 0]]
    assert rows["input_mask"].tolist() == [[1, 1, 1, 1, 1, 1, 1, 1, 0, 0]]
    assert rows["segment_ids"].tolist() == [[0, 0, 0, 0, 1, 1, 1, 1, 0, 0]]
    assert rows["next_sentence_labels"].tolist() == [[1]]
    single = ex.lay_out_examples(documents, pair._replace(b_length=zero[1]), 5, PIECES)
    assert single["input_ids"].tolist() == [[2, 11, 12, 3, 0]] and not single["segment_ids"].any()
    assert not rows.pop("continues").any() and all(array.dtype == np.int32 for array in rows.values())


def test_rows_are_laid_out_as_roberta_reads_them():
    documents = support.documents([[11, 12], [13, 14, 15]])
    one, two, zero = ([np.array([x], np.int64) for x in v] for v in ([0, 2], [2, 3], [0, 0]))
    pair = ex.PretrainingExamples(one[0], two[0], one[1], two[1], np.array([1], np.int32), np.array([0], np.int8))
    roberta = dataclasses.replace(PIECES, before=(2,), between=(3, 3), after=(3,), second_segment=0, pad_id=1)
    rows = ex.lay_out_examples(documents, pair, 11, roberta)
    assert rows["input_ids"].tolist() == [[2, 11, 12, 3, 3, 13, 14, 15, 3, 1, 1]]
    assert rows["input_mask"].tolist() == [[1] * 9 + [0] * 2] and not rows["segment_ids"].any()
    single = ex.lay_out_examples(documents, pair._replace(b_length=zero[1]), 6, roberta)
    assert single["input_ids"].tolist() == [[2, 11, 12, 3, 1, 1]]


def test_next_sentence_of_two_documents_by_hand():
    """Sentences of one piece, rows of two: each chunk is two sentences, cut in the middle."""
    documents = support.documents([[11], [12], [13], [14]], [[21], [22]])
    for seed in range(50):
        examples = ex.next_sentence(documents, 5, 0.0, np.random.default_rng(seed))
        for row, (a, b, label) in enumerate(_all(documents, examples)):
            own = 10 if a[0] < 20 else 20
            assert len(a) == len(b) == 1
            if label:
                assert b[0] // 10 * 10 != own
            else:
                assert b == [a[0] + 1]
            lone = a[0] in (14, 22)
            assert lone == (examples.forced[row] == ex.FORCED_RANDOM) or not lone


def test_nothing_is_lost_of_the_first_texts():
    """With room for all, the first texts and the true second ones are the document, in order, each piece once."""
    documents = support.documents([[n] for n in range(5, 45)], [[n] for n in range(45, 85)])
    examples = ex.next_sentence(documents, 20, 0.0, np.random.default_rng(3))
    read = [x for a, b, label in _all(documents, examples) for x in (a if label else a + b)]
    assert read == list(range(5, 85))


@pytest.mark.parametrize("seed", range(3))
def test_laws_of_next_sentence(seed):
    rng = np.random.default_rng(seed)
    documents = support.random_documents(rng, 800)
    examples = ex.next_sentence(documents, 64, 0.1, rng)
    part = [np.searchsorted(documents.tokens.splits, start, "right") - 1 for start in (examples[0], examples[2])]
    random = examples.label == 1
    assert (part[0][random] != part[1][random]).all() and (part[0][~random] == part[1][~random]).all()
    chosen = examples.forced == ex.CHOSEN
    assert abs(random[chosen].mean() - 0.5) < 4 * 0.5 / chosen.sum() ** 0.5
    assert random[~chosen].all()
    assert examples.a_length.min() >= 1 and examples.b_length.min() >= 1
    lengths = examples.a_length + examples.b_length
    assert lengths.max() == 61 and (lengths == 61).mean() > 0.5


def test_a_part_of_the_same_document_is_no_other_document():
    documents = support.documents(*([[[n]] * 3 for n in range(5, 25)]), ids=[0] * 10 + list(range(1, 11)))
    partners = set()
    for seed in range(20):
        examples = ex.next_sentence(documents, 8, 0.0, np.random.default_rng(seed))
        partners |= {(a[0] < 15, b[0]) for a, b, label in _all(documents, examples) if label}
    assert {b for own, b in partners if own} == set(range(15, 25))
    assert {b for own, b in partners if not own} == set(range(5, 25))


def test_without_another_document_pairs_are_true_and_lone_sentences_left_out():
    documents = support.documents([[11], [12], [13]])
    examples = ex.next_sentence(documents, 5, 0.0, np.random.default_rng(0))
    assert _all(documents, examples) == [([11], [12], 0)]
    assert examples.forced.tolist() == [ex.FORCED_ACTUAL]


def test_sentence_order_swaps_half_of_the_pairs():
    documents = support.documents(*([[n], [n + 1]] for n in range(5, 2005, 2)))
    examples = ex.sentence_order(documents, 5, 0.0, np.random.default_rng(0))
    for a, b, label in _all(documents, examples):
        assert (b[0] - a[0]) == (-1 if label else 1)
    assert len(examples.label) == 1000 and abs(examples.label.mean() - 0.5) < 0.07


def test_sentence_order_cuts_a_lone_sentence_and_leaves_out_a_lone_piece():
    documents = support.documents([[11, 12]], [[13]])
    ((a, b, label),) = _all(documents, ex.sentence_order(documents, 8, 0.0, np.random.default_rng(0)))
    assert (b + a if label else a + b) == [11, 12]


@pytest.mark.parametrize("name", ex.OBJECTIVES)
def test_short_seq_prob_of_one_makes_every_length(name):
    documents = support.random_documents(np.random.default_rng(0), 300, longest=4)
    lengths = []
    for prob in (0.0, 1.0):
        examples = ex.OBJECTIVES[name](documents, 32, prob, np.random.default_rng(0))
        lengths.append(examples.a_length + examples.b_length)
    assert lengths[0].mean() > 1.4 * lengths[1].mean()
    assert set(range(6, 29)) <= set(lengths[1].tolist())


def test_truncation_is_google_s():
    """Beside a loop that pops pieces one by one off the longer text."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(1, 60, (2, 500))
    zero = np.zeros(500, np.int64)
    cut = ex._truncate(ex.PretrainingExamples(zero, a, zero + 1000, b, zero, zero), 40, rng)
    for n in range(500):
        la, lb = int(a[n]), int(b[n])
        while la + lb > 40:
            if la > lb:
                la -= 1
            else:
                lb -= 1
        assert (cut.a_length[n], cut.b_length[n]) == (la, lb)
        assert 0 <= cut.a_start[n] <= a[n] - la and 1000 <= cut.b_start[n] <= 1000 + b[n] - lb
    removed = a - cut.a_length
    assert abs(cut.a_start.sum() / removed.sum() - 0.5) < 0.05  # as much at the front as at the back
