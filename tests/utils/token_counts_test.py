"""Counts of truncated texts and unknown tokens: each kind is warned of once, above a tenth."""

import pickle

from bert_tf.utils.token_counts import TokenCountLog, TokenCounts


def test_shares_and_words():
    counts = TokenCounts(8, 1, 1000, 30).plus((2, 1, 0, 0))
    assert counts == (10, 2, 1000, 30) and (counts.truncated_share, counts.unknown_share) == (0.2, 0.03)
    assert str(counts) == "2 of 10 texts (20.0 %) are truncated; 30 of 1,000 tokens (3.0 %) are unknown"
    assert (TokenCounts().truncated_share, TokenCounts().unknown_share) == (0, 0)


def test_each_kind_is_warned_of_once(caplog):
    log = TokenCountLog("models/reviews", 128)
    log.add((10, 1, 100, 10))
    assert not caplog.records
    log.add((1, 1, 0, 0))
    log.add((10, 10, 100, 90))
    log.add((10, 10, 100, 90))
    assert caplog.messages == [
        "models/reviews: 2 of 11 texts (18.2 %) are truncated at 128 tokens; the model ignores the rest. Use a "
        "larger maximum length, or shorter texts.",
        "models/reviews: 100 of 200 tokens (50.0 %) are not in the vocabulary, so results are unreliable. Check the "
        "language of the texts, their encoding, and `do_lower_case`.",
    ]


def test_few_texts_of_a_server_are_not_warned_of(caplog):
    log = TokenCountLog("m", fewest=3)
    log.add((2, 2, 9, 9))
    assert not caplog.records
    log.add((1, 0, 0, 0))
    assert len(caplog.records) == 2


def test_what_was_added_is_taken_once():
    log = TokenCountLog("m")
    log.add((1, 0, 5, 0))
    log.add((1, 0, 6, 0))
    assert log.take() == (2, 0, 11, 0) and log.take() == (0, 0, 0, 0) and log.total == (2, 0, 11, 0)
    again = pickle.loads(pickle.dumps(log))
    assert again.total == (0, 0, 0, 0)
