"""Fine-tuning on examples in memory, which leaves nothing but the trained model."""

import dataclasses

from bert_tf.runs.devices import compiles, keep_compiled_programs, prepare_devices, with_precision
from bert_tf.runs.encoded_splits import encode_splits
from bert_tf.runs.fine_tuning import FineTuning
from bert_tf.runs.fine_tuning_checks import check_settings
from bert_tf.runs.fine_tuning_plan import batch_settings, count_examples, plan_run, with_learning_rate
from bert_tf.runs.fine_tuning_start import find_label_rows, find_start
from bert_tf.runs.sample_weights import weigh_examples
from bert_tf.runs.settings import FineTuningSettings
from bert_tf.tasks.base import FineTuningTask, TaskData, TrainedTask
from bert_tf.tasks.options import SelectionOptions
from bert_tf.training.run_config import RunConfig
from bert_tf.training.trainer import Trainer
from bert_tf.utils.settings import part_of
from bert_tf.utils.token_counts import TokenCountLog


def fine_tune_in_memory(kind: type[FineTuningTask], settings: FineTuningSettings, data: TaskData) -> FineTuning:
    """Trains a task on examples in memory, as `run_task` does on files, and returns the run.

    The examples are not checked for mistakes, no record, history or report is written, and only the last step is
    saved or, with `metric_for_best_model`, the end of every epoch.

    Args:
        kind: the task.
        settings: settings of its fine-tuning, an instance of `task_settings`; `do_train` is set, and no other action.
        data: examples to train on and, for `metric_for_best_model`, to validate.

    Raises:
        ValueError: settings, examples or checkpoints are invalid.
    """
    keep_compiled_programs(settings)
    settings = with_precision(settings)
    check_settings(settings)
    strategy = prepare_devices(settings)
    settings, options, model, earlier, _ = find_start(kind, settings)
    use_xla = compiles(settings, count_examples(data.examples, settings))
    task = kind.create(model, data, options, earlier, use_xla)
    task.options = options
    label_rows = find_label_rows(task, model, settings)
    rows, counts = encode_splits(task, model.tokenizer, data.examples, settings.max_seq_length)
    # For files, the data checks warn of truncation.
    TokenCountLog(f"{len(data.examples['train'])} training examples", settings.max_seq_length).add(counts["train"])
    weigh_examples(task, rows["train"], data.weights, batch_settings(settings, use_xla), settings.train_batch_size)
    with strategy.scope():
        trainable, config = plan_run(task, model, settings, label_rows, rows["train"], use_xla)
        metric = part_of(settings, SelectionOptions).metric_for_best_model
        config = _with_fewest_checkpoints(config, len(rows["train"]), metric)
        config, _ = with_learning_rate(trainable, config, rows, settings, use_xla)
        trained = TrainedTask(task, data.text_inputs, settings.max_seq_length)
        run = FineTuning(settings, model, data, rows, trained, Trainer(trainable, config), strategy, use_xla)
        run.train()
    return run


def _with_fewest_checkpoints(config: RunConfig, num_examples: int, metric_for_best_model: str | None) -> RunConfig:
    """Returns the configuration of a run that saves only what `metric_for_best_model` compares: the end of every epoch.

    Without the metric, only the last step is saved. Examples are the encoded ones to train on.
    """
    epoch = max(1, num_examples // config.train_batch_size)
    steps = epoch if metric_for_best_model else config.num_train_steps
    return dataclasses.replace(config, save_checkpoints_steps=steps, keep_checkpoints=1)
