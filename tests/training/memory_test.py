"""The estimate of a step's memory: how it behaves, and against what real steps took."""

import dataclasses
import json
import os
import subprocess
import sys

import pytest

from bert_tf.models.config import EncoderConfig
from bert_tf.training.memory import StepShape, TeacherShape, estimate, largest_micro_batch

SMALL = EncoderConfig(vocab_size=8000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4,
                      intermediate_size=1024)  # fmt: skip
TAUGHT = TeacherShape(SMALL, 5_000_000, matrices=12)
STEP = StepShape(SMALL, 5_479_746, batch_size=64, max_seq_length=128, max_predictions=20)


def _changed(**changes):
    return estimate(dataclasses.replace(STEP, **changes))


def test_the_peak_is_the_sum_of_the_parts():
    parts = estimate(STEP)
    assert parts.peak == parts.weights + parts.optimizer + parts.gradients + parts.activations + parts.runtime
    assert parts.weights == 4 * STEP.parameters and parts.optimizer == 8 * STEP.parameters
    assert parts.gradients >= parts.weights


@pytest.mark.parametrize(
    "changes, less, more",
    [
        ({"batch_size": 128}, {}, {"activations"}),
        ({"batch_size": 128, "replicas": 2}, {}, {}),
        ({"accumulation": 4}, {"activations"}, {"gradients"}),
        ({"gradient_checkpointing": True}, {"activations"}, {}),
        ({"precision": "mixed_bfloat16"}, {"activations"}, {"weights"}),
        ({"max_seq_length": 256}, {}, {"activations"}),
        ({"max_predictions": 127}, {}, {"activations"}),  # left to right
        ({"trainable": 1000}, {"optimizer", "gradients"}, {}),  # frozen layers, adapters
        ({"rows_per_example": 4}, {}, {"activations"}),  # choices
        ({"config": dataclasses.replace(SMALL, hidden_dropout_prob=0.0)}, {"activations"}, {}),
        ({"teacher": TAUGHT}, {}, {"weights", "activations"}),
        ({"config": dataclasses.replace(SMALL, attention_probs_dropout_prob=0.0)}, {"activations"}, {}),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_what_changes_which_part(changes, less, more):
    before, after = dataclasses.asdict(estimate(STEP)), dataclasses.asdict(_changed(**changes))
    assert {name for name in before if after[name] < before[name]} == set(less)
    assert {name for name in before if after[name] > before[name]} == set(more)


def test_attention_grows_with_the_square_of_the_length():
    short, long = (_changed(max_seq_length=length).activations for length in (2048, 4096))
    assert 3.5 * short < long < 4 * short


def test_the_micro_batch_that_fits_is_the_largest_that_divides_the_share_of_a_replica():
    step = dataclasses.replace(STEP, batch_size=48, replicas=2)  # 24 rows each
    for rows in (24, 12, 8, 6, 4, 3, 2, 1):
        needed = estimate(step.with_micro_batch(rows)).peak
        assert step.with_micro_batch(rows).micro_batch == rows
        assert largest_micro_batch(step, needed) == rows
        assert largest_micro_batch(step, needed - 1) < rows
    assert largest_micro_batch(step, estimate(step.with_micro_batch(1)).peak - 1) == 0


_MEASURED = """
import json, math, sys
import keras, numpy as np, tensorflow as tf
from bert_tf.models.config import EncoderConfig
from bert_tf.models.distillation_model import DistillationModel
from bert_tf.pretraining.objectives.distillation_losses import count_relation_matrices, required_outputs
from bert_tf.pretraining.objectives.distillation import DistillationTask
from bert_tf.pretraining.objectives.language_modeling import PretrainingTask
from bert_tf.training.memory import StepShape, TeacherShape, estimate
from bert_tf.training.optimizers import OPTIMIZERS
from bert_tf.training.step import StepConfig, TrainStep

class Teacher:
    def __init__(self, config, losses):
        self.config, self.layer, heads = config, config.num_hidden_layers, config.num_attention_heads
        self.model = DistillationModel(config, required_outputs(losses), trainable=False)
        numbers = sum(math.prod(variable.shape) for variable in self.model.variables)
        self.shape = TeacherShape(config, numbers, count_relation_matrices(losses, heads, heads))

    def __call__(self, batch):
        return self.model({name: batch[name] for name in self.model.TAKES if name in batch}, training=False)

config, rows, length, predictions, precision, gradient_checkpointing, teacher, losses = json.loads(sys.argv[1])
keras.config.set_dtype_policy(precision)
config = EncoderConfig(**config)
teacher = teacher and Teacher(EncoderConfig(**teacher), losses)
if teacher:
    task = DistillationTask(config, teacher, dict.fromkeys(losses, 1.0), gradient_checkpointing=gradient_checkpointing)
    predictions *= "mlm_logits" in required_outputs(losses)
else:
    task = PretrainingTask(config, gradient_checkpointing=gradient_checkpointing)
model = task.build_model()
optimizer = OPTIMIZERS["adamw"](1e-4)
optimizer.build(model.trainable_variables)
step, rng = TrainStep(task, model, optimizer, StepConfig()), np.random.default_rng(0)
tokens, masks = (rows, length), (rows, max(predictions, 1))
batch = {
    "input_ids": rng.integers(0, config.vocab_size, tokens), "input_mask": np.ones(tokens),
    "segment_ids": np.zeros(tokens), "masked_lm_positions": rng.integers(0, length, masks),
    "masked_lm_ids": rng.integers(0, config.vocab_size, masks), "next_sentence_labels": np.zeros((rows, 1)),
}
batch = {name: tf.constant(values, tf.int32) for name, values in batch.items()}
for _ in range(2):
    float(step(batch | {"masked_lm_weights": tf.ones(masks)})["loss"])
with open("/proc/self/status") as file:
    peak = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
step = StepShape(config, model.count_params(), rows, length, predictions, 1, 1, precision, gradient_checkpointing,
                 teacher=teacher and teacher.shape)
print(json.dumps([estimate(step).peak, peak]))
"""
BASE = EncoderConfig(vocab_size=30522)
DECODING = dataclasses.replace(
    SMALL, num_hidden_layers=2, pos_att_type=("c2p", "p2c"), position_buckets=64, position_biased_input=False,
    enhanced_mask_decoder=True, conv_kernel_size=3,
)  # fmt: skip
TEACHER = EncoderConfig(vocab_size=8000, hidden_size=384, num_hidden_layers=6, num_attention_heads=8,
                        intermediate_size=1536)  # fmt: skip
RELATIONS = ("query_relations", "key_relations", "value_relations")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize(
    "config, rows, length, precision, gradient_checkpointing",
    [
        (dataclasses.replace(SMALL, num_hidden_layers=2), 16, 256, "float32", False),
        (SMALL, 64, 128, "float32", True),
        (SMALL, 64, 128, "mixed_bfloat16", False),
        (SMALL, 16, 512, "float32", False),
        (BASE, 4, 128, "float32", False),
        (BASE, 4, 128, "mixed_bfloat16", False),
        (DECODING, 32, 128, "float32", False),
    ],
)
def test_a_real_step_takes_what_is_estimated(config, rows, length, precision, gradient_checkpointing):
    _check_measured(config, rows, length, precision, gradient_checkpointing)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize(
    "rows, length, precision, losses",
    [
        (32, 128, "float32", RELATIONS),
        (32, 128, "mixed_bfloat16", ("soft_targets", "masked_lm", "hidden")),
    ],
)
def test_a_real_step_of_a_student_takes_what_is_estimated(rows, length, precision, losses):
    _check_measured(SMALL, rows, length, precision, False, TEACHER.to_dict(), losses)


def _check_measured(config, rows, length, precision, gradient_checkpointing, teacher=None, losses=()):
    case = json.dumps([config.to_dict(), rows, length, 20, precision, gradient_checkpointing, teacher, losses])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", _MEASURED, case]
    made = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[-2000:]
    estimated, measured = json.loads(made.stdout.splitlines()[-1])
    print(f"estimated {estimated / 2**20:.0f} MB, measured {measured / 2**20:.0f} MB")
    assert 0.85 * measured < estimated < 1.35 * measured
