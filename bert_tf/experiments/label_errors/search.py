"""Search for probable label errors in a training file, fold by fold and resumable."""

import dataclasses
import hashlib
import pathlib
import shutil
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from absl import logging

from bert_tf.data import tables
from bert_tf.data.near_duplicates import group_near_duplicates
from bert_tf.data.tables import LabeledTexts
from bert_tf.experiments.label_errors import folds as folding
from bert_tf.experiments.label_errors.confident_learning import suspect
from bert_tf.experiments.label_errors.report import Findings
from bert_tf.utils.files import atomic_open
from bert_tf.utils.manifest import check_manifest

_FILE = "search.json"  # the settings of the folds
_FOLDS = "folds"


@dataclasses.dataclass(frozen=True)
class Search:
    """A resumable search for label errors among n examples in k folds.

    Attributes:
        directory: directory of folds and results.
        examples: examples of the training file, with one label each.
        labels: the L names, sorted.
        given: int [n].
        groups: int [n], equal for near-duplicates, which share a fold.
        folds: int [n].
    """

    directory: pathlib.Path
    examples: LabeledTexts
    labels: list[str]
    given: np.ndarray
    groups: np.ndarray
    folds: np.ndarray

    @property
    def count(self) -> int:
        """k."""
        return int(self.folds.max()) + 1

    def answer_folds(self, answer: Callable[[pathlib.Path], pathlib.Path | None]) -> np.ndarray:
        """Returns float64 [n, L]: each example's probabilities from a model of the other folds.

        Args:
            answer: trains on TRAIN_FILE in a fold's directory, predicts HELD_OUT_FILE, and returns the directory of
                that run, which is removed after its predictions are stored; None if it failed: the other folds
                continue.

        Raises:
            ValueError: a run failed, or its predictions are invalid.
        """
        probabilities, failed = np.zeros([len(self.given), len(self.labels)]), []
        for fold in range(self.count):
            is_held_out = self.folds == fold
            answers = self._answers(fold, is_held_out, answer)
            if answers is None:
                failed.append(fold + 1)
            else:
                probabilities[is_held_out] = answers
        if failed:
            raise ValueError(
                f"Training failed in {len(failed)} folds: {', '.join(map(str, failed))}. "
                f"See their logs in {self.directory / _FOLDS}; run the same command again to "
                "repeat only these folds."
            )
        return probabilities

    def _answers(self, fold, is_held_out, answer):
        folder = self.directory / _FOLDS / str(fold + 1)
        path = folder / folding.ANSWERS_FILE
        if path.exists():
            logging.info("Fold %d of %d is already done.", fold + 1, self.count)
            return np.load(path)
        folding.write_fold(folder, self.examples, is_held_out)
        logging.info("Fold %d of %d: training on %d examples, predicting %d.",
                     *(fold + 1, self.count, (~is_held_out).sum(), is_held_out.sum()))  # fmt: skip
        if (run := answer(folder)) is None:
            return None
        answers = folding.answers_of(run, self.labels, int(is_held_out.sum()))
        with atomic_open(path, "wb") as file:
            np.save(file, answers)
        shutil.rmtree(run)  # the fold's model, which is no longer needed
        return answers

    def findings(self, probabilities: np.ndarray) -> Findings:
        """Finds probable label errors from held-out probabilities, float [n, L]."""
        said = suspect(probabilities, self.given)
        return Findings(self.examples, self.labels, self.given, probabilities, said, self.groups)


def start_search(
    directory: str, examples: LabeledTexts, folds: int, seed: int, identity: Mapping[str, Any], overwrite: bool
) -> Search:
    """Opens the search in a directory, creating or resuming it.

    Args:
        directory: directory of the search.
        examples: examples of the training file, with one label each.
        folds: number of folds.
        seed: seed of the assignment to folds.
        identity: other settings that affect predictions, JSON values.
        again: remove the files of an earlier search.

    Raises:
        ValueError: the directory has a search with other settings; there is only one label, or too few examples.
    """
    labels = tables.list_labels(examples)
    if len(labels) < 2:
        raise ValueError(
            f"{examples.path}: at least two labels are required, but all {len(examples)} examples have "
            f"{labels[0]!r}. Check `label_column`."
        )
    given = np.array(tables.check_labels(examples, labels))
    folder = pathlib.Path(directory)
    if overwrite and (folder / _FILE).exists():
        shutil.rmtree(folder / _FOLDS, ignore_errors=True)
        (folder / _FILE).unlink()
    folder.mkdir(parents=True, exist_ok=True)
    texts = ["\n".join(folding.texts_of(examples, i)) for i in range(len(examples))]
    content = "\0".join((*texts, *examples.labels)).encode("utf-8", "surrogatepass")
    made_with = {**identity, "folds": folds, "seed": seed, "examples": hashlib.sha256(content).hexdigest()}
    check_manifest(folder / _FILE, made_with, "Use another `output_dir`, or start over with `overwrite_output_dir`.")
    _warn_of_rare(labels, given, folds)
    alike = group_near_duplicates(texts)
    return Search(folder, examples, labels, given, alike, folding.assign(given, alike, folds, seed))


def _warn_of_rare(labels, given, folds):
    counts = np.bincount(given)
    if rare := [name for name, count in zip(labels, counts, strict=True) if count < 2 * folds]:
        logging.warning(
            "Labels with fewer than %d examples cannot be learned well from the other folds, so all of their examples "
            "may look wrong: %s.", 2 * folds, ", ".join(rare[:20]),
        )  # fmt: skip
