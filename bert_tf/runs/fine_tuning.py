"""One run of fine-tuning, of any task: its training, scores, answers and export."""

import copy
import dataclasses
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from bert_tf.checkpoints import adapters
from bert_tf.checkpoints.loading import ModelDescription, save_description
from bert_tf.checkpoints.tf1 import named
from bert_tf.evaluation.error_reports.report import ErrorReport
from bert_tf.evaluation.results import write_results
from bert_tf.export.export_options import ExportOptions
from bert_tf.export.trained_model import export_trained
from bert_tf.runs.callbacks import adapt_callbacks
from bert_tf.runs.export_step import check_export_scores, choose_calibration
from bert_tf.runs.fine_tuning_files import kind_of_split
from bert_tf.runs.fine_tuning_plan import batch_settings
from bert_tf.runs.save_formats import check_formats
from bert_tf.runs.scored_answers import error_reports, show_answers, show_scored
from bert_tf.runs.settings import FineTuningSettings
from bert_tf.tasks.base import FineTuningTask, SplitPredictions, TaskData, TrainedTask
from bert_tf.tasks.options import SelectionOptions
from bert_tf.tasks.registry import TASKS, save_task
from bert_tf.training.output_directory import prepare_directory
from bert_tf.training.scored_files import Evaluated, scored_files
from bert_tf.training.scoring import Evaluator
from bert_tf.training.trainer import Trainer
from bert_tf.training.workers import by_chief
from bert_tf.utils.files import find_files
from bert_tf.utils.settings import part_of


@dataclasses.dataclass
class FineTuning:
    """One run of a task: its training, scores, answers and export. To be used in the scope of a strategy.

    Attributes:
        settings: what is asked for.
        model: what it starts from.
        data: what the task read.
        rows: {split: tokenized examples}.
        trained: the task as it is kept with the model.
        trainer: trainer of the task.
        strategy: in whose scope it runs.
        use_xla: the model is compiled.
        scores: {metric: score} of `eval_file`, once it is scored.
        test_scores: likewise, of `test_file`.
        reports: {split: error report} of `eval_file`, once it is scored.
        are_in_card: whether `scores` are those of eval_results.txt, which a model card shows.
    """

    settings: FineTuningSettings
    model: ModelDescription
    data: TaskData
    rows: dict[str, Any]
    trained: TrainedTask
    trainer: Trainer
    strategy: tf.distribute.Strategy
    use_xla: bool
    scores: dict[str, float] = dataclasses.field(default_factory=dict)
    test_scores: dict[str, float] = dataclasses.field(default_factory=dict)
    reports: dict[str, ErrorReport] = dataclasses.field(default_factory=dict)
    are_in_card: bool = True

    @property
    def task(self) -> FineTuningTask:
        return self.trained.task

    def train(self, callbacks: Sequence[Callable] = ()):
        """Trains from the start or from the last checkpoint, with callbacks of the user, as in `adapt_callbacks`."""
        settings, batching, selection = self.settings, self._batching(), part_of(self.settings, SelectionOptions)
        metric_for_best_model = selection.metric_for_best_model
        self.trainer.fit(
            batching.training(self.rows["train"], self.trainer.run),
            on_begin=self._begin,
            callbacks=adapt_callbacks(callbacks, self.trainer, settings.num_train_epochs),
            held_out=batching.scoring(self.rows["dev"], settings.eval_batch_size) if metric_for_best_model else None,
            metric_for_best_model=metric_for_best_model,
            early_stopping=selection.early_stopping,
        )
        self._write_adapters()

    def restore(self):
        """Loads the trained model, and creates the output directory."""
        self.trainer.restore()
        by_chief(prepare_directory, self.settings.output_dir)

    def _begin(self, model):
        """Prepares the output directory, once the model is built and before its first step."""
        settings, directory = self.settings, self.settings.output_dir
        named(model.variables)  # a custom head's weights may have no name in checkpoints
        check_formats(settings, self.model, model, self.task)
        files = [pattern for task in {*TASKS, type(self.task)} for pattern in task.files]
        prepare_directory(directory, settings.overwrite_output_dir, files)
        save_description(directory, self.model.config, self.model.tokenizer, self.task.labels)
        save_task(directory, self.trained)

    def _write_adapters(self):
        """Writes the adapters that were trained, if there are some, as Hugging Face's PEFT has them."""
        if self.model.config.lora:
            folder, base = os.path.join(self.settings.output_dir, "adapter"), self.settings.init_checkpoint
            variables, save = self.trainer.model.variables, lambda aside: save_task(aside, self.trained)
            by_chief(adapters.write_adapters, folder, variables, self.task, base, save)

    def score_and_answer(self):
        """Writes eval_results.txt, the answer for each scored example, and the answers for the files to answer."""
        settings, task, scores = self.settings, self.task, {}
        files = self._scored_files("dev") if settings.do_eval else None
        if settings.do_eval:
            description = task.to_dict()
            asked = task.options != task.options.without_fits()
            learner = copy.copy(task) if files.is_another and not asked else task  # what one file taught stays
            scores, evaluated, self.reports = self._score("dev", learner, files)
            self.scores = dict(scores)
            self.are_in_card = not files.is_another
            if task.to_dict() != description:  # it learned something from the examples, such as a temperature
                by_chief(save_task, settings.output_dir, self.trained)
        if settings.do_predict:
            for outcome in self._outcomes("test", settings.predict_batch_size):
                answers = task.decode(outcome)
                by_chief(task.write_answers, settings.output_dir, outcome, answers)
                own = task.score_answers(outcome, answers)
                if own:
                    by_chief(show_answers, task, outcome, own, self.trainer)
                scores |= _with_prefix("predict_" if settings.do_eval else "eval_", own)
        if scores:
            if not settings.do_eval:
                files = self._scored_files("test")
                evaluated = Evaluated(describe_splits(self.data, self._splits("test")))
            self._write_scores(scores, evaluated, files)
            if "final" in self.rows:
                test_files = self._scored_files("final")
                self.test_scores, tested, _ = self._score("final", self._as_fitted(), test_files)
                self._write_scores(self.test_scores, tested, test_files)
            shown = {name.removeprefix("eval_"): value for name, value in scores.items()}
            self.trainer.history.concluded(self.trainer.global_step, {} if files.is_another else shown)

    def _score(self, kind, task, files):
        """Evaluates a task on the files of a kind, writes and shows the answers.

        Returns:
            scores, `Evaluated`, and {split: error report}.
        """
        settings, outcomes = self.settings, self._outcomes(kind, self.settings.eval_batch_size)
        scores = _with_prefix("eval_", task.evaluate(outcomes))
        judged = error_reports(self.task, outcomes)
        by_chief(self.task.write_scored, settings.output_dir, outcomes, files.suffix)
        by_chief(show_scored, self.task, outcomes, judged, scores, self.trainer, settings, files.suffix)
        labels = {outcome.suffix: judged[outcome.split].label_results() for outcome in outcomes
                  if outcome.split in judged}  # fmt: skip
        fitted = frozenset(_with_prefix("eval_", dict.fromkeys(task.fitted_metrics()))) & scores.keys()
        return scores, Evaluated(describe_splits(self.data, self._splits(kind)), labels, fitted), judged

    def _as_fitted(self):
        """Returns a copy of the task that fits nothing to what it scores."""
        task = copy.copy(self.task)
        task.options = task.options.without_fits()
        return task

    def _write_scores(self, scores, evaluated, files):
        by_chief(write_results, self.settings.output_dir, scores, self.trainer.global_step, "", files.suffix)
        by_chief(files.note, evaluated)

    def _scored_files(self, kind):
        """Returns the names of what is written of a kind of splits; None if there are none."""
        paths = [path for split in self._splits(kind) for path in find_files(self.data.examples[split].path)]
        return scored_files(self.settings.output_dir, paths, self.trainer.global_step) if paths else None

    def export(self, form: ExportOptions):
        """Exports the result, scored itself if it computes otherwise; in int8 only if that scores well enough."""
        settings = self.settings
        score = self.score_export if settings.do_eval else None
        calibration = choose_calibration(settings, form, self._batching(), self.rows)
        export_trained(settings.output_dir, settings.export_dir, form, self.trained, score, calibration)

    def score_export(self, forward) -> dict[str, float]:
        """Returns the scores of what is exported in another precision than was scored, on the same files, for the card.

        Args:
            forward: {name: tensor} -> the model's outputs.

        Raises:
            ValueError: in int8, one of them is lower by more than `int8_tolerance` allows.
        """
        settings, task = self.settings, self._as_fitted()
        scorer = Evaluator(task, lambda features, training: forward(features))
        outcomes = self._outcomes("dev", settings.eval_batch_size, scorer.outputs)
        scores = _with_prefix("eval_", task.evaluate(outcomes))
        tolerance = settings.int8_tolerance if settings.export_dtype == "int8" else None
        check_export_scores(self.scores, scores, tolerance, settings.export_dtype)
        return scores if self.are_in_card else {}

    def _outcomes(self, kind, batch_size, outputs=None) -> list[SplitPredictions]:
        outputs = outputs or self.trainer.outputs_and_losses
        return [self._outcome(split, self.rows[split], batch_size, outputs) for split in self._splits(kind)]

    def _splits(self, kind):
        return [split for split in self.rows if kind_of_split(split) == kind]

    def _outcome(self, split, rows, batch_size, outputs):
        scoring = self._batching().scoring(rows, batch_size)
        return SplitPredictions(split, self.data.examples[split], rows, *outputs(scoring))

    def _batching(self):
        return batch_settings(self.settings, self.use_xla)


def describe_splits(data: TaskData, splits: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Returns {split: its file and number of examples}."""
    several = ((split, data.examples[split]) for split in splits)
    return {split: {"file": os.fspath(each.path), "rows": len(each)} for split, each in several}


def _with_prefix(prefix, scores):
    return {f"{prefix}{name}": value for name, value in scores.items()}
