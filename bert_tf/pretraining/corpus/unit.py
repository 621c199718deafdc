"""One unit of work: some documents, chosen by chance, to examples and records. Local runs, Beam and tf.data share it.

A unit is the documents whose keys lie in one range, sorted by key, in one pass over the corpus. Whatever is drawn for
it depends on the seed, the pass and the number of the range alone: not on who does the work, or when.
"""

import numpy as np

from bert_tf.data.features import NOTHING, Ragged, concatenate_features, ranges, splits_of
from bert_tf.data.records import serialize
from bert_tf.pretraining.corpus import examples as ex
from bert_tf.pretraining.corpus.documents import Documents
from bert_tf.pretraining.corpus.options import CorpusOptions
from bert_tf.pretraining.corpus.statistics import Statistics
from bert_tf.pretraining.records.groups import MaskingVocabulary
from bert_tf.pretraining.records.masking import mask

# === Packing ===
# Several short examples in one row, so that less of it is padding.


_TOKENS = ("input_ids", "input_mask", "segment_ids")
_PREDICTIONS = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
_AT_ONCE = 1024  # examples to move, so that the numbers of their places stay in the processor's cache


def pack_examples(rows: dict, max_predictions: int, max_sentences: int) -> dict:
    """Puts n examples into as few rows of the same width S as it finds; M is max_predictions, E is max_sentences.

        input_ids                [CLS]  a  [SEP]  .    .    .        [CLS]  b   b  [SEP]  .    .       two examples
        masked_lm_positions        1    .                              2    .
        next_sentence_labels       0                                   1

        input_ids                [CLS]  a  [SEP] [CLS]  b   b  [SEP]  .      one row
        sentence_ids               1    1    1     2    2   2    2    0      attention stays inside, and positions begin
        masked_lm_positions        1    5                                    anew: bert_tf.models.encoder sees to it
        next_sentence_positions    0    3                                    where each [CLS] is
        next_sentence_labels       0    1
        next_sentence_weights      1    1

    Best fit, the longest examples first: each goes where it leaves the least room. All examples of one length are
    placed at once, as in Krell et al.'s longest-pack-first histogram packing (arXiv 2107.02027). Nothing is random. In
    a row the examples keep their order, and rows stand in the order of their longest examples.

    Args:
        rows: "input_ids", "input_mask" (some ones, then zeros), "segment_ids": int [n, S]; and where there are masks
            "masked_lm_positions", "masked_lm_ids", "masked_lm_weights" [n, any]; and where there are labels
            "next_sentence_labels" int [n, 1].
        max_predictions: predictions in a row at most.
        max_sentences: examples in a row at most.

    Returns:
        For r rows "input_ids", padded as they came, "input_mask", "segment_ids", "sentence_ids": int32 [r, S]; with
        masks "masked_lm_positions", "masked_lm_ids": int32, "masked_lm_weights": float32 [r, M]; with labels
        "next_sentence_positions", "next_sentence_labels": int32, "next_sentence_weights": float32 [r, E].

    Raises:
        ValueError: max_sentences is less than 1, or an example has more predictions than max_predictions.
    """
    n, width = rows["input_ids"].shape
    lengths = rows["input_mask"].sum(axis=1, dtype=np.int64)
    predictions = np.zeros(n, np.int64)
    if "masked_lm_weights" in rows:
        predictions = np.count_nonzero(rows["masked_lm_weights"], axis=1)
    row = _assign(lengths, predictions, width, max_predictions, max_sentences)
    into = _Into(row)
    begin = into.before(lengths)
    number = into.before(np.ones(n, np.int64))
    sentences = np.broadcast_to(number[:, None] + 1, (n, width))
    packed = into.place({name: rows[name] for name in _TOKENS} | {"sentence_ids": sentences}, lengths, width)
    padding = rows["input_ids"][rows["input_mask"] == 0][:1]  # none if all rows are full; then there will be none
    np.copyto(packed["input_ids"], padding if len(padding) else 0, where=packed["input_mask"] == 0)
    if "masked_lm_weights" in rows:
        features = {name: rows[name] for name in _PREDICTIONS}
        features["masked_lm_positions"] = features["masked_lm_positions"] + begin[:, None]
        packed |= into.place(features, predictions, max_predictions)
    if "next_sentence_labels" in rows:
        features = {"positions": begin[:, None], "labels": rows["next_sentence_labels"], "weights": np.ones((n, 1))}
        features = {f"next_sentence_{name}": values for name, values in features.items()}
        packed |= into.place(features, np.ones(n, np.int64), max_sentences)
    return packed


class _Into:
    """Puts what belongs to examples side by side in their rows, given int64 [n], the row of each example."""

    def __init__(self, row):
        self._row = row
        self._order = np.argsort(row, kind="stable")
        self._first = np.searchsorted(row, np.arange(row.max(initial=-1) + 1), sorter=self._order)

    def before(self, counts):
        """int64 [n]: how many values stand in its row before those of each example, if these have `counts` values."""
        total = splits_of(counts[self._order])[:-1]
        before = np.empty_like(total)
        before[self._order] = total - total[self._first][self._row[self._order]]
        return before

    def place(self, features, counts, width):
        """Returns {name: [rows, width]} of {name: [n, any]}, of which the first `counts` (int64 [n]) values count."""
        shape, column = (len(self._first), width), np.arange(next(iter(features.values())).shape[1])
        types = {name: np.float32 if name.endswith("weights") else np.int32 for name in features}
        placed = {name: np.zeros(shape, types[name]) for name in features}
        starts = self._row * width + self.before(counts)
        for some in (slice(start, start + _AT_ONCE) for start in range(0, len(counts), _AT_ONCE)):
            used = column < counts[some, None]
            to = ranges(starts[some], counts[some])
            for name, values in features.items():
                placed[name].ravel()[to] = values[some][used]
        return placed


def _assign(lengths, predictions, width, max_predictions, max_sentences):
    """int64 [n]: the row of each example, given how many tokens and predictions each has (int64 [n])."""
    _check(predictions, max_predictions, max_sentences)
    code = lengths * (max_predictions + 1) + predictions  # one number for all examples that are alike
    order = np.argsort(-code, kind="stable")
    kinds, starts = np.unique(-code[order], return_index=True)
    row = np.empty(len(lengths), np.int64)
    # rows[room][predictions that it may still have, examples] = which rows are so: at first all of them are empty
    rows = [{} for _ in range(width + 1)]
    rows[width][max_predictions, max_sentences] = list(range(len(lengths)))
    for kind, examples in zip((-kinds).tolist(), np.split(order, starts)[1:], strict=True):
        _place(examples, *divmod(kind, max_predictions + 1), rows, row)
    return _renumbered(row, lengths)


def _check(predictions, max_predictions, max_sentences):
    if max_sentences < 1:
        raise ValueError(f"A packed row must have room for 1 example at least. Received max_sentences {max_sentences}.")
    if predictions.max(initial=0) > max_predictions:
        raise ValueError(
            f"A packed row must have room for all predictions of an example. Received one with {predictions.max()} and "
            f"max_predictions {max_predictions}; raise `max_predictions_per_seq`."
        )


def _place(examples, length, predictions, rows, row):
    """Places examples that are alike, in the fullest rows they fit: writes to `row`, and keeps `rows` up to date."""
    for room in range(length, len(rows)):
        for free, left in list(rows[room]):
            # The fullest row that fits is still the fullest with one more example in it: it takes all that it can.
            each = min(len(examples), room // length, left, free // predictions if predictions else left)
            same = rows[room][free, left]
            while each and same:
                number = min(len(same), len(examples) // each)
                targets = same[-number:]
                del same[-number:]
                placed, examples = np.split(examples, [number * each])
                row[placed] = np.repeat(targets, each)
                after = rows[room - each * length].setdefault((free - each * predictions, left - each), [])
                after.extend(targets)
                each = min(each, len(examples))
            if not same:
                del rows[room][free, left]
            if not len(examples):
                return


def _renumbered(row, lengths):
    """Numbers the rows in the order of the longest example of each, the first of equals."""
    order = np.lexsort((-lengths, row))
    used, first = np.unique(row[order], return_index=True)
    number = np.empty(len(row), np.int64)
    number[used] = np.argsort(np.argsort(order[first]))
    return number[row]


# === Unit ===


TOKENS = 1 << 22  # of a unit, about: enough documents to draw a random next sentence from, and little enough memory
_ROWS = 4096  # at a time, so that the arrays stay in the processor's cache
_ROWS_TO_PACK = 1 << 15  # the more there are to choose from, the fuller are the rows


def number_of_units(tokens: int) -> int:
    """Returns into how many units a pass over a corpus of so many pieces is divided."""
    return max(1, -(-tokens // TOKENS))


def make_batches(
    documents: Documents,
    options: CorpusOptions,
    pieces: MaskingVocabulary,
    pass_number: int,
    unit: int,
    statistics=None,
):
    """Makes the examples of a unit, in a random order.

    Args:
        documents: of the unit, sorted by key.
        options, pieces: what to make, with which vocabulary.
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
        rows = _masked_rows(documents, chosen, options, pieces, rng, counts)
        if statistics is not None:
            statistics.add_examples(rows, chosen.forced, pieces)
        if options.packing:
            rows = pack_examples(rows, options.max_predictions_per_seq, options.max_sentences_per_seq)
        if statistics is not None:
            statistics.add_rows(rows["input_mask"])
        yield rows


def make_records(documents, options, pieces, pass_number, unit) -> tuple[np.ndarray, Ragged, Statistics]:
    """Returns the unit's records: a random uint64 key and the bytes of each, and their statistics.

    The arguments are those of `make_batches`.
    """
    statistics = Statistics.empty(options, pieces.vocab_size)
    parts = [serialize(rows) for rows in make_batches(documents, options, pieces, pass_number, unit, statistics)]
    records = concatenate_features(parts) if parts else NOTHING
    rng = np.random.default_rng([options.random_seed, pass_number, unit, 1])
    keys = rng.integers(0, np.iinfo(np.uint64).max, len(records.lengths), np.uint64, endpoint=True)
    return np.sort(keys), records, statistics  # sorted for speed: the records themselves are in a random order


def _masked_rows(documents, examples, options, pieces, rng, counts):
    """The features of some examples. Masked a few thousand at a time, packed or not: it is faster so."""
    parts, number = [], len(examples.label)
    for start in range(0, number, _ROWS):
        rows = ex.lay_out_examples(
            documents, examples.take(slice(start, start + _ROWS)), options.max_seq_length, pieces
        )
        if options.sentence_objective == "none":
            del rows["next_sentence_labels"]
        if not options.dynamic_masking:
            rows |= mask(rows["input_ids"], options.masks, pieces, rng, counts)
        parts.append(rows)
    return parts[0] if number <= _ROWS else {name: np.concatenate([rows[name] for rows in parts]) for name in parts[0]}
