"""Units of a job of pretraining data, and how their documents become records.

A unit is the documents whose keys lie in one range, sorted by key, in one pass over the corpus. Its random choices
depend only on the seed, the pass and the number of the range, not on the process or the time.
"""

import numpy as np

from bert_tf.data.example_bytes import serialize
from bert_tf.data.ragged import NOTHING, Ragged, concatenate_features
from bert_tf.pretraining.corpus.documents import Documents
from bert_tf.pretraining.corpus.examples import OBJECTIVES, lay_out_examples
from bert_tf.pretraining.corpus.options import CorpusOptions
from bert_tf.pretraining.corpus.statistics import Statistics
from bert_tf.pretraining.masking import mask
from bert_tf.pretraining.masking_vocabulary import MaskingVocabulary
from bert_tf.pretraining.packing import pack_examples

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
    around = len(vocabulary.before) + len(vocabulary.after)
    special = around + (len(vocabulary.between) if options.sentence_objective != "none" else 0)
    examples = objective(documents, options.max_seq_length, options.short_seq_prob, rng, special)
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
        continues = rows.pop("continues")
        if options.sentence_objective == "none":
            del rows["next_sentence_labels"]
        if not options.dynamic_masking:
            continues = continues if options.word_segmenter else None
            rows |= mask(rows["input_ids"], options.masks, vocabulary, rng, counts, continues)
        parts.append(rows)
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([rows[name] for rows in parts]) for name in parts[0]}
