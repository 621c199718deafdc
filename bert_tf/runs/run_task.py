"""Fine-tuning, evaluation, prediction and export of any task: `run_task`. Independent of concrete tasks."""

import dataclasses
from collections.abc import Callable, Sequence

from bert_tf.runs.data_checks import DataChecks, lint_samples
from bert_tf.runs.devices import compiles, prepare_devices, with_precision
from bert_tf.runs.encoded_splits import encode_splits
from bert_tf.runs.export_step import check_export, make_export_options
from bert_tf.runs.fine_tuning import FineTuning, describe_splits
from bert_tf.runs.fine_tuning_files import check_test_file, splits_to_read, with_dry_run_defaults
from bert_tf.runs.fine_tuning_plan import (
    batch_settings,
    count_examples,
    describe_training_cost,
    make_identity,
    plan_training,
    with_fewest_checkpoints,
    with_learning_rate,
)
from bert_tf.runs.fine_tuning_start import (
    find_label_rows,
    teacher_options,
    warn_of_few_steps,
    with_adapters,
    with_trained_options,
)
from bert_tf.runs.sample_weights import weigh_examples
from bert_tf.runs.save_formats import save_formats
from bert_tf.runs.scored_answers import warn_of_teacher
from bert_tf.runs.start_model import describe_model, task_paths
from bert_tf.runs.task_flags import task_flags
from bert_tf.tasks.base import FineTuningTask, TaskData, TrainedTask
from bert_tf.tasks.fine_tuning_teacher import check_teacher, with_teacher
from bert_tf.tasks.registry import find_task
from bert_tf.training.output_directory import prepare_directory
from bert_tf.training.run_record import RunRecord
from bert_tf.training.tracking import check_tracking, make_history, tracked
from bert_tf.training.trainer import Trainer
from bert_tf.training.workers import by_chief, is_chief
from bert_tf.utils.files import find_files
from bert_tf.utils.settings import Settings, check_combinations, options_of
from bert_tf.utils.token_counts import TokenCountLog


def run_task(
    kind: type[FineTuningTask],
    settings: Settings,
    show: Callable[[str], None] = print,
    callbacks: Sequence[Callable] = (),
    adapt: Callable[[FineTuningTask], FineTuningTask] = lambda task: task,
    data: TaskData | None = None,
) -> FineTuning | None:
    """Trains, evaluates, predicts and exports a task, as the settings ask: do_train, do_eval, do_predict, do_export.

    Args:
        kind: the task.
        settings: of fine-tuning, and the task's own.
        show: prints what `dry_run` finds out.
        callbacks: as in `adapt_callbacks`.
        adapt: returns the task to train and evaluate in place of the one that the settings describe, such as one with
            another loss.
        data: examples in memory, in place of the files that the settings name. Such a run produces only its
            result: the examples are not checked for mistakes, no record, history or report is written, and only the
            last step is saved or, with `metric_for_best_model`, the end of every epoch.

    Returns:
        the run; None after a dry run.

    Raises:
        ValueError: settings, files or checkpoints are not as they must be.
    """
    settings = with_precision(with_dry_run_defaults(settings))
    check_combinations(task_flags(kind), settings)
    _check_settings(settings)
    strategy = prepare_devices(settings)
    model = with_adapters(describe_model(settings), settings)
    earlier = find_task(task_paths(settings), model.config, kind)
    trained = None if settings.do_train else earlier
    settings = with_trained_options(kind, settings, trained, model)
    model.check_length(settings.max_seq_length)
    options = options_of(type(kind.options), settings)
    in_memory = data is not None
    data = data or kind.read_data(options, splits_to_read(settings), trained)
    checks = DataChecks({} if in_memory else lint_samples(kind, data, options), settings)
    use_xla = compiles(settings, count_examples(data.examples, settings))
    task = adapt(kind.create(model, data, options, earlier, use_xla))
    task.options = options
    form = make_export_options(settings)
    as_asked = TrainedTask(task, data.text_inputs, settings.max_seq_length)
    as_trained = dataclasses.replace(trained, task=task) if trained else as_asked
    check_export(settings, form, as_trained)  # before the long work
    label_rows = find_label_rows(task, model, settings)
    rows, counts = encode_splits(task, model.tokenizer, data.examples, settings.max_seq_length)
    checks.look_at_rows(rows, counts)
    checks.refuse()
    if in_memory:
        _warn_of_counts(data.examples["train"], counts["train"], settings)
    if data.weights is not None:
        weigh_examples(task, rows["train"], data.weights, batch_settings(settings, use_xla), settings.train_batch_size)
    with strategy.scope():
        trainable, teacher_identity = with_teacher(task, model, teacher_options(settings))
        identity = make_identity(task, model, label_rows) | teacher_identity
        config = plan_training(settings, model.config.num_hidden_layers, rows.get("train"), identity, use_xla)
        config = dataclasses.replace(config, label_rows=label_rows)
        if in_memory:
            config = with_fewest_checkpoints(config, len(rows["train"]), settings.get("metric_for_best_model"))
        warn_of_few_steps(label_rows, config.num_train_steps)
        if settings.get("dry_run"):
            by_chief(show, describe_training_cost(trainable, config, rows.get("train"), settings, use_xla))
            return None
        config, range_test = with_learning_rate(trainable, config, rows, settings, use_xla)
        history = None if in_memory else _make_history(settings, task, model, data, counts, config, range_test)
        trainer = Trainer(trainable, config, history)
        run = FineTuning(settings, model, data, rows, as_trained, trainer, strategy, use_xla)
        with tracked(history):
            if settings.do_train:
                trainer.fit(**run.training(callbacks))
                run.write_adapters()
            else:
                trainer.restore()
                by_chief(prepare_directory, settings.output_dir)
            run.score_and_answer()
    save_formats(settings, strategy)
    if settings.do_export and is_chief(strategy):
        run.export(form)
    return run


def _check_settings(settings):
    """Raises ValueError for flags that contradict each other, before the model and the examples are read."""
    check_test_file(settings)
    check_tracking(settings.tracking)
    check_teacher(teacher_options(settings))
    warn_of_teacher(settings)


def _warn_of_counts(train, counts, settings):
    """Warns about truncation of training examples in memory; for files, the data checks do this."""
    TokenCountLog(f"{len(train)} training examples", settings.max_seq_length).add(counts)


def _make_history(settings, task, model, data, counts, config, range_test):
    """Returns the history of the run, which begins with what it is: flags, files, model and versions."""
    read = describe_splits(data, data.examples)
    for split, each in counts.items():
        read[split] |= {"truncated": each.truncated_share, "unknown": each.unknown_share}
        read[split] |= {"unknown_texts": each.unknown_texts_share}
    files = {split: find_files(each["file"]) for split, each in read.items()}
    values, flags = settings.to_dict(), settings.given_values()
    record = RunRecord(task.name, values, flags, model.config, model.tokenizer, files, config.identity())
    return make_history(settings.tracking, settings.output_dir, flags, read, record, range_test)
