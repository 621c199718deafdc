"""Pretraining steps of a tiny BERT on 1 to 16 virtual CPU devices: equal losses, and the cost of more replicas.

    python benchmarks/scaling/devices.py [--devices=1,2,4,8,16] [--layers=2]

The global batch is the same, so the devices share the same work: what a step takes longer is the overhead of replicas.
Times are CPU seconds of all threads. Each number of devices is a process of its own, because virtual devices must be
created first.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_list("devices", ["1", "2", "4", "8", "16"], "Numbers of virtual devices.")
flags.DEFINE_integer("layers", 2, "Layers of the model, of width 128.")
flags.DEFINE_integer("batch_size", 64, "Of all devices together.")
flags.DEFINE_integer("steps", 20, "Steps; the first, which builds the graph, is timed by itself.")
flags.DEFINE_string("optimizer", "lamb", "adamw or lamb.")
flags.DEFINE_integer("only", None, "Used by the script itself: train on so many devices and print the result.")

VOCABULARY, LENGTH, PREDICTIONS = 5000, 64, 10


def train(devices):
    """Returns the losses, the CPU seconds of the first step, and the median of the others."""
    import keras
    import tensorflow as tf

    from bert_tf.models.config import EncoderConfig
    from bert_tf.pretraining.objectives.language_modeling import PretrainingTask
    from bert_tf.training.optimizers import OPTIMIZERS
    from bert_tf.training.step import StepConfig, TrainStep
    from bert_tf.training.strategies import make_strategy
    from tests.fake_batches import fake_batch

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * devices)
    config = EncoderConfig(
        vocab_size=VOCABULARY, hidden_size=128, num_hidden_layers=FLAGS.layers, num_attention_heads=2,
        intermediate_size=512, max_position_embeddings=LENGTH, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    losses, seconds = [], []
    with make_strategy("mirrored" if devices > 1 else "default").scope():
        keras.utils.set_random_seed(0)
        task = PretrainingTask(config, "nsp", False)
        model, optimizer = task.build_model(), OPTIMIZERS[FLAGS.optimizer](1e-3)
        optimizer.build(model.trainable_variables)
        step = TrainStep(task, model, optimizer, StepConfig(fixed_shapes=True))
        names = {*task.features, *task.targets, "masked_lm_weights"}
        for number in range(FLAGS.steps):
            made = fake_batch(names, FLAGS.batch_size, LENGTH, VOCABULARY, seed=number, max_predictions=PREDICTIONS)
            batch = {name: tf.constant(values) for name, values in made.items()}
            begin = time.process_time()
            losses.append(float(step(batch)["loss"]))
            seconds.append(time.process_time() - begin)
    return losses, seconds[0], statistics.median(seconds[1:])


def main(_):
    if FLAGS.only:
        print(json.dumps(train(FLAGS.only)))
        return
    print(f"{'devices':>7}  {'1st step':>10}  {'step':>8}  largest difference of a loss from that of one device")
    one = None
    for devices in FLAGS.devices:
        command = [sys.executable, __file__, f"--only={devices}", *sys.argv[1:]]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr[-3000:])
        losses, first, median = json.loads(done.stdout.splitlines()[-1])
        one = one or losses
        difference = max(abs(a - b) for a, b in zip(losses, one, strict=True))
        print(f"{devices:>7}  {first:8.1f} s  {1000 * median:5.0f} ms  {difference:.1e}", flush=True)


if __name__ == "__main__":
    app.run(main)
