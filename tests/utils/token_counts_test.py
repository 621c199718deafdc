"""Counts of truncated texts and unknown tokens: each kind is warned of once, if it is large."""

import pickle

import pytest

from bert_tf.utils.token_counts import TokenCountLog, TokenCounts, log_counts

ADVICE = (
    "Results are unreliable for unknown tokens, and mean nothing for texts of them: check the language and the "
    "encoding of the texts, and whether they have the letter case that the model expects (`do_lower_case`, which is "
    "set when a model is trained or loaded)."
)


def test_shares_and_words():
    counts = TokenCounts(8, 1, 1000, 30).plus((2, 1, 0, 0, 0))
    assert counts == (10, 2, 1000, 30, 0) and (counts.truncated_share, counts.unknown_share) == (0.2, 0.03)
    assert str(counts) == "2 of 10 texts (20.0%) are truncated; 30 of 1,000 tokens (3.0%) are unknown"
    assert (TokenCounts().truncated_share, TokenCounts().unknown_share) == (0, 0)


def test_each_kind_is_warned_of_once(caplog):
    log = TokenCountLog("models/reviews", 128)
    log.add((10, 1, 100, 10, 0))
    assert not caplog.records
    log.add((1, 1, 0, 0, 0))
    log.add((10, 10, 100, 90, 0))
    log.add((10, 10, 100, 90, 0))
    log.add((69, 0, 1000, 0, 1))
    assert caplog.messages == [
        "models/reviews: 2 of 11 texts (18.2%) are truncated; 10 of 100 tokens (10.0%) are unknown. The model reads "
        "only the first 128 tokens of truncated texts: use a larger `max_seq_length` when it is loaded or exported, or "
        "shorter texts.",
        "models/reviews: 12 of 21 texts (57.1%) are truncated; 100 of 200 tokens (50.0%) are unknown. " + ADVICE,
        "models/reviews: 22 of 100 texts (22.0%) are truncated; 190 of 1,300 tokens (14.6%) are unknown; 1 of 100 "
        "texts (1.0%) consists mostly of unknown tokens. " + ADVICE,
    ]


def test_a_few_unreadable_texts_among_many_long_ones(caplog):
    """They are a small share of the tokens."""
    log = TokenCountLog("m")
    log.add((991, 0, 100_000, 90, 9))
    assert not caplog.records
    log.add((9, 0, 30, 30, 3))
    (message,) = caplog.messages
    assert message.startswith(
        "m: 0 of 1,000 texts (0.0%) are truncated; 120 of 100,030 tokens (0.1%) are unknown; 12 of 1,000 texts "
        "(1.2%) consist mostly of unknown tokens. Results are unreliable"
    )


@pytest.mark.parametrize("counts, level, advice", [
    (TokenCounts(1000, 1, 100_000, 90, 0), "INFO", "unknown."),
    (TokenCounts(1000, 1, 100_000, 90, 1), "WARNING", f"(0.1%) consists mostly of unknown tokens. {ADVICE}"),
    (TokenCounts(10, 5, 1000, 0, 0), "WARNING", "unknown. The model reads only the beginning of truncated texts: use a "
     "larger `max_seq_length` when it is loaded or exported, or shorter texts."),
])  # fmt: skip
def test_each_unreadable_text_of_a_file_is_warned_of(counts, level, advice, caplog):
    caplog.set_level("INFO", logger="absl")
    log_counts("in.txt", counts)
    (record,) = caplog.records
    assert record.levelname == level and record.getMessage().endswith(advice)
    assert record.getMessage().startswith(f"in.txt: {counts}.")


def test_a_call_is_warned_of_as_a_whole(caplog):
    log = TokenCountLog("m")
    with log.together():
        log.add((10, 0, 90, 9, 1))
        log.add((190, 0, 900, 30, 3))
        assert not caplog.records
    assert "; 4 of 200 texts (2.0%) consist mostly" in caplog.text and len(caplog.records) == 1


def test_a_log_whose_counts_the_caller_reports_is_silent(caplog):
    log = TokenCountLog("m")
    log.warns = False
    log.add((1, 1, 2, 2, 1))
    assert not caplog.records and log.total == (1, 1, 2, 2, 1)


def test_few_texts_of_a_server_are_not_warned_of(caplog):
    log = TokenCountLog("m", fewest=3)
    log.add((2, 2, 9, 9, 2))
    assert not caplog.records
    log.add((1, 0, 0, 0, 0))
    assert len(caplog.records) == 1


def test_what_was_added_is_taken_once():
    log = TokenCountLog("m")
    log.add((1, 0, 5, 0, 0))
    log.add((1, 0, 6, 0, 0))
    assert log.take() == (2, 0, 11, 0, 0) and log.take() == TokenCounts() and log.total == (2, 0, 11, 0, 0)
    again = pickle.loads(pickle.dumps(log))
    assert again.total == TokenCounts()
