"""k-fold cross-validation of `train classifier`: metrics with their spread over the folds, out-of-fold predictions."""

import pathlib
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bert_tf.evaluation.constant_predictions import PREDICTIONS_FILE
from bert_tf.evaluation.results import write_results
from bert_tf.experiments.child_runs import ChildRun, ChildRuns, read_finished, training_flags
from bert_tf.utils.files import atomic_open, read_lines, write_text
from bert_tf.utils.html_report import Page
from bert_tf.utils.logged_runs import LOG_FILE
from bert_tf.utils.progress import clock

TABLE_FILE, PAGE_FILE = "cross_validation.tsv", "report.html"
# Flags that cross-validation sets for each fold, or that need the model of a fold, which is not kept.
OURS = (
    "output_dir", "overwrite_output_dir", "do_train", "do_eval", "do_predict", "do_export", "dry_run", "eval_file",
    "test_file", "predict_file", "export_dir", "save_format", "sort_predictions", "task_name", "data_dir",
)  # fmt: skip


class FoldResult(NamedTuple):
    """A finished fold: its directory, its metrics by their names in eval_results.txt, its constant prediction."""

    folder: pathlib.Path
    scores: dict[str, float]
    seconds: float
    one_answer: str | None


class CrossValidation(ChildRuns):
    """One run of `train classifier` for each fold, evaluated on the fold's rows; the models are not kept.

    Args:
        directory: directory of the folds and the report.
        files: for each fold, the file to train on and the file to evaluate on, in directories of their own.
        fold_of: int [n], the fold of each row of the whole table, from 0.
        others: flags that all folds share.
        claim: as in `ChildRuns`.
    """

    _noun = "folds"

    def __init__(
        self,
        directory: pathlib.Path,
        files: Sequence[tuple[str, str]],
        fold_of: np.ndarray,
        others: Sequence[str],
        claim: int,
    ):
        super().__init__("run_classifier", claim, keep_all=False)
        self.directory, self.files, self.fold_of, self.others = directory, files, fold_of, others

    def run(self):
        """Runs the unfinished folds, and writes the report.

        Raises:
            ValueError: the first fold failed, as all others would, or the last of them did.
        """
        self.make([self._child(fold) for fold in range(len(self.files))])
        if self.failed:
            numbers = ", ".join(str(fold + 1) for fold in self.failed)
            raise ValueError(
                f"Training failed in these folds: {numbers}. See their logs in {self.directory}/folds; run "
                "the same command again to repeat only them."
            )
        self._conclude()

    def _child(self, fold):
        train, held_out = self.files[fold]
        values = {"train_file": train, "eval_file": held_out, "output_dir": self._folder(fold)}
        flags = training_flags({**values, "do_train": True, "do_eval": True}, self.others)
        return ChildRun(fold, self._folder(fold), flags, {"fold": fold + 1, "seconds": 0.0}, "Fold {number} of {count}")

    def _folder(self, fold):
        return pathlib.Path(self.files[fold][0]).parent / "run"

    def result(self, fold):
        folder = self._folder(fold)
        return read_finished(folder, lambda note, scores, one: FoldResult(folder, scores, note["seconds"], one))

    def rivals(self, fold):
        return [result for result in map(self.result, range(len(self.files))) if result], None

    def format_scores(self, result):
        return ", ".join(f"{name} {value:.4f}" for name, value in result.scores.items() if name.startswith("eval_"))

    def check_errors(self):
        if self.failed and not self.rivals(None)[0]:
            message = self.errors[self.failed[0]] or f"its log is {self._folder(self.failed[0]) / LOG_FILE}"
            raise ValueError(f"The first fold failed, and the others would fail too: {message}")

    def report(self):
        """Writes nothing: metrics are compared and predictions put in order once all folds are finished."""

    def _conclude(self):
        """Writes eval_results.txt (the means), the table, the page and the out-of-fold predictions."""
        results = list(map(self.result, range(len(self.files))))
        shared = [name for name in results[0].scores if all(name in each.scores for each in results)]
        scores = {name: [each.scores[name] for each in results] for name in shared if name.startswith("eval_")}
        self._write_predictions(results)
        means = {name: statistics.fmean(values) for name, values in scores.items()}
        write_results(str(self.directory), means, int(results[-1].scores["global_step"]), prefix="")
        header = ["metric", "mean", "standard_deviation", *(f"fold_{fold + 1}" for fold in range(len(results)))]
        rows = [[name, means[name], statistics.stdev(values), *values] for name, values in scores.items()]
        lines = ("\t".join(map(str, row)) + "\n" for row in (header, *rows))
        write_text(self.directory / TABLE_FILE, "".join(lines))
        write_text(self.directory / PAGE_FILE, _build_page(self.directory, scores, results))

    def _write_predictions(self, results):
        """Writes the folds' predictions in the order of the table, as a run writes those of one file."""
        lines: dict[int, str] = {}
        for fold, result in enumerate(results):
            header, *own = (line.rstrip("\r\n") for line in read_lines(result.folder / PREDICTIONS_FILE))
            for number, (row, line) in enumerate(zip(np.flatnonzero(self.fold_of == fold), own, strict=True)):
                name, _, rest = line.partition("\t")  # without an id of its own, a row is numbered in its file
                lines[int(row)] = f"{row if name == str(number) else name}\t{rest}"
        with atomic_open(self.directory / PREDICTIONS_FILE) as file:
            file.write(f"{header}\n" + "".join(f"{lines[row]}\n" for row in range(len(lines))))


def _build_page(directory, scores, results):
    page = Page(f"Cross-validation: {directory.name}")
    page.text(
        f"{len(results)} folds: each row was predicted by a model that was trained on the rows of the other folds. "
        f"{PREDICTIONS_FILE} has these predictions. The standard deviation is over the folds."
    )
    for fold, result in enumerate(results):
        if result.one_answer is not None:
            page.warning(f"The model of fold {fold + 1} predicts {result.one_answer!r} for all examples.")
    columns = ("metric", "mean ± standard deviation", *(f"fold {fold + 1}" for fold in range(len(results))))
    rows = [
        (name, f"{statistics.fmean(values):.4f} ± {statistics.stdev(values):.4f}", *(f"{v:.4g}" for v in values))
        for name, values in scores.items()
    ]
    page.table("Metrics", rows, columns)
    page.text(f"{clock(sum(result.seconds for result in results))} of compute.")
    return page.html()
