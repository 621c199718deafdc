"""Fine-tuning, evaluation, prediction and export of any task: `run_task`. Independent of concrete tasks."""

import copy
import dataclasses
import filecmp
import itertools
import os
from typing import Any

from bert_tf.checkpoints import adapters
from bert_tf.checkpoints.loading import Description, save_description
from bert_tf.checkpoints.tf1 import named
from bert_tf.cli.checkpoints import check_formats, describe_model, save_formats, task_paths
from bert_tf.cli.data_checks import DataChecks
from bert_tf.cli.fine_tuning_export import check_export, check_export_scores, check_tolerance, choose_calibration
from bert_tf.cli.options_from_flags import make_export_options, make_run_config
from bert_tf.cli.program import compiles, in_flags, with_precision
from bert_tf.cli.program import prepare_process as prepare_devices
from bert_tf.cli.reporting import (
    check_showing,
    log_after_fine_tuning,
    show_answers,
    show_scored,
    warn_of_teacher,
)
from bert_tf.evaluation.results import write_results
from bert_tf.export.export_options import ExportOptions
from bert_tf.export.saved_model import export_trained
from bert_tf.models.lora import Lora
from bert_tf.pretraining.record_metadata import vocabulary_fingerprint
from bert_tf.tasks.base import FineTuningTask, SplitPredictions, TaskData, TrainedTask
from bert_tf.tasks.distillation import TeacherOptions, check_teacher, with_teacher
from bert_tf.tasks.options import ACTIONS
from bert_tf.tasks.registry import TASKS, find_task, save_task
from bert_tf.tasks.retraining import rows_by_label
from bert_tf.training.distribution import by_chief, is_chief
from bert_tf.training.dry_run import try_training
from bert_tf.training.fine_tuning import FineTuningConfig, fine_tuning_config, with_tested_rate
from bert_tf.training.learning_rate import ALL
from bert_tf.training.memory import available_memory
from bert_tf.training.run_record import RunRecord, scored_files
from bert_tf.training.scoring import BatchSettings, Scorer
from bert_tf.training.state import RunConfig
from bert_tf.training.tracking import check_tracking, make_history, tracked
from bert_tf.training.trainer import Trainer
from bert_tf.training.trainer import prepare_directory as prepare_output
from bert_tf.utils.files import find_files
from bert_tf.utils.settings import Settings, options_of


def run_task(kind: type[FineTuningTask], settings: Settings):
    """Does with a task what the settings ask for: do_train, do_eval, do_predict, do_export.

    Args:
        kind: the task.
        settings: the flags of fine-tuning, and the task's own.

    Raises:
        ValueError: settings, files or checkpoints are not as they must be.
    """
    settings = with_precision(of_dry_run(settings))
    _check_settings(settings)
    strategy = prepare_devices(settings)
    model = with_adapters(describe_model(settings), settings)
    before = find_task(task_paths(settings), model.config, kind)
    trained = None if settings.do_train else before
    settings = with_trained_options(kind, settings, trained, model)
    model.check_length(settings.max_seq_length)
    options = options_of(type(kind.options), settings)
    data = kind.read_data(options, _kinds(settings), trained)
    checks = DataChecks(kind, data, options, settings)
    use_xla = compiles(settings, _count_examples(data.examples, settings))
    task = kind.create(model, data, options, before, use_xla)
    task.options = options
    form = make_export_options(settings)
    as_asked = TrainedTask(task, data.text_inputs, settings.max_seq_length)
    as_trained = dataclasses.replace(trained, task=task) if trained else as_asked
    check_export(settings, form, as_trained)  # before the long work
    kept = _label_rows(task, model, settings)
    rows = _encode(task, model, data, settings)
    checks.look_at_rows(rows)
    checks.refuse()
    with strategy.scope():
        trainable, of_teacher = with_teacher(task, model, _teacher_options(settings))
        identity = _identity(task, model, kept) | of_teacher
        config = plan_training(settings, model.config.num_hidden_layers, rows.get("train"), identity, use_xla)
        config = dataclasses.replace(config, label_rows=kept)
        if settings.get("dry_run"):
            print_what_training_takes(trainable, config, rows.get("train"), settings, use_xla)
            return
        config, range_test = _with_rate(trainable, config, rows, settings, use_xla)
        history = _make_history(settings, task, model, data, config, range_test)
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
    """Raises ValueError for flags that contradict each other, before any file is read."""
    check_stopping(settings)
    check_test_file(settings)
    check_tracking(settings.tracking)
    check_showing(settings)
    check_tolerance(settings)
    check_teacher(_teacher_options(settings))
    warn_of_teacher(settings)


def _count_examples(examples, settings):
    """Returns the number of training examples over all epochs, or, without training, the number of all examples.

    With training, no other examples count, so resuming a run with different files to predict does not change it.
    """
    train = len(examples["train"]) * settings.num_train_epochs if settings.do_train else 0
    return train or sum(map(len, examples.values()))


def _encode(task, model, data, settings):
    """Returns {split: the examples in rows}."""
    return {
        split: task.encode_examples(model.tokenizer, examples, settings.max_seq_length, _kind_of(split) != "test")
        for split, examples in data.examples.items()
    }


def _with_rate(task, config, rows, settings, use_xla):
    """Returns the configuration with a learning rate, and the range test that found it; None if it was given."""
    if config.learning_rate is not None:
        return config, None
    return with_tested_rate(task, config, batch_settings(settings, use_xla).training(rows["train"], config))


def _make_history(settings, task, model, data, config, range_test):
    """Returns the history of the run, which begins with what it is: flags, files, model and versions."""
    read = {split: {"file": os.fspath(each.path), "rows": len(each)} for split, each in data.examples.items()}
    files = {split: find_files(each["file"]) for split, each in read.items()}
    values, flags = settings.to_dict(), settings.given_values()
    record = RunRecord(task.name, values, flags, model.config, model.tokenizer, files, config.identity())
    return make_history(settings.tracking, settings.output_dir, flags, read, record, range_test)


def with_trained_options(
    kind: type[FineTuningTask], settings: Settings, trained: TrainedTask | None, model: Description
) -> Settings:
    """Returns the settings with the options that a model was trained with, where the user gave none.

    Args:
        kind: the task.
        settings: of the run.
        trained: the model, as its task.json describes it; None: it has none, or is trained now.
        model: its files.
    """
    options = options_of(type(kind.options), settings)
    if trained:
        adopted = kind.with_trained_defaults(options, trained)
    else:
        adopted = options if settings.do_train else kind.with_foreign_defaults(options, model)
    before = vars(options)
    return settings.adopt({name: value for name, value in vars(adopted).items() if value != before[name]})


def _teacher_options(settings):
    """Returns what a program says of a teacher; not all have such flags."""
    return options_of(TeacherOptions, settings) if "teacher" in settings else TeacherOptions()


@dataclasses.dataclass
class FineTuning:
    """One run of a task. To be used in the scope of a strategy.

    Attributes:
        settings: what is asked for.
        model: what it starts from.
        data: what the task read.
        rows: split -> the examples in rows.
        trained: the task as it is kept with the model.
        trainer: of the task.
        use_xla: the model is compiled.
        scores: of the files to score on, once that is done.
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
            self.scores = scores = self._score("dev", learner, files)
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
            files = files or self._scored_files("test")
            self._write(scores, files)
            if "final" in self.rows:
                of_test = self._scored_files("final")
                self._write(self._score("final", self._as_fitted(), of_test), of_test)
            shown = {name.removeprefix("eval_"): value for name, value in scores.items()}
            self.trainer.history.concluded(self.trainer.global_step, {} if files.is_another else shown)

    def _score(self, kind, task, files):
        """Returns the scores of a task on the files of a kind, once their answers are written and shown."""
        settings, outcomes = self.settings, self._outcomes(kind, self.settings.eval_batch_size)
        scores = _with_prefix("eval_", task.evaluate(outcomes))
        by_chief(self.task.write_scored, settings.output_dir, outcomes, files.suffix)
        by_chief(show_scored, self.task, outcomes, scores, self.trainer, settings, files.suffix)
        return scores

    def _as_fitted(self):
        """Returns a copy of the task that fits nothing to what it scores."""
        task = copy.copy(self.task)
        task.options = task.options.without_fits()
        return task

    def _write(self, scores, files):
        by_chief(write_results, self.settings.output_dir, scores, self.trainer.global_step, "", files.suffix)
        by_chief(files.note)

    def _scored_files(self, kind):
        """Returns the names of what is written of a kind of splits; None: there are none."""
        read = [self.data.examples[split].path for split in self.rows if _kind_of(split) == kind]
        paths = [path for each in read for path in find_files(each)]
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

    def _begin(self, model):
        settings, directory = self.settings, self.settings.output_dir
        named(model.variables)  # a custom head's weights may have no name in checkpoints
        check_formats(settings, self.model, model, self.task)
        files = [pattern for task in {*TASKS, type(self.task)} for pattern in task.files]
        prepare_output(directory, settings.overwrite_output_dir, files)
        save_description(directory, self.model.config, self.model.tokenizer, self.task.labels)
        save_task(directory, self.trained)

    def _outcomes(self, kind, batch_size, outputs=None) -> list[SplitPredictions]:
        outputs = outputs or self.trainer.outputs_and_losses
        splits = [split for split in self.rows if _kind_of(split) == kind]
        return [self._outcome(split, self.rows[split], batch_size, outputs) for split in splits]

    def _outcome(self, split, rows, batch_size, outputs):
        scoring = self._batching().scoring(rows, batch_size)
        return SplitPredictions(split, self.data.examples[split], rows, *outputs(scoring))

    def _batching(self):
        return batch_settings(self.settings, self.use_xla)


def with_adapters(model: Description, settings: Settings) -> Description:
    """Returns the model with the adapters that are to be trained; those of a trained model are in its kernels.

    Raises:
        ValueError: settings contradict each other, or the frozen weights would be random.
    """
    if not settings.lora_rank:
        for name in ("lora_alpha", "lora_targets"):
            if name in settings.given:
                raise ValueError(f"`{name}` requires `lora_rank`. Add `lora_rank` or remove `{name}`.")
        return model
    if not settings.do_train:
        return model
    if not settings.init_checkpoint:
        raise ValueError(
            f"`lora_rank={settings.lora_rank}` requires `init_checkpoint`: without it, the frozen weights would be "
            "random."
        )
    if settings.reinit_layers or settings.freeze_layers == ALL:
        name, value = ("reinit_layers", settings.reinit_layers) if settings.reinit_layers else ("freeze_layers", ALL)
        raise ValueError(
            f"`lora_rank` cannot be combined with `{name}={value}`, with which adapters have no use. Remove one."
        )
    lora = Lora(settings.lora_rank, settings.lora_alpha or settings.lora_rank, tuple(settings.lora_targets))
    return dataclasses.replace(model, config=dataclasses.replace(model.config, lora=lora))


def of_dry_run(settings: Settings) -> Settings:
    """Returns the settings in which a dry run to which nothing else was said is that of a training."""
    if settings.get("dry_run") and not any(settings.get(f"do_{action}") for action in (*ACTIONS.values(), "export")):
        return settings.adopt({"do_train": True, "do_eval": bool(settings.get("eval_file"))})
    return settings


def print_what_training_takes(task, config: RunConfig, train, settings: Settings, use_xla: bool):
    """Prints what memory and time the training would take, where there is one."""
    if train is None:
        by_chief(print, "Nothing would be trained.")
        return
    if config.learning_rate is None:  # it is to be found by a test, and a step takes as long at any
        config = dataclasses.replace(config, learning_rate=RunConfig.learning_rate)
    batching = batch_settings(settings, use_xla)
    trial = try_training(task, config, train, batching, settings.precision, settings.rematerialize)
    by_chief(print, in_flags(trial.lines(available_memory()), settings.to_dict()))


def plan_training(settings: Settings, num_layers: int, train, identity: dict, use_xla: bool) -> RunConfig:
    """Returns the `RunConfig` that the flags describe; what decides the result is part of its identity.

    Args:
        settings: the flags.
        num_layers: the encoder's blocks.
        train: the examples to train on, tokenized, or None.
        identity: what of the task decides the result.
        use_xla: compile the step.

    Raises:
        ValueError: there are too few examples for one step, or a setting is out of range for the model.
    """
    if settings.get("pack_examples") and use_xla:
        raise ValueError(
            "`pack_examples` cannot be combined with `use_xla=true`, which compiles a program for every shape. "
            "Remove one."
        )
    run = make_run_config(settings, 0, 0, use_xla, identity)
    config = options_of(FineTuningConfig, settings)
    return fine_tuning_config(run, config, num_layers, train, batch_settings(settings, use_xla))


def batch_settings(settings: Settings, use_xla: bool) -> BatchSettings:
    """Returns how batches are made of examples, as `max_seq_length`, `bucket_by_length` and `bucket_batches` say.

    Raises:
        ValueError: the number of batches was given, but nothing is sorted.
    """
    by_length = settings.bucket_by_length
    if not by_length and "bucket_batches" in settings.given:
        raise ValueError("`bucket_batches` requires `bucket_by_length`; got `bucket_by_length=false`. Remove one.")
    return BatchSettings(settings.max_seq_length, by_length, use_xla, settings.get("bucket_batches"))


def check_stopping(settings: Settings):
    """Raises ValueError where a score is to end the run, but none is named."""
    patience = settings.get("early_stopping")
    if patience and not settings.keep_best:
        raise ValueError(
            f"`early_stopping={patience}` requires `keep_best`, the metric by which a checkpoint is better. Add it, "
            "or remove `early_stopping`."
        )


def _label_rows(task, model, settings):
    """Returns the rows of the initial checkpoint's head that the run keeps, where it trains; otherwise None."""
    renames = settings.get("rename_labels") or ()
    if settings.do_train:
        return rows_by_label(task, model, settings.init_checkpoint, renames)
    if renames:
        raise ValueError("`rename_labels` requires `do_train`. Add `do_train` or remove `rename_labels`.")
    return None


def check_test_file(settings: Settings):
    """Raises ValueError where a test file would not be scored, or is the file to select and fit by."""
    path, other = settings.get("test_file"), settings.get("eval_file")
    if path is None:
        return
    if not settings.do_eval:
        raise ValueError("`test_file` requires `do_eval`. Add `do_eval`, or remove `test_file`.")
    for pair in itertools.product(find_files(path), find_files(other) if other else ()):
        if all(map(os.path.isfile, pair)) and filecmp.cmp(*pair, shallow=False):
            raise ValueError(
                f"`test_file` and `eval_file` must be different files. Received {' and '.join(pair)}, which have the "
                "same contents; remove `test_file`, or pass examples that are not used to select anything."
            )


def _identity(task, model, kept):
    """Returns what of the task, the model's files and the head's kept rows decides the result."""
    vocabulary = f"{model.tokenizer.vocab_size} tokens, SHA-256 {vocabulary_fingerprint(model.tokenizer.vocab)[:16]}"
    identity = {**model.config.to_dict(), "vocabulary": vocabulary, **task.identity()}
    identity |= {"lora": model.config.lora.to_dict()} if model.config.lora else {}
    return identity | ({"rename_labels": dict(kept.renamed)} if kept and kept.renamed else {})


def _kinds(settings) -> list[str]:
    """Returns the kinds of splits that the run reads."""
    wanted = {kind: settings.get(f"do_{action}") for kind, action in ACTIONS.items()}
    wanted["dev"] = wanted["dev"] or bool(settings.get("keep_best"))
    wanted["final"] = settings.do_eval and bool(settings.get("test_file"))
    return [kind for kind, is_wanted in wanted.items() if is_wanted]


def _kind_of(split: str) -> str:
    return split.partition("_")[0]


def _with_prefix(prefix, scores):
    return {f"{prefix}{name}": value for name, value in scores.items()}
