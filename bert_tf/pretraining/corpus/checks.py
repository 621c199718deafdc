"""Checks of the text that a local run and a Beam pipeline can make only while they read it."""

from collections import Counter

from absl import logging

from bert_tf.pretraining.corpus.options import CorpusOptions
from bert_tf.utils.counts import number_of, percent
from bert_tf.utils.token_counts import LARGE_SHARE


def check_text(counts: Counter, options: CorpusOptions):
    """Raises ValueError if there is not enough text to create examples."""
    if not counts["tokens"]:
        raise ValueError(
            f"No sentences found in {number_of(counts['files'], 'file')}. "
            "Check `input_file` and `input_format`."
        )
    if options.sentence_objective == "nsp" and counts["documents"] < 2:
        raise ValueError(
            "Next sentence prediction requires at least two documents, because a random sentence comes from another "
            "one. There is only one; separate documents with blank lines (`input_format=sentences`), use more files or "
            "`document_start` (prose), or use `sentence_objective=sop` or none."
        )


def check_made(size: int, counts: Counter, options: CorpusOptions):
    """Raises ValueError if no record was created; `size` is their number or size in bytes."""
    if not size:
        raise ValueError(
            f"The text is too short: no example could be made of its {counts['tokens']} tokens "
            f"with `sentence_objective={options.sentence_objective}`. Use more text."
        )


def check_written(path: str, number: int, of: int):
    """Raises ValueError if one of several files would have no record."""
    if not number:
        raise ValueError(
            f"Too many output files: the text is so short that {path}, one of {of} files, has no record. "
            "Write fewer files."
        )


def warn_of_unknown_tokens(counts: Counter):
    """Warns if many tokens of the text are unknown; `counts` has the numbers of "tokens" and "unknown" ones."""
    share = counts["unknown"] / counts["tokens"]
    if share > LARGE_SHARE:
        logging.warning(
            "%s of the tokens of `input_file` are unknown (%d of %d), so a model learns little from them. Check that "
            "the vocabulary matches the language and letter case of the text, and that the text is decoded correctly.",
            *(percent(share), counts["unknown"], counts["tokens"]),
        )
