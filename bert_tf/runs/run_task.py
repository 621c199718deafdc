"""Fine-tuning, evaluation, prediction and export of any task: `run_task`. Independent of concrete tasks."""

import dataclasses
from collections.abc import Callable, Sequence

from bert_tf.runs.data_checks import DataChecks, lint_samples
from bert_tf.runs.devices import compiles, keep_compiled_programs, prepare_devices, with_precision
from bert_tf.runs.encoded_splits import encode_splits
from bert_tf.runs.export_step import check_export, make_export_options
from bert_tf.runs.fine_tuning import FineTuning, describe_splits
from bert_tf.runs.fine_tuning_checks import check_settings
from bert_tf.runs.fine_tuning_files import splits_to_read, with_dry_run_defaults
from bert_tf.runs.fine_tuning_plan import (
    batch_settings,
    count_examples,
    describe_training_cost,
    plan_run,
    with_learning_rate,
)
from bert_tf.runs.fine_tuning_start import find_label_rows, find_start
from bert_tf.runs.sample_weights import weigh_examples
from bert_tf.runs.save_formats import save_formats
from bert_tf.runs.settings import FineTuningSettings
from bert_tf.tasks.base import FineTuningTask, TrainedTask
from bert_tf.training.run_record import RunRecord
from bert_tf.training.tracking import make_history, tracked
from bert_tf.training.trainer import Trainer
from bert_tf.training.workers import by_chief, is_chief
from bert_tf.utils.files import find_files


def run_task(
    kind: type[FineTuningTask],
    settings: FineTuningSettings,
    show: Callable[[str], None] = print,
    callbacks: Sequence[Callable] = (),
    adapt: Callable[[FineTuningTask], FineTuningTask] = lambda task: task,
) -> FineTuning | None:
    """Trains, evaluates, predicts and exports a task, as the settings ask: do_train, do_eval, do_predict, do_export.

    Args:
        kind: the task.
        settings: settings of its fine-tuning, an instance of `task_settings`.
        show: prints what `dry_run` finds out.
        callbacks: as in `adapt_callbacks`.
        adapt: returns the task to train and evaluate in place of the one that the settings describe, such as one with
            another loss.

    Returns:
        the run; None after a dry run.

    Raises:
        ValueError: settings, files or checkpoints are invalid.
    """
    keep_compiled_programs(settings)
    settings = with_precision(with_dry_run_defaults(settings))
    check_settings(settings)
    strategy = prepare_devices(settings)
    settings, options, model, earlier, trained = find_start(kind, settings)
    data = kind.read_data(options, splits_to_read(settings), trained)
    checks = DataChecks(lint_samples(kind, data, options), settings)
    use_xla = compiles(settings, count_examples(data.examples, settings))
    task = adapt(kind.create(model, data, options, earlier, use_xla))
    task.options = options
    form = make_export_options(settings)
    as_asked = TrainedTask(task, data.text_inputs, settings.max_seq_length)
    as_trained = dataclasses.replace(trained, task=task) if trained else as_asked
    check_export(settings, form, as_trained, model.tokenizer)  # before the long work
    label_rows = find_label_rows(task, model, settings)
    rows, counts = encode_splits(task, model.tokenizer, data.examples, settings.max_seq_length)
    checks.look_at_rows(rows, counts)
    checks.refuse()
    weigh_examples(task, rows.get("train"), data.weights, batch_settings(settings, use_xla), settings.train_batch_size)
    with strategy.scope():
        trainable, config = plan_run(task, model, settings, label_rows, rows.get("train"), use_xla)
        if settings.dry_run:
            by_chief(show, describe_training_cost(trainable, config, rows.get("train"), settings, use_xla))
            return None
        config, range_test = with_learning_rate(trainable, config, rows, settings, use_xla)
        history = _make_history(settings, task, model, data, counts, config, range_test)
        trainer = Trainer(trainable, config, history)
        run = FineTuning(settings, model, data, rows, as_trained, trainer, strategy, use_xla)
        with tracked(history):
            if settings.do_train:
                run.train(callbacks)
            else:
                run.restore()
            run.score_and_answer()
    save_formats(settings, strategy)
    if settings.do_export and is_chief(strategy):
        run.export(form)
    return run


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
