"""Checks that records are consistent and match the model: tokenizer, letter case and sentence objective."""

import numpy as np
from absl import logging

from bert_tf.pretraining.batches import Records
from bert_tf.pretraining.record_files import find_vocabulary
from bert_tf.pretraining.record_metadata import RecordMetadata, tokenizer_fingerprint, vocabulary_fingerprint
from bert_tf.tokenization.base_tokenizer import BaseTokenizer

_ROWS, _FILES = 256, 16  # to check in files that do not state how they were created
_CASE = ("do_lower_case", "strip_accents")


def check_compatibility(several: list[Records], tokenizer: BaseTokenizer, sentence_objectives: tuple[str, ...]):
    """Raises ValueError for records of another tokenizer, letter case or sentence objective.

    Files that do not describe how they were created are checked by their ids of [CLS], [SEP] and [MASK]; a warning
    lists what remains unchecked.

    Args:
        several: all records of a run, including those for evaluation.
        tokenizer: the model's tokenizer.
        sentence_objectives: those that the run supports; if the records have another one, it is ignored if "none" is
            among them, and an error otherwise.

    Raises:
        ValueError: the records do not match.
    """
    described = {path: metadata for records in several for path, metadata in records.metadata.items()}
    known = {path: metadata for path, metadata in described.items() if metadata}
    _check_vocabulary(known, tokenizer)
    _check_rules(known, tokenizer)
    _check_case(known, tokenizer)
    _check_sentences(known, sentence_objectives)
    whose = {path: records for records in several for path in records.paths}
    unknown = [path for path, metadata in described.items() if not metadata]
    for path in unknown[:_FILES]:
        _check_special_ids(path, whose[path].sample(path, _ROWS), tokenizer)
    if unknown:
        logging.warning(
            "%d of %d record files, such as %s, do not describe how they were made, because they come from another "
            "program or an earlier version. Only their [CLS], [SEP] and [MASK] were checked against the model; their "
            "other tokens, their letter case and their sentence objective are unknown.",
            *(len(unknown), len(described), unknown[0]),
        )


def find_records_vocabulary(several: list[Records]) -> tuple[str, bool] | None:
    """Finds the vocabulary next to records that created them, and its do_lower_case; returns None if there is none.

    Raises:
        ValueError: the records were created with several vocabularies.
    """
    known = {path: metadata for records in several for path, metadata in records.metadata.items() if metadata}
    _check_same(known, "vocabulary", "vocab_file")
    for path, metadata in known.items():
        if vocabulary := find_vocabulary(path, metadata):
            return vocabulary, metadata.do_lower_case
    return None


def _check_vocabulary(known: dict[str, RecordMetadata], tokenizer):
    _check_same(known, "vocabulary", "vocab_file")
    ours = vocabulary_fingerprint(tokenizer.vocab)
    for path, metadata in known.items():
        if metadata.vocabulary != ours:
            theirs = find_vocabulary(path, metadata)
            remedy = f"pass `vocab_file={theirs}` with a model of that vocabulary" if theirs else "use that one"
            raise ValueError(
                f"The records must be made with the model's vocabulary, {tokenizer.vocab_file}, of "
                f"{tokenizer.vocab_size} tokens with the SHA-256 {ours[:16]}. {path} was made with another one, "
                f"with the SHA-256 {metadata.vocabulary[:16]}; create the records again, or {remedy}."
            )


def _check_rules(known, tokenizer):
    """Raises ValueError if records were made with other merges, scores or special tokens."""
    _check_same(known, "tokenizer", "init_checkpoint")
    ours, special = tokenizer_fingerprint(tokenizer), " ".join(dict.fromkeys(tokenizer.template.pieces(2)))
    for path, metadata in known.items():
        if metadata.tokenizer != ours:
            raise ValueError(
                f"The records must be made with the model's tokenizer, that of {tokenizer.vocab_file} with the special "
                f"tokens {special}. {path} was made with a tokenizer that has the same vocabulary, but other merges or "
                "scores, or other special tokens; create the records again with `init_checkpoint`."
            )


def _check_case(known, tokenizer):
    for name in _CASE:
        _check_same(known, name, name)
        ours = getattr(tokenizer, name, None)  # only WordPiece tokenizers have a setting for accents
        for path, metadata in known.items():
            if ours not in (None, getattr(metadata, name)):
                theirs = str(getattr(metadata, name)).lower()
                where = "`do_lower_case`" if name == _CASE[0] else "tokenizer_config.json next to the vocabulary"
                raise ValueError(
                    f"The records must be made with the model's {name}, {str(ours).lower()}. {path} was made "
                    f"with {name} {theirs}; create the records again or, if {theirs} is correct, set it in {where}."
                )


def _check_sentences(known, can_learn):
    learned = {path: metadata for path, metadata in known.items() if metadata.sentence_objective in can_learn}
    if "none" not in can_learn and learned != known:
        path, metadata = next(each for each in known.items() if each[0] not in learned)
        raise ValueError(
            f"The records must be made with `sentence_objective={can_learn[0]}`, which this `objective` requires. "
            f"{path} was made with {metadata.sentence_objective}; create them again, or choose another `objective`."
        )
    _check_same(learned, "sentence_objective", "sentence_objective")


def _check_same(known, name, option):
    """Raises ValueError if files were created with different values of `option` of `pretrain data`."""
    first = next(iter(known), None)
    for path, metadata in known.items():
        here, there = getattr(metadata, name), getattr(known[first], name)
        if here != there:
            here, there = (str(value)[:16] for value in (here, there))
            raise ValueError(
                f"The records of one run, including `eval_file`, must be made with the same `{option}`. "
                f"{path} was made with {here}, but {first} with {there}; remove one, or create it again."
            )


def _check_special_ids(path, batch, tokenizer):
    """Raises ValueError if the ids of rows (int32 [n, S] and so on) imply another vocabulary."""
    rows = {name: values.numpy() for name, values in batch.items()}
    ids, lengths = rows["input_ids"], rows["input_mask"].sum(1)
    row = np.arange(len(ids))
    first, last = tokenizer.template.before[0], tokenizer.template.after[-1]
    _expect(path, first, tokenizer, ids[:, 0], "begin with")
    _expect(path, last, tokenizer, ids[row, np.maximum(lengths, 1) - 1], "end with")
    hidden = _hidden(rows) if "masked_lm_ids" in rows else ids[:0, 0]
    if len(hidden) and tokenizer.mask_id is not None:
        values, counts = np.unique(hidden, return_counts=True)
        if counts.max() > len(hidden) / 2:  # more likely the mask token than random tokens
            _expect(path, tokenizer.mask, tokenizer, values[[counts.argmax()]], "mask tokens with")


def _hidden(rows):
    """Returns the replacements of masked tokens that differ from the originals, int [n]."""
    real = rows["masked_lm_weights"] > 0
    seen = np.take_along_axis(rows["input_ids"], rows["masked_lm_positions"], 1)[real]
    return seen[seen != rows["masked_lm_ids"][real]]


def _expect(path, token, tokenizer, ids, what):
    expected = tokenizer.vocab.index(token)
    if wrong := [int(each) for each in ids if each != expected]:
        raise ValueError(
            f"The sequences of {path} must {what} {token}, {expected} in the model's vocabulary, "
            f"{tokenizer.vocab_file}; got {wrong[0]}: the records were made with another vocabulary; create them "
            "again with the model's, or use theirs for the model."
        )
