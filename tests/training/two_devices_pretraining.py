"""Pretrains on one and on two virtual CPU devices, and prints as JSON what came out; `two_devices_test.py` runs it.

python -m tests.training.two_devices_pretraining
"""

import json
import sys

import keras
import tensorflow as tf

from bert_tf.pretraining.objectives.registry import Electra
from bert_tf.training.adamw import AdamW
from bert_tf.training.step import StepConfig, TrainStep
from bert_tf.training.strategies import make_strategy
from tests import tiny
from tests.fake_batches import fake_batch

STEPS = 6


def train(strategy, accumulation=1):
    """Returns the losses of each step, by name."""
    with make_strategy(strategy).scope():
        keras.utils.set_random_seed(0)
        task = Electra(generator_size=0.5).make_task(tiny.config(), "none", packed=False)
        model, optimizer = task.build_model(), AdamW(3e-3)
        optimizer.build(model.trainable_variables)
        step = TrainStep(task, model, optimizer, StepConfig(accumulation=accumulation))
        names, found = {*task.features, *task.targets, "masked_lm_weights"}, []
        for seed in range(STEPS):
            batch = fake_batch(names, batch_size=8, vocab_size=len(tiny.VOCAB), seed=seed)
            results = step({name: tf.constant(values) for name, values in batch.items()})
            found.append({name: float(results[name]) for name in ("loss", *task.loss_weights)})
    return found


def main():
    device = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(device, [tf.config.LogicalDeviceConfiguration()] * 2)
    assert make_strategy("mirrored").num_replicas_in_sync == 2
    runs = {"one": ("default",), "two": ("mirrored",), "two, each half cut in two": ("mirrored", 2)}
    json.dump({name: train(*arguments) for name, arguments in runs.items()}, sys.stdout)


if __name__ == "__main__":
    main()
