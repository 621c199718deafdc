"""A finished run of fine-tuning: its model, metrics, predictions, errors, report and export."""

import functools
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import keras

from bert_tf.evaluation.error_reports.report import ErrorReport
from bert_tf.inference.predictor import Predictor
from bert_tf.runs.export_model import export_model
from bert_tf.runs.fine_tuning import FineTuning
from bert_tf.training.history import HISTORY_FILE, REPORT_FILE, read_history


class Report:
    """The report of a run, an HTML page. In a notebook, it is shown as the value of a cell.

    Attributes:
        path: path of the page.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def _repr_html_(self) -> str:
        with open(self.path, encoding="utf-8") as file:
            page = file.read()
        page = page.replace("&", "&amp;").replace('"', "&quot;")  # as the value of an attribute
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 40em; border: 0"></iframe>'

    def __repr__(self) -> str:
        return f"Report({self.path!r})"


class Run:
    """A run of fine-tuning, as `bert_tf.finetune` returns it.

    Attributes:
        output_dir: directory with the model and all other files of the run. If `finetune` was given none, it exists as
            long as this object.
        metrics: {metric: score} of eval_results.txt, such as {"eval_accuracy": 0.93}; empty without evaluation.
        test_metrics: likewise, on the test examples.
        num_steps: training step of the result.
    """

    def __init__(self, finished: FineTuning, folder: tempfile.TemporaryDirectory | None = None) -> None:
        self.output_dir: str = finished.settings.output_dir
        self.metrics: dict[str, float] = dict(finished.scores)
        self.test_metrics: dict[str, float] = dict(finished.test_scores)
        self.num_steps: int = finished.trainer.global_step
        self._finished, self._folder = finished, folder

    @property
    def model(self) -> keras.Model:
        """The trained Keras model, from encoded inputs to the outputs of the head."""
        return self._finished.trainer.model

    @property
    def history(self) -> list[dict[str, Any]]:
        """Lines of history.jsonl: losses and metrics by step."""
        return read_history(os.path.join(self.output_dir, HISTORY_FILE))

    @property
    def report(self) -> Report:
        """The report page of the run."""
        return Report(os.path.join(self.output_dir, REPORT_FILE))

    @functools.cached_property
    def _predictor(self) -> Predictor:
        return Predictor(self.output_dir)

    def predict(self, texts: Any, batch_size: int = 64) -> Any:
        """Predicts for one example or for several; arguments and results as in `bert_tf.Predictor`."""
        return self._predictor(texts, batch_size)

    def errors(self) -> list[dict[str, Any]]:
        """Returns the `eval` examples whose prediction is not the label, the most confident first.

        Each is a dictionary of the columns of eval_predictions.tsv: `id`, label, prediction, probability, texts.
        For a regression, all examples are returned, those with the largest difference first.

        Raises:
            ValueError: nothing was evaluated, or the task has no such table.
        """
        reports = self._finished.reports.values()
        if not reports or any(len(report.columns()) < 2 for report in reports):
            raise ValueError("`errors` requires `eval` examples, and a task that predicts a label for each of them.")
        return [row for report in reports for row in _errors(report)]

    def export(self, export_dir: str | os.PathLike, **settings: Any) -> str:
        """Exports the model; arguments, result and errors as in `bert_tf.export_model`."""
        return export_model(self.output_dir, export_dir, **settings)

    def __repr__(self) -> str:
        return f"Run(output_dir={self.output_dir!r}, num_steps={self.num_steps}, metrics={self.metrics})"


def _errors(report: ErrorReport) -> Iterator[dict[str, Any]]:
    columns = report.columns()
    expected, predicted, *_ = columns.values()
    named = {"id": report.examples.ids, **columns, **report.examples.texts}
    for i in report.in_order("errors"):
        if expected[i] != predicted[i]:
            yield {name: values[i] for name, values in named.items()}
