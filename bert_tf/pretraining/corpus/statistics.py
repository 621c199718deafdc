"""Statistics of a corpus and its examples: counts, small enough to be summed over any number of workers."""

import dataclasses
from collections import Counter

import numpy as np

from bert_tf.pretraining.corpus.examples import FORCED_ACTUAL
from bert_tf.pretraining.corpus.options import CorpusOptions
from bert_tf.pretraining.masking_vocabulary import MaskingVocabulary

MASK, RANDOM, UNCHANGED = range(3)  # the replacement of a masked token: [MASK], a random token, itself


@dataclasses.dataclass(eq=False)
class Statistics:
    """Counts of examples, pairs, masks and rows; S is max_seq_length, M max_predictions_per_seq, V vocab_size.

    Attributes:
        shapes: int64 [S + 1, M + 1], number of examples by tokens (including special ones) and predictions.
        pairs: int64 [2, 3], number of examples by next_sentence_label and examples.CHOSEN, FORCED_RANDOM or
            FORCED_ACTUAL; all 0 if the examples have one text.
        replacements: int64 [3], number of predictions that were MASK, RANDOM or UNCHANGED. A random token that equals
            the original one counts as unchanged, since they are indistinguishable.
        masked_ids: int64 [V], number of predictions of each token.
        rows: number of rows of length S written, with one example each, or several if packed.
        padding: number of padding positions in them.
        record_bytes: size of the records, uncompressed.
        text: counts of the text read and dropped: "files", "bytes", "documents", "sentences", "tokens" and so on.
        phrases: number of phrases "found" in the examples, and of those "masked".
    """

    shapes: np.ndarray
    pairs: np.ndarray
    replacements: np.ndarray
    masked_ids: np.ndarray
    rows: int = 0
    padding: int = 0
    record_bytes: int = 0
    text: Counter = dataclasses.field(default_factory=Counter)
    phrases: Counter = dataclasses.field(default_factory=Counter)

    @classmethod
    def empty(cls, options: CorpusOptions, vocab_size: int) -> "Statistics":
        """Returns all counts as 0."""
        shapes = options.max_seq_length + 1, options.max_predictions_per_seq + 1
        counts = shapes, (2, FORCED_ACTUAL + 1), UNCHANGED + 1, vocab_size
        return cls(*(np.zeros(shape, np.int64) for shape in counts))

    def add_examples(self, rows: dict, forced, vocabulary: MaskingVocabulary):
        """Counts n examples, before they are packed.

        Args:
            rows: "input_ids" (masked), "input_mask" int [n, S]; if there are masks, "masked_lm_positions",
                "masked_lm_ids", "masked_lm_weights" [n, M]; if there are two texts, "next_sentence_labels" int
                [n, 1].
            forced: int8 [n], as in `examples.PretrainingExamples`.
            vocabulary: the vocabulary of the records.
        """
        lengths = np.count_nonzero(rows["input_mask"], axis=1)
        predictions = self._add_predictions(rows, vocabulary) if "masked_lm_weights" in rows else 0
        self.shapes += _histogram(lengths * self.shapes.shape[1] + predictions, self.shapes.shape)
        if "next_sentence_labels" in rows:
            labels = rows["next_sentence_labels"][:, 0]
            self.pairs += _histogram(labels * self.pairs.shape[1] + forced, self.pairs.shape)

    def add_rows(self, input_mask):
        """Counts rows as they are written, packed or not: int [rows, S]."""
        self.rows += len(input_mask)
        self.padding += input_mask.size - int(np.count_nonzero(input_mask))

    def __add__(self, other: "Statistics") -> "Statistics":
        both = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in dataclasses.fields(self)}
        return Statistics(**{name: mine + its for name, (mine, its) in both.items()})

    def to_values(self) -> dict:
        """Returns all fields as JSON values."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        arrays = {name: value.tolist() for name, value in values.items() if isinstance(value, np.ndarray)}
        counters = {name: {k: int(n) for k, n in v.items()} for name, v in values.items() if isinstance(v, Counter)}
        return {name: int(v) for name, v in values.items() if isinstance(v, int)} | arrays | counters

    @classmethod
    def of_values(cls, values: dict) -> "Statistics":
        """Returns the statistics of `to_values`. Others may be able to write the file, so no code in it is run."""
        kinds = {list: lambda values: np.array(values, np.int64), dict: Counter, int: int}
        return cls(**{name: kinds[type(value)](value) for name, value in values.items()})

    @property
    def lengths(self):
        """Number of examples by their tokens, int64 [S + 1]."""
        return self.shapes.sum(axis=1)

    @property
    def predictions(self):
        """Number of examples by their predictions, int64 [M + 1]."""
        return self.shapes.sum(axis=0)

    @property
    def examples(self) -> int:
        """Number of examples."""
        return int(self.shapes.sum())

    @property
    def tokens(self) -> int:
        """Number of tokens of all examples, including special ones."""
        return int(self.lengths @ np.arange(len(self.lengths)))

    @property
    def chosen(self) -> int:
        """Number of predictions of all examples."""
        return int(self.replacements.sum())

    def to_json(self) -> dict:
        """Returns all counts as numbers, lists and dictionaries; "shapes" are [tokens, predictions, examples]."""
        shapes = np.argwhere(self.shapes)
        return {
            "examples": self.examples,
            "tokens": self.tokens,
            "lengths": self.lengths.tolist(),
            "predictions": self.predictions.tolist(),
            "shapes": np.column_stack([shapes, self.shapes[tuple(shapes.T)]]).tolist(),
            "pairs": dict(zip(("actual", "random"), self.pairs.tolist(), strict=True)),
            "replacements": dict(zip(("hidden", "swapped", "kept"), self.replacements.tolist(), strict=True)),
            "masked_ids": self.masked_ids.tolist(),
            "rows": self.rows,
            "padding": self.padding,
            "text": dict(self.text),
            "phrases": {name: self.phrases[name] for name in ("found", "masked")},
        }

    def _add_predictions(self, rows, vocabulary):
        """Counts masked tokens; returns the number of predictions of each example, int64 [n]."""
        chosen = np.flatnonzero(rows["masked_lm_weights"])
        row = chosen // rows["masked_lm_weights"].shape[1]
        place = row * rows["input_ids"].shape[1] + rows["masked_lm_positions"].ravel()[chosen]
        seen, original = rows["input_ids"].ravel()[place], rows["masked_lm_ids"].ravel()[chosen]
        num_hidden, num_kept = np.count_nonzero(seen == vocabulary.mask_id), np.count_nonzero(seen == original)
        self.replacements += np.array([num_hidden, len(seen) - num_hidden - num_kept, num_kept])
        self.masked_ids += np.bincount(original, minlength=len(self.masked_ids))
        return np.bincount(row, minlength=len(rows["input_ids"]))


def _histogram(codes, shape):
    return np.bincount(codes, minlength=shape[0] * shape[1]).reshape(shape)
