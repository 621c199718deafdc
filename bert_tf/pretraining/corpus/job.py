"""What a job of pretraining data is, and how the documents of a unit become records."""

import dataclasses
from collections import Counter

import numpy as np

from bert_tf.data.example_bytes import serialize
from bert_tf.data.ragged import NOTHING, Ragged, concatenate_features
from bert_tf.pretraining.corpus.documents import Documents
from bert_tf.pretraining.corpus.examples import OBJECTIVES, CorpusOptions, lay_out_examples
from bert_tf.pretraining.corpus.statistics import Statistics
from bert_tf.pretraining.masking import mask
from bert_tf.pretraining.masking_vocabulary import MaskingVocabulary
from bert_tf.pretraining.packing import pack_examples
from bert_tf.tokenization.added_tokens import AddedToken
from bert_tf.utils.names import number_of


@dataclasses.dataclass(frozen=True)
class CorpusJob:
    """The text files, tokenizer, options and output files of a run.

    Attributes:
        paths, formats: the text files and their formats; see `bert_tf.utils.text_files`.
        output_files: files that the records are randomly distributed over; compressed if they end in .gz.
        vocab_file, do_lower_case: settings of the tokenizer.
        options: how examples are created.
        num_workers: number of processes.
        work_dir: directory for the sorted runs. If None, the directory of the first output file.
        strip_accents: setting of the tokenizer. If None, the same as do_lower_case.
        added_tokens: added tokens of the tokenizer.
    """

    paths: list
    formats: list
    output_files: list
    vocab_file: str
    do_lower_case: bool = True
    options: CorpusOptions = CorpusOptions()
    num_workers: int = 1
    work_dir: str | None = None
    strip_accents: bool | None = None
    added_tokens: tuple[AddedToken, ...] = ()

    @property
    def strips_accents(self) -> bool:
        """True if accents are stripped."""
        return self.do_lower_case if self.strip_accents is None else self.strip_accents

    def without_paths(self) -> "CorpusJob":
        """Returns the job as a task needs it, which may be sent to many processes; there may be millions of paths."""
        return dataclasses.replace(self, paths=[], formats=[])

    def make_tokenizer(self):
        """Returns the WordPiece tokenizer."""
        from bert_tf.tokenization.wordpiece import Tokenizer  # imports TensorFlow, which only worker processes need

        accents = self.strip_accents
        return Tokenizer(self.vocab_file, self.do_lower_case, strip_accents=accents, added_tokens=self.added_tokens)


# === Units ===
# A unit is the documents whose keys lie in one range, sorted by key, in one pass over the corpus. Its random choices
# depend only on the seed, the pass and the number of the range, not on the process or the time.


UNIT_TOKENS = 1 << 22  # approximate: enough documents to sample random next sentences from, and small enough for memory
_EXAMPLES = 4096  # masked together, so that the arrays stay in the processor's cache
_EXAMPLES_TO_PACK = 1 << 15  # more candidates give fuller rows


def number_of_units(tokens: int) -> int:
    """Returns the number of units of a pass over a corpus of the given number of tokens."""
    return max(1, -(-tokens // UNIT_TOKENS))


def make_batches(
    documents: Documents,
    options: CorpusOptions,
    vocabulary: MaskingVocabulary,
    pass_number: int,
    unit: int,
    statistics=None,
):
    """Creates the examples of a unit, in random order.

    Args:
        documents: the unit's documents, sorted by key.
        options, vocabulary: how to create the examples.
        pass_number, unit: integers from 0 that determine the random choices.
        statistics: a `Statistics` that counts the examples, or None.

    Yields:
        {name: array [n, ...]} with the features of `bert_tf.data.features` that the options require.
    """
    rng = np.random.default_rng([options.random_seed, pass_number, unit])
    objective = OBJECTIVES[options.sentence_objective]
    examples = objective(documents, options.max_seq_length, options.short_seq_prob, rng)
    examples = examples.take(rng.permutation(len(examples.label)))
    size = _EXAMPLES_TO_PACK if options.packing else _EXAMPLES
    for start in range(0, len(examples.label), size):
        chosen = examples.take(slice(start, start + size))
        counts = None if statistics is None else statistics.phrases
        rows = _masked_rows(documents, chosen, options, vocabulary, rng, counts)
        if statistics is not None:
            statistics.add_examples(rows, chosen.forced, vocabulary)
        if options.packing:
            rows = pack_examples(rows, options.max_predictions_per_seq, options.max_sentences_per_seq)
        if statistics is not None:
            statistics.add_rows(rows["input_mask"])
        yield rows


def make_records(documents, options, vocabulary, pass_number, unit) -> tuple[np.ndarray, Ragged, Statistics]:
    """Returns the random uint64 keys and the bytes of the unit's records, and their statistics.

    The arguments are the same as of `make_batches`.
    """
    statistics = Statistics.empty(options, vocabulary.vocab_size)
    parts = [serialize(rows) for rows in make_batches(documents, options, vocabulary, pass_number, unit, statistics)]
    records = concatenate_features(parts) if parts else NOTHING
    statistics.record_bytes = len(records.flat)
    rng = np.random.default_rng([options.random_seed, pass_number, unit, 1])
    keys = rng.integers(0, np.iinfo(np.uint64).max, len(records.lengths), np.uint64, endpoint=True)
    return np.sort(keys), records, statistics  # sorted for speed: the records are already in random order


def _masked_rows(documents, examples, options, vocabulary, rng, counts):
    """Returns the features of examples, masked a few thousand at a time for speed."""
    parts = []
    for start in range(0, len(examples.label), _EXAMPLES):
        rows = lay_out_examples(
            documents, examples.take(slice(start, start + _EXAMPLES)), options.max_seq_length, vocabulary
        )
        if options.sentence_objective == "none":
            del rows["next_sentence_labels"]
        if not options.dynamic_masking:
            rows |= mask(rows["input_ids"], options.masks, vocabulary, rng, counts)
        parts.append(rows)
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([rows[name] for rows in parts]) for name in parts[0]}


# === Checks ===
# What a local run and a Beam pipeline find out about the text only while they work.


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
