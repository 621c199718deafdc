"""A pretraining of some steps on made-up batches, for the tests of several devices and of several workers.

As a program it prints as JSON the losses on one and on two virtual CPU devices, of the kind that is its argument. A
process of its own, because devices must be made first, and TensorFlow mixes up the sums of two MirroredStrategies in a
process where their shapes differ.
"""

import json
import sys
import tempfile

import keras
import tensorflow as tf

from bert_tf.data.features import fake_batch
from bert_tf.tasks.pretraining.task import PretrainingTask
from bert_tf.training import distribution
from bert_tf.training.loop import RunConfig, fit
from tests import tiny

# Name -> what the encoder's configuration has beside the usual, the sentence objective.
KINDS = {
    "masked_lm": ({}, "nsp"),
    "albert": ({"model_type": "albert", "embedding_size": 16, "num_hidden_groups": 1, "num_hidden_layers": 2}, "sop"),
    "roberta": ({}, "none"),
}
_STEPS = 8
_LABELS = ("masked_lm_ids", "masked_lm_weights", "next_sentence_labels", "next_sentence_weights")


def losses(folder, kind="masked_lm") -> list[float]:
    """Trains on packed rows in the scope of the current strategy, without dropout; rows differ in how much they ask."""
    changes, sentence_objective = KINDS[kind]
    config = tiny.config(**changes)
    task = PretrainingTask(config, sentence_objective, packed=True)
    names = (*task.features, *_LABELS)
    found = []

    def batches(start):
        for number in range(start, _STEPS):
            made = fake_batch(names, 16, 12, config.vocab_size, seed=number % 2, max_predictions=4, max_sentences=2)
            yield {name: tf.constant(values) for name, values in made.items()}

    keras.utils.set_random_seed(0)
    run = RunConfig(folder, 16, _STEPS, 2, 1e-3)
    fit(task, run, batches, [lambda step, results, state: found.append(float(results["loss"]))])
    return found


def main():
    device = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(device, [tf.config.LogicalDeviceConfiguration()] * 2)
    found = {}
    for name in ("default", "mirrored"):
        with distribution.make_strategy(name).scope():
            found[name] = losses(tempfile.mkdtemp(), sys.argv[1]), tf.distribute.get_strategy().num_replicas_in_sync
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
