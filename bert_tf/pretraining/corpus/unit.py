"""Units of work: a random share of the documents to examples and records, for local runs, Beam and tf.data.

A unit is the documents whose keys lie in one range, sorted by key, in one pass over the corpus. Whatever is drawn for
it depends on the seed, the pass and the number of the range alone: not on who does the work, or when.
"""

import numpy as np

from bert_tf.data.features import NOTHING, Ragged, concatenate_features
from bert_tf.data.records import serialize
from bert_tf.pretraining.corpus import examples as ex
from bert_tf.pretraining.corpus.documents import Documents
from bert_tf.pretraining.corpus.examples import CorpusOptions
from bert_tf.pretraining.corpus.statistics import Statistics
from bert_tf.pretraining.masked_positions import MaskingVocabulary
from bert_tf.pretraining.masking import mask
from bert_tf.pretraining.packing import pack_examples

TOKENS = 1 << 22  # of a unit, about: enough documents to draw a random next sentence from, and little enough memory
_ROWS = 4096  # at a time, so that the arrays stay in the processor's cache
_ROWS_TO_PACK = 1 << 15  # the more there are to choose from, the fuller are the rows


def number_of_units(tokens: int) -> int:
    """Returns into how many units a pass over a corpus of so many tokens is divided."""
    return max(1, -(-tokens // TOKENS))


def make_batches(
    documents: Documents,
    options: CorpusOptions,
    vocabulary: MaskingVocabulary,
    pass_number: int,
    unit: int,
    statistics=None,
):
    """Makes the examples of a unit, in a random order.

    Args:
        documents: of the unit, sorted by key.
        options, vocabulary: of the examples.
        pass_number, unit: integers from 0, which the random draws depend on.
        statistics: a `Statistics` that counts what is made, or None.

    Yields:
        {name: array [n, ...]} with the features of `bert_tf.data.features` that the options ask for.
    """
    rng = np.random.default_rng([options.random_seed, pass_number, unit])
    objective = ex.OBJECTIVES[options.sentence_objective]
    examples = objective(documents, options.max_seq_length, options.short_seq_prob, rng)
    examples = examples.take(rng.permutation(len(examples.label)))
    size = _ROWS_TO_PACK if options.packing else _ROWS
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
    """Returns the unit's records: a random uint64 key and the bytes of each, and their statistics.

    The arguments are those of `make_batches`.
    """
    statistics = Statistics.empty(options, vocabulary.vocab_size)
    parts = [serialize(rows) for rows in make_batches(documents, options, vocabulary, pass_number, unit, statistics)]
    records = concatenate_features(parts) if parts else NOTHING
    rng = np.random.default_rng([options.random_seed, pass_number, unit, 1])
    keys = rng.integers(0, np.iinfo(np.uint64).max, len(records.lengths), np.uint64, endpoint=True)
    return np.sort(keys), records, statistics  # sorted for speed: the records themselves are in a random order


def _masked_rows(documents, examples, options, vocabulary, rng, counts):
    """The features of some examples. Masked a few thousand at a time, packed or not: it is faster so."""
    parts, number = [], len(examples.label)
    for start in range(0, number, _ROWS):
        rows = ex.lay_out_examples(
            documents, examples.take(slice(start, start + _ROWS)), options.max_seq_length, vocabulary
        )
        if options.sentence_objective == "none":
            del rows["next_sentence_labels"]
        if not options.dynamic_masking:
            rows |= mask(rows["input_ids"], options.masks, vocabulary, rng, counts)
        parts.append(rows)
    return parts[0] if number <= _ROWS else {name: np.concatenate([rows[name] for rows in parts]) for name in parts[0]}
