"""Where a training step's time goes: the share of each kind of TensorFlow op, as TensorFlow's profiler counts it.

    python benchmarks/profile_step.py CHECKPOINT_OR_CONFIG [PRECISION] [BATCH] [LENGTH]

A checkpoint's folder is fine-tuned to classify; a bert_config.json is pretrained, with 20 predictions a row.
Ops run side by side on several threads, so the shares are of their sum, not of the clock.
"""

import collections
import os
import pathlib
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import kernel_profile
import pretraining_workers
import training_workers

from bert_tf.data.features import ENCODER_INPUTS
from bert_tf.models.config import EncoderConfig
from tests.fake_batches import fake_batch

_STEPS = 5


def profile(step, batch, folder):
    """Returns {op type: milliseconds a step}, summed over threads."""
    for _ in range(3):
        step(batch)
    times = collections.Counter()
    for plane in kernel_profile.record(lambda: step(batch), _STEPS, pathlib.Path(folder)).planes:
        for line in plane.lines:
            for event in line.events:
                # An op's event is called "name:Type"; the others are the runtime's own, such as "Executor::Process".
                name, _, kind = plane.event_metadata[event.metadata_id].name.rpartition(":")
                if name and not name.endswith(":") and kind.isidentifier() and plane.name.startswith("/host:CPU"):
                    times[kind] += event.duration_ps / 1e9 / _STEPS
    return times


def main():
    path, precision, batch_size, length = [*sys.argv[1:], *["mixed_bfloat16", "32", "64"][len(sys.argv) - 2 :]]
    pretrains = os.path.isfile(path)
    targets = pretraining_workers.TARGETS if pretrains else ("label_ids", "is_real_example")
    make = (pretraining_workers if pretrains else training_workers).bert_tf_step
    vocab_size = EncoderConfig.load(path).vocab_size
    batch = fake_batch((*ENCODER_INPUTS, *targets), int(batch_size), int(length), vocab_size, max_predictions=20)
    with tempfile.TemporaryDirectory() as folder:
        times = profile(make(path, precision), batch, folder)
    for kind, milliseconds in times.most_common(15):
        print(f"{milliseconds / times.total():6.1%} {milliseconds:8.2f} ms  {kind}")


if __name__ == "__main__":
    main()
