"""Fine-tuning: the number of steps, and the layers to train."""

import dataclasses

from bert_tf.data.batch_order import usual_pool
from bert_tf.training.automatic_learning_rate import check_range_test
from bert_tf.training.batching import BatchSettings
from bert_tf.training.layer_rates import layer_rates
from bert_tf.training.run_config import RunConfig
from bert_tf.training.settings import FineTuningConfig
from bert_tf.training.strategies import check_batch_size


def fine_tuning_config(
    run: RunConfig, config: FineTuningConfig, num_layers: int, train, batching: BatchSettings
) -> RunConfig:
    """Returns a run with number of steps and layer-wise learning rates; the settings record what affects the result.

    Args:
        run: without steps; its `learning_rate` is None if a range test is to choose it.
        config: length and layers.
        num_layers: number of encoder layers.
        train: the examples to train on, tokenized, or None.
        batching: how they are batched.

    Raises:
        ValueError: there are too few examples for one step, replicas and micro-batches cannot share a batch equally,
            or a setting is out of range for the model.
    """
    num_examples, fingerprint = (0, 0) if train is None else (len(train), train.fingerprint())
    steps = int(num_examples / run.train_batch_size * config.num_train_epochs)
    if train is not None and not steps:
        raise ValueError(
            f"Nothing to train: {num_examples} examples x {config.num_train_epochs} epochs are fewer than one batch "
            f"of {run.train_batch_size}. Lower `train_batch_size`."
        )
    if run.learning_rate is None:
        check_range_test(train is not None, steps)
    settings = {"train_examples": fingerprint, **run.settings}
    pool = batching.pool_batches or usual_pool(num_examples, run.train_batch_size)
    if train is not None and batching.by_length:
        settings["bucket_batches"] = pool
    if run.step.pack_examples:
        settings["pack_examples"] = True
    run = dataclasses.replace(
        run,
        num_train_steps=steps,
        num_warmup_steps=int(steps * config.warmup_proportion),
        layer_rates=layer_rates(config, run, num_layers, num_examples),
        reinit_layers=config.reinit_layers,
        settings=settings,
    )
    if train is None or not (run.step.pack_examples and run.step.use_xla):
        return run
    check_batch_size(run.train_batch_size, run.step.accumulation, "`train_batch_size`")
    shares = batching.packed_shares(train, run)
    return dataclasses.replace(run, step=dataclasses.replace(run.step, packed_shares=shares))
