"""Fine-tuning, evaluation, prediction and export of any task: `run_task`. Independent of concrete tasks."""

import copy
import dataclasses
import os
from typing import Any

from bert_tf.checkpoints import adapters
from bert_tf.checkpoints.loading import Description, save_description
from bert_tf.checkpoints.tf1 import named
from bert_tf.cli.checkpoints import check_formats, describe_model, save_formats, task_paths
from bert_tf.cli.data_checks import DataChecks
from bert_tf.cli.fine_tuning_export import check_export, check_export_scores, check_tolerance, choose_calibration
from bert_tf.cli.fine_tuning_plan import (
    batch_settings,
    check_stopping,
    check_test_file,
    count_examples,
    find_label_rows,
    make_identity,
    plan_training,
    print_training_cost,
    splits_to_read,
    teacher_options,
    warn_of_few_steps,
    with_adapters,
    with_dry_run_defaults,
    with_learning_rate,
    with_trained_options,
)
from bert_tf.cli.options_from_flags import make_export_options
from bert_tf.cli.program import compiles, with_precision
from bert_tf.cli.program import prepare_process as prepare_devices
from bert_tf.cli.reporting import (
    check_showing,
    error_reports,
    log_after_fine_tuning,
    show_answers,
    show_scored,
    warn_of_teacher,
)
from bert_tf.evaluation.results import write_results
from bert_tf.export.export_options import ExportOptions
from bert_tf.export.saved_model import export_trained
from bert_tf.tasks.base import FineTuningTask, SplitPredictions, TaskData, TrainedTask
from bert_tf.tasks.distillation import check_teacher, with_teacher
from bert_tf.tasks.registry import TASKS, find_task, save_task
from bert_tf.tokenization.token_counter import TokenCounter
from bert_tf.training.distribution import by_chief, is_chief
from bert_tf.training.run_record import RunRecord
from bert_tf.training.scored_files import Evaluated, scored_files
from bert_tf.training.scoring import Scorer
from bert_tf.training.tracking import check_tracking, make_history, tracked
from bert_tf.training.trainer import Trainer
from bert_tf.training.trainer import prepare_directory as prepare_output
from bert_tf.utils.files import find_files
from bert_tf.utils.settings import Settings, options_of
from bert_tf.utils.token_counts import TokenCounts


def run_task(kind: type[FineTuningTask], settings: Settings):
    """Trains, evaluates, predicts and exports a task, as the settings ask: do_train, do_eval, do_predict, do_export.

    Args:
        kind: the task.
        settings: the flags of fine-tuning, and the task's own.

    Raises:
        ValueError: settings, files or checkpoints are not as they must be.
    """
    settings = with_precision(with_dry_run_defaults(settings))
    _check_settings(settings)
    strategy = prepare_devices(settings)
    model = with_adapters(describe_model(settings), settings)
    earlier = find_task(task_paths(settings), model.config, kind)
    trained = None if settings.do_train else earlier
    settings = with_trained_options(kind, settings, trained, model)
    model.check_length(settings.max_seq_length)
    options = options_of(type(kind.options), settings)
    data = kind.read_data(options, splits_to_read(settings), trained)
    checks = DataChecks(kind, data, options, settings)
    use_xla = compiles(settings, count_examples(data.examples, settings))
    task = kind.create(model, data, options, earlier, use_xla)
    task.options = options
    form = make_export_options(settings)
    as_asked = TrainedTask(task, data.text_inputs, settings.max_seq_length)
    as_trained = dataclasses.replace(trained, task=task) if trained else as_asked
    check_export(settings, form, as_trained)  # before the long work
    label_rows = find_label_rows(task, model, settings)
    rows, counts = _encode(task, model, data, settings)
    checks.look_at_rows(rows, counts)
    checks.refuse()
    with strategy.scope():
        trainable, teacher_identity = with_teacher(task, model, teacher_options(settings))
        identity = make_identity(task, model, label_rows) | teacher_identity
        config = plan_training(settings, model.config.num_hidden_layers, rows.get("train"), identity, use_xla)
        config = dataclasses.replace(config, label_rows=label_rows)
        warn_of_few_steps(label_rows, config.num_train_steps)
        if settings.get("dry_run"):
            print_training_cost(trainable, config, rows.get("train"), settings, use_xla)
            return
        config, range_test = with_learning_rate(trainable, config, rows, settings, use_xla)
        history = _make_history(settings, task, model, data, counts, config, range_test)
        trainer = Trainer(trainable, config, history)
        run = FineTuning(settings, model, data, rows, as_trained, trainer, use_xla)
        with tracked(history):
            if settings.do_train:
                trainer.fit(**run.training())
                run.write_adapters()
            else:
                trainer.restore()
                by_chief(prepare_output, settings.output_dir)
            run.score_and_answer()
    save_formats(settings, strategy)
    if settings.do_export and is_chief(strategy):
        run.export(form)
    if settings.do_train and is_chief(strategy):
        log_after_fine_tuning(settings, trainer.global_step)


def _check_settings(settings):
    """Raises ValueError for flags that contradict each other, before the model and the examples are read."""
    check_stopping(settings)
    check_test_file(settings)
    check_tracking(settings.tracking)
    check_showing(settings)
    check_tolerance(settings)
    check_teacher(teacher_options(settings))
    warn_of_teacher(settings)


def _encode(task, model, data, settings):
    """Returns {split: tokenized examples}, and {split: the counts of their tokens}."""
    rows, counters = {}, {split: TokenCounter(model.tokenizer) for split in data.examples}
    for split, examples in data.examples.items():
        length = settings.max_seq_length
        rows[split] = task.encode_examples(counters[split], examples, length, _kind_of(split) != "test")
    return rows, {split: TokenCounts().plus(counter.counts().numpy()) for split, counter in counters.items()}


def _make_history(settings, task, model, data, counts, config, range_test):
    """Returns the history of the run, which begins with what it is: flags, files, model and versions."""
    read = _described(data, data.examples)
    for split, each in counts.items():
        read[split] |= {"truncated": each.truncated_share, "unknown": each.unknown_share}
        read[split] |= {"unknown_texts": each.unknown_texts_share}
    files = {split: find_files(each["file"]) for split, each in read.items()}
    values, flags = settings.to_dict(), settings.given_values()
    record = RunRecord(task.name, values, flags, model.config, model.tokenizer, files, config.identity())
    return make_history(settings.tracking, settings.output_dir, flags, read, record, range_test)


def _described(data, splits):
    """Returns {split: its file and number of examples}."""
    several = ((split, data.examples[split]) for split in splits)
    return {split: {"file": os.fspath(each.path), "rows": len(each)} for split, each in several}


@dataclasses.dataclass
class FineTuning:
    """One run of a task: its training, scores, answers and export. To be used in the scope of a strategy.

    Attributes:
        settings: what is asked for.
        model: what it starts from.
        data: what the task read.
        rows: {split: tokenized examples}.
        trained: the task as it is kept with the model.
        trainer: of the task.
        use_xla: the model is compiled.
        scores: {metric: score} of `eval_file`, once it is scored.
        are_in_card: whether `scores` are those of eval_results.txt, which a model card shows.
    """

    settings: Settings
    model: Description
    data: TaskData
    rows: dict[str, Any]
    trained: TrainedTask
    trainer: Trainer
    use_xla: bool
    scores: dict[str, float] = dataclasses.field(default_factory=dict)
    are_in_card: bool = True

    @property
    def task(self) -> FineTuningTask:
        return self.trained.task

    def training(self) -> dict[str, Any]:
        """Returns the arguments of `Trainer.fit`."""
        settings, batching, keep_best = self.settings, self._batching(), self.settings.get("keep_best")
        return {
            "batches": batching.training(self.rows["train"], self.trainer.run),
            "on_begin": self._begin,
            "held_out": batching.scoring(self.rows["dev"], settings.eval_batch_size) if keep_best else None,
            "keep_best": keep_best,
            "early_stopping": settings.get("early_stopping", 0),
        }

    def _begin(self, model):
        """Prepares the output directory, once the model is built and before its first step."""
        settings, directory = self.settings, self.settings.output_dir
        named(model.variables)  # a custom head's weights may have no name in checkpoints
        check_formats(settings, self.model, model, self.task)
        files = [pattern for task in {*TASKS, type(self.task)} for pattern in task.files]
        prepare_output(directory, settings.overwrite_output_dir, files)
        save_description(directory, self.model.config, self.model.tokenizer, self.task.labels)
        save_task(directory, self.trained)

    def write_adapters(self):
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
            scores, evaluated = self._score("dev", learner, files)
            self.scores = scores
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
                files, evaluated = self._scored_files("test"), Evaluated(_described(self.data, self._splits("test")))
            self._write_scores(scores, evaluated, files)
            if "final" in self.rows:
                test_files = self._scored_files("final")
                self._write_scores(*self._score("final", self._as_fitted(), test_files), test_files)
            shown = {name.removeprefix("eval_"): value for name, value in scores.items()}
            self.trainer.history.concluded(self.trainer.global_step, {} if files.is_another else shown)

    def _score(self, kind, task, files):
        """Evaluates a task on the files of a kind, writes and shows the answers, and returns scores, `Evaluated`."""
        settings, outcomes = self.settings, self._outcomes(kind, self.settings.eval_batch_size)
        scores = _with_prefix("eval_", task.evaluate(outcomes))
        judged = error_reports(self.task, outcomes)
        by_chief(self.task.write_scored, settings.output_dir, outcomes, files.suffix)
        by_chief(show_scored, self.task, outcomes, judged, scores, self.trainer, settings, files.suffix)
        labels = {outcome.suffix: judged[outcome.split].label_results() for outcome in outcomes
                  if outcome.split in judged}  # fmt: skip
        fitted = frozenset(_with_prefix("eval_", dict.fromkeys(task.fitted_metrics()))) & scores.keys()
        return scores, Evaluated(_described(self.data, self._splits(kind)), labels, fitted)

    def _as_fitted(self):
        """Returns a copy of the task that fits nothing to what it scores."""
        task = copy.copy(self.task)
        task.options = task.options.without_fits()
        return task

    def _write_scores(self, scores, evaluated, files):
        by_chief(write_results, self.settings.output_dir, scores, self.trainer.global_step, "", files.suffix)
        by_chief(files.note, evaluated)

    def _scored_files(self, kind):
        """Returns the names of what is written of a kind of splits; None: there are none."""
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
        scorer = Scorer(task, lambda features, training: forward(features))
        outcomes = self._outcomes("dev", settings.eval_batch_size, scorer.outputs)
        scores = _with_prefix("eval_", task.evaluate(outcomes))
        tolerance = settings.int8_tolerance if settings.export_dtype == "int8" else None
        check_export_scores(self.scores, scores, tolerance, settings.export_dtype)
        return scores if self.are_in_card else {}

    def _outcomes(self, kind, batch_size, outputs=None) -> list[SplitPredictions]:
        outputs = outputs or self.trainer.outputs_and_losses
        return [self._outcome(split, self.rows[split], batch_size, outputs) for split in self._splits(kind)]

    def _splits(self, kind):
        return [split for split in self.rows if _kind_of(split) == kind]

    def _outcome(self, split, rows, batch_size, outputs):
        scoring = self._batching().scoring(rows, batch_size)
        return SplitPredictions(split, self.data.examples[split], rows, *outputs(scoring))

    def _batching(self):
        return batch_settings(self.settings, self.use_xla)


def _kind_of(split: str) -> str:
    return split.partition("_")[0]


def _with_prefix(prefix, scores):
    return {f"{prefix}{name}": value for name, value in scores.items()}
