"""The search for likely wrong labels of a training file, fold by fold; what is done is not done again."""

import dataclasses
import hashlib
import pathlib
import shutil
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from absl import logging

from bert_tf.data import tables
from bert_tf.data.tables import Examples
from bert_tf.experiments.label_errors import folds as folding
from bert_tf.experiments.label_errors.confident import suspect
from bert_tf.experiments.label_errors.listing import Findings
from bert_tf.experiments.label_errors.near_duplicates import groups
from bert_tf.utils.child_runs import check_same
from bert_tf.utils.files import atomic_open

_FILE = "search.json"  # what the folds below a folder are made with
_FOLDS = "folds"


@dataclasses.dataclass(frozen=True)
class Search:
    """The labels of n examples, in k folds.

    Attributes:
        directory: where folds and results go.
        examples: the training file's, with one label each.
        labels: the L names, sorted.
        given: int [n].
        groups: int [n], equal for near-duplicates, which share a fold.
        folds: int [n].
    """

    directory: pathlib.Path
    examples: Examples
    labels: list[str]
    given: np.ndarray
    groups: np.ndarray
    folds: np.ndarray

    @property
    def count(self) -> int:
        """k."""
        return int(self.folds.max()) + 1

    def answer_folds(self, answer: Callable[[pathlib.Path], pathlib.Path]) -> np.ndarray:
        """Returns float64 [n, L]: each example's probabilities by a model of the other folds.

        Args:
            answer: trains on the TRAIN_FILE of a fold's folder, answers HELD_OUT_FILE, and returns the folder of that
                run, which is removed once its answers are kept.

        Raises:
            ValueError: a run does not give what it should.
        """
        probabilities = np.zeros([len(self.given), len(self.labels)])
        for fold in range(self.count):
            is_held_out = self.folds == fold
            probabilities[is_held_out] = self._answers(fold, is_held_out, answer)
        return probabilities

    def _answers(self, fold, is_held_out, answer):
        folder = self.directory / _FOLDS / str(fold + 1)
        path = folder / folding.ANSWERS_FILE
        if path.exists():
            logging.info("Fold %d of %d is there already.", fold + 1, self.count)
            return np.load(path)
        folding.write_fold(folder, self.examples, is_held_out)
        logging.info("Fold %d of %d: training on %d examples, to answer %d.",
                     *(fold + 1, self.count, (~is_held_out).sum(), is_held_out.sum()))  # fmt: skip
        run = answer(folder)
        answers = folding.answers_of(run, self.labels, int(is_held_out.sum()))
        with atomic_open(path, "wb") as file:
            np.save(file, answers)
        shutil.rmtree(run)  # a model for each fold, which is of no more use
        return answers

    def findings(self, probabilities: np.ndarray) -> Findings:
        """Returns what held-out probabilities, float [n, L], say of the labels."""
        said = suspect(probabilities, self.given)
        return Findings(self.examples, self.labels, self.given, probabilities, said, self.groups)


def start(directory: str, examples: Examples, folds: int, seed: int, identity: Mapping[str, Any], anew: bool) -> Search:
    """Returns the search in a directory, which it makes, or takes up where it was.

    Args:
        directory: where everything goes.
        examples: of the training file, with one label each.
        folds: how many.
        seed: of who is in which.
        identity: what else decides the answers, JSON values.
        anew: remove what an earlier search left there.

    Raises:
        ValueError: what lies there was made with something else; there is only one label, or too few examples.
    """
    labels = tables.label_list(examples)
    if len(labels) < 2:
        raise ValueError(
            f"{examples.path}: there must be two labels to mistake for each other. Received {labels[0]!r} in all "
            f"{len(examples)} examples; check `label_column`."
        )
    given = np.array(tables.check_labels(examples, labels))
    folder = pathlib.Path(directory)
    if anew:
        _remove(folder)
    folder.mkdir(parents=True, exist_ok=True)
    texts = ["\n".join(folding.texts_of(examples, i)) for i in range(len(examples))]
    made_with = {**identity, "folds": folds, "seed": seed, "examples": _digest(texts, examples.labels)}
    check_same(folder / _FILE, made_with, ", or start over with `overwrite_output_dir`")
    _warn_of_rare(labels, given, folds)
    alike = groups(texts)
    return Search(folder, examples, labels, given, alike, folding.assign(given, alike, folds, seed))


def _remove(folder):
    if (folder / _FILE).exists():
        shutil.rmtree(folder / _FOLDS, ignore_errors=True)
        (folder / _FILE).unlink()


def _digest(texts, labels):
    return hashlib.sha256("\0".join((*texts, *labels)).encode("utf-8", "surrogatepass")).hexdigest()


def _warn_of_rare(labels, given, folds):
    counts = np.bincount(given)
    if rare := [name for name, count in zip(labels, counts, strict=True) if count < 2 * folds]:
        logging.warning(
            "Labels with fewer than %d examples can hardly be learned from the other folds, and all of theirs may look "
            "wrong: %s.", 2 * folds, ", ".join(rare[:20]),
        )  # fmt: skip
