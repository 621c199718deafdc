"""Statistics of a corpus, and the description of how its records were made."""

import dataclasses
import hashlib
import importlib.metadata
import json
import os
import platform
from collections import Counter

import numpy as np

import bert_tf
from bert_tf.pretraining.corpus.examples import FORCED_ACTUAL, CorpusOptions
from bert_tf.pretraining.masked_positions import MaskingVocabulary
from bert_tf.pretraining.record_metadata import DESCRIPTION, VOCABULARY, RecordMetadata, vocabulary_fingerprint
from bert_tf.tokenization.added_tokens import added_tokens_config, names_with_added
from bert_tf.tokenization.vocabulary import CONFIG_FILE, VOCAB_FILE, Vocabulary, case_settings, config_text
from bert_tf.utils.progress import Countdown
from bert_tf.utils.shards import set_name

# === Counts ===
# Counts of what was read and made, small enough to be added up over any number of workers.


HIDDEN, SWAPPED, KEPT = range(3)  # what became of a masked token: [MASK], a random token, itself


@dataclasses.dataclass(eq=False)
class Statistics:
    """Counts of examples, pairs, masks and rows; S is max_seq_length, M max_predictions_per_seq, V vocab_size.

    Attributes:
        shapes: int64 [S + 1, M + 1], how many examples have this many tokens (special ones too) and predictions.
        pairs: int64 [2, 3], how many examples have this next_sentence_label and one of examples.CHOSEN, FORCED_RANDOM
            and FORCED_ACTUAL; all 0 where the examples have one text.
        fates: int64 [3], how many predictions were HIDDEN, SWAPPED or KEPT. A random token which happens to be the
            original one counts as kept: nobody could tell.
        masked_ids: int64 [V], how often each token is to be predicted.
        rows: how many rows of S were written, with one example or, packed, several.
        padding: how many positions of them hold none.
        text: what was read and dropped: "files", "bytes", "documents", "sentences", "tokens" and so on.
        phrases: how many phrases were "found" in the examples, and how many "masked".
    """

    shapes: np.ndarray
    pairs: np.ndarray
    fates: np.ndarray
    masked_ids: np.ndarray
    rows: int = 0
    padding: int = 0
    text: Counter = dataclasses.field(default_factory=Counter)
    phrases: Counter = dataclasses.field(default_factory=Counter)

    @classmethod
    def empty(cls, options: CorpusOptions, vocab_size: int) -> "Statistics":
        """Returns statistics of no examples."""
        shapes = options.max_seq_length + 1, options.max_predictions_per_seq + 1
        return cls(*(np.zeros(shape, np.int64) for shape in (shapes, (2, FORCED_ACTUAL + 1), KEPT + 1, vocab_size)))

    def add_examples(self, rows: dict, forced, vocabulary: MaskingVocabulary):
        """Counts n examples, before they are packed.

        Args:
            rows: "input_ids" (masked), "input_mask" int [n, S]; and where there are masks "masked_lm_positions",
                "masked_lm_ids", "masked_lm_weights" [n, M]; and where there are two texts "next_sentence_labels" int
                [n, 1].
            forced: int8 [n], as `examples.PretrainingExamples` has it.
            vocabulary: of the records.
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

    @property
    def lengths(self):
        """int64 [S + 1], how many examples have this many tokens."""
        return self.shapes.sum(axis=1)

    @property
    def predictions(self):
        """int64 [M + 1], how many examples have this many predictions."""
        return self.shapes.sum(axis=0)

    @property
    def examples(self) -> int:
        """The number of examples."""
        return int(self.shapes.sum())

    @property
    def tokens(self) -> int:
        """Tokens of all examples, special ones too."""
        return int(self.lengths @ np.arange(len(self.lengths)))

    @property
    def chosen(self) -> int:
        """Predictions of all examples."""
        return int(self.fates.sum())

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
            "fates": dict(zip(("hidden", "swapped", "kept"), self.fates.tolist(), strict=True)),
            "masked_ids": self.masked_ids.tolist(),
            "rows": self.rows,
            "padding": self.padding,
            "text": dict(self.text),
            "phrases": {name: self.phrases[name] for name in ("found", "masked")},
        }

    def _add_predictions(self, rows, vocabulary):
        """Counts what was masked. Returns how many predictions each example has, int64 [n]."""
        chosen = np.flatnonzero(rows["masked_lm_weights"])
        row = chosen // rows["masked_lm_weights"].shape[1]
        place = row * rows["input_ids"].shape[1] + rows["masked_lm_positions"].ravel()[chosen]
        seen, original = rows["input_ids"].ravel()[place], rows["masked_lm_ids"].ravel()[chosen]
        num_hidden, num_kept = np.count_nonzero(seen == vocabulary.mask_id), np.count_nonzero(seen == original)
        self.fates += np.array([num_hidden, len(seen) - num_hidden - num_kept, num_kept])
        self.masked_ids += np.bincount(original, minlength=len(self.masked_ids))
        return np.bincount(row, minlength=len(rows["input_ids"]))


def _histogram(codes, shape):
    return np.bincount(codes, minlength=shape[0] * shape[1]).reshape(shape)


# === Description ===
# What create_pretraining_data leaves next to its records, and in each file: of what they were made, and how.


_PACKAGES = ("numpy", "tensorflow", "tensorflow-text", "sentencex")
_LISTED = 1000  # sources with their own lines, at most
_READ_BYTES = 1 << 22


def record_metadata(job) -> RecordMetadata:
    """Returns the metadata of a `job.CorpusJob`, which stands in the first record of each of its files."""
    names = names_with_added(Vocabulary.read(job.vocab_file).pieces, job.added_tokens)
    masking = None if job.options.dynamic_masking else job.options.masking
    return RecordMetadata(
        vocabulary_fingerprint(names), job.do_lower_case, job.strips_accents, job.options.sentence_objective, masking
    )


def hash_sources(paths: list[str]) -> dict:
    """Reads the texts through and says which they are, for JSON: their paths, bytes and SHA-256.

    Of more than a thousand files only so many are listed; "sha256" is that of all their hashes, one a line.
    """
    listed = []
    with Countdown("Hashing the text", "MB", sum(map(os.path.getsize, paths)) / 1e6) as progress:
        for path in paths:
            digest = hashlib.sha256()
            with open(path, "rb") as file:
                while data := file.read(_READ_BYTES):
                    digest.update(data)
                    progress.advance(len(data) / 1e6)
            listed.append({"path": path, "bytes": os.path.getsize(path), "sha256": digest.hexdigest()})
    total = hashlib.sha256("\n".join(each["sha256"] for each in listed).encode()).hexdigest()
    return {
        "files": len(paths), "bytes": sum(each["bytes"] for each in listed), "sha256": total, "each": listed[:_LISTED],
    }  # fmt: skip


def describe_corpus(job, sizes: dict[str, int], statistics: Statistics, sources: dict) -> dict[str, str]:
    """Returns {path: text} of the files to leave in each folder in which there are record files.

    Args:
        job: a `job.CorpusJob`.
        sizes: {path: bytes} of its output files.
        statistics: of all records.
        sources: what `hash_sources` returned.
    """
    vocabulary, origin, options = Vocabulary.read(job.vocab_file), record_metadata(job), dataclasses.asdict(job.options)
    text = options.pop("text")
    case = case_settings(job.do_lower_case, job.strips_accents)
    tokens = len(names_with_added(vocabulary.pieces, job.added_tokens))
    values = {
        "rows": statistics.rows,
        "examples": statistics.examples,
        "vocabulary": {
            "file": job.vocab_file,
            "pieces": tokens,
            "sha256": origin.vocabulary,
            "do_lower_case": origin.do_lower_case,
            "strip_accents": origin.strip_accents,
        },
        "options": options | text,
        "sources": sources,
        "versions": {
            "bert_tf": bert_tf.__version__,
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in _PACKAGES},
        },
    }
    name, texts = os.path.basename(set_name(job.output_files[0])), {}
    for folder in dict.fromkeys(map(os.path.dirname, job.output_files)):
        files = {os.path.basename(path): size for path, size in sizes.items() if os.path.dirname(path) == folder}
        stem = os.path.join(folder, name)
        texts[os.path.join(stem + VOCABULARY, VOCAB_FILE)] = vocabulary.text
        config = config_text("BertTokenizer", case | added_tokens_config(job.added_tokens))
        texts[os.path.join(stem + VOCABULARY, CONFIG_FILE)] = config
        texts[stem + DESCRIPTION] = json.dumps({"files": files, **values}, indent=1, ensure_ascii=False) + "\n"
    return texts
