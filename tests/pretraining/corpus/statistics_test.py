"""What is counted of the examples: hand-made ones, and real rows."""

import json
import pickle
from collections import Counter

import numpy as np
import pytest

from bert_tf.pretraining.corpus.examples import CHOSEN, FORCED_ACTUAL, FORCED_RANDOM
from bert_tf.pretraining.corpus.options import CorpusOptions
from bert_tf.pretraining.corpus.statistics import Statistics
from bert_tf.pretraining.corpus.units import make_batches
from tests.pretraining.corpus import support

PAD, _, CLS, SEP, MASK = range(5)
PIECES = support.pieces(words=95, continuations=5)
OPTIONS = CorpusOptions(max_seq_length=8, max_predictions_per_seq=3)


def _masked():
    """Three examples. One prediction is hidden, two are random, of which one is the original piece, and one is kept."""
    return {
        "input_ids": np.array(
            [
                [CLS, 11, MASK, SEP, 77, SEP, PAD, PAD],
                [CLS, 21, 22, 23, SEP, 24, 25, SEP],
                [CLS, 11, SEP, 31, SEP, PAD, PAD, PAD],
            ]
        ),
        "input_mask": np.array([[1, 1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0, 0, 0]]),
        "next_sentence_labels": np.array([[1], [0], [1]]),
        "masked_lm_positions": np.array([[2, 4, 0], [1, 5, 0], [0, 0, 0]]),
        "masked_lm_ids": np.array([[12, 12, 0], [21, 24, 0], [0, 0, 0]]),
        "masked_lm_weights": np.array([[1, 1, 0], [1, 1, 0], [0, 0, 0]], np.float32),
    }


def _counted(rows, forced=(CHOSEN, FORCED_ACTUAL, FORCED_RANDOM)):
    statistics = Statistics.empty(OPTIONS, PIECES.vocab_size)
    statistics.add_examples(rows, np.array(forced, np.int8), PIECES)
    return statistics


def test_three_examples_drawn_by_hand():
    statistics = _counted(_masked())
    statistics.add_rows(_masked()["input_mask"])
    assert (statistics.examples, statistics.tokens, statistics.chosen) == (3, 6 + 8 + 5, 4)
    assert (statistics.rows, statistics.padding) == (3, 2 + 0 + 3)
    #                                    0  1  2  3  4  5  6  7  8
    assert statistics.lengths.tolist() == [0, 0, 0, 0, 0, 1, 1, 0, 1]
    assert statistics.predictions.tolist() == [1, 0, 2, 0]
    assert statistics.replacements.tolist() == [1, 1, 2]  # hidden; random; kept
    assert statistics.pairs.tolist() == [[0, 0, 1], [1, 1, 0]]
    assert {i: n for i, n in enumerate(statistics.masked_ids.tolist()) if n} == {12: 2, 21: 1, 24: 1}
    assert statistics.masked_ids.dtype == np.int64


def test_json_holds_every_count():
    statistics = _counted(_masked())
    statistics.add_rows(_masked()["input_mask"])
    statistics.text.update(Counter(documents=2, junk_lines=1))
    statistics.text.update(Counter(documents=3))
    told = json.loads(json.dumps(statistics.to_json()))
    assert sum(told.pop("masked_ids")) == 4
    assert told == {
        "examples": 3, "tokens": 19, "rows": 3, "padding": 5,
        "lengths": [0, 0, 0, 0, 0, 1, 1, 0, 1], "predictions": [1, 0, 2, 0],
        "shapes": [[5, 0, 1], [6, 2, 1], [8, 2, 1]],
        "pairs": {"actual": [0, 0, 1], "random": [1, 1, 0]},
        "replacements": {"hidden": 1, "swapped": 1, "kept": 2},
        "text": {"documents": 5, "junk_lines": 1},
        "phrases": {"found": 0, "masked": 0},
    }  # fmt: skip


def test_examples_of_one_text_without_masks():
    rows = {name: _masked()[name] for name in ("input_ids", "input_mask")}
    statistics = _counted(rows)
    assert statistics.lengths.sum() == statistics.predictions[0] == 3
    assert not statistics.pairs.any() and not statistics.replacements.any() and not statistics.masked_ids.any()


def test_parts_add_up_to_the_whole_and_travel_between_processes():
    whole, parts = _counted(_masked()), []
    for i in range(3):
        parts.append(_counted({name: rows[i : i + 1] for name, rows in _masked().items()}, [(0, 2, 1)[i]]))
        parts[-1].text.update(Counter(documents=1))
        parts[-1].add_rows(_masked()["input_mask"][i : i + 1])
    first, *others = pickle.loads(pickle.dumps(parts))
    added = sum(others, first)
    whole.text.update(Counter(documents=3))
    whole.add_rows(_masked()["input_mask"])
    assert added.to_json() == whole.to_json()
    assert first.examples == 1  # adding leaves the parts as they were


@pytest.mark.parametrize("masking", ["token", "whole_word", "span"])
@pytest.mark.parametrize("packing", [False, True])
def test_what_is_counted_is_what_the_rows_hold(masking, packing):
    options = CorpusOptions(max_seq_length=64, max_predictions_per_seq=10, masking=masking, packing=packing)
    documents = support.random_documents(np.random.default_rng(1), vocab=(5, 105))
    statistics = Statistics.empty(options, PIECES.vocab_size)
    made = list(make_batches(documents, options, PIECES, 0, 0, statistics))
    weights = np.concatenate([rows["masked_lm_weights"].ravel() for rows in made]) > 0
    ids = np.concatenate([rows["masked_lm_ids"].ravel() for rows in made])[weights]
    tokens = sum(int(rows["input_mask"].sum()) for rows in made)
    assert statistics.rows == sum(len(rows["input_ids"]) for rows in made)
    assert statistics.tokens == tokens == statistics.rows * 64 - statistics.padding
    assert statistics.chosen == len(ids) == statistics.predictions @ np.arange(11)
    np.testing.assert_array_equal(statistics.masked_ids, np.bincount(ids, minlength=PIECES.vocab_size))
    assert statistics.examples == statistics.pairs.sum()
    assert (statistics.examples > statistics.rows) == packing
