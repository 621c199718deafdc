"""Distillation against torch, by a committed golden: every loss, and the gradients of their sum."""

import pytest
import tensorflow as tf
from safetensors.numpy import load_file

from bert_tf.checkpoints import heads
from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.checkpoints.names import family_mappings
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.models.config import EncoderConfig
from bert_tf.models.distillation_model import DistillationModel
from bert_tf.pretraining.objectives.distillation import DistillationTask
from bert_tf.pretraining.objectives.distillation_losses import COMPARISONS, required_outputs
from bert_tf.tasks.teacher import Teacher
from tests import parity

GOLDEN = parity.GOLDENS / "distillation"
TOLERANCE = 1e-5
WEIGHTS = {
    "soft_targets": 5.0,
    "masked_lm": 2.0,
    "hidden": 3.0,
    "attention": 7.0,
    "query_relations": 11.0,
    "key_relations": 13.0,
    "value_relations": 17.0,
}
FEATURES = ("input_ids", "input_mask", "segment_ids", "masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
MAP = "cls/distillation/hidden"


def _teacher():
    config = EncoderConfig.load(GOLDEN / "teacher")
    model = DistillationModel(config, required_outputs(COMPARISONS), trainable=False)
    return Teacher(open_checkpoint(GOLDEN / "teacher"), config, model, (heads.POOLER,), FEATURES[:4], 3)


@pytest.fixture(scope="module")
def taught():
    """The task, the model and the golden's arrays."""
    task = DistillationTask(EncoderConfig.load(GOLDEN / "student"), _teacher(), WEIGHTS, 2.5, relation_heads=4)
    model, expected = task.build_model(), load_file(GOLDEN / "expected.safetensors")
    assign_weights(GOLDEN / "student", model.variables, (heads.POOLER, f"{MAP}/.*"))
    own = {variable.path: variable for variable in model.variables}
    own[f"{MAP}/kernel"].assign(expected["map.weight"].T)
    own[f"{MAP}/bias"].assign(expected["map.bias"])
    return task, model, expected


def test_losses(taught):
    task, model, expected = taught
    batch = {name: tf.constant(expected[name]) for name in FEATURES}
    outputs = model({name: batch[name] for name in task.features})
    kept = {name: value.numpy() for name, value in task.reduce_outputs(outputs, batch).items()}
    scores, parts = task.metrics(kept), task.loss_parts(outputs, batch, task.loss_normalizers(batch))
    assert set(parts) == {f"{name}_loss" for name in WEIGHTS} and set(scores) == set(task.metric_names)
    for name in WEIGHTS:
        true = pytest.approx(float(expected[name]), rel=TOLERANCE)
        assert scores[f"{name}_loss"] == true and float(parts[f"{name}_loss"]) == true, name
    total = sum(weight * float(expected[name]) for name, weight in WEIGHTS.items())
    assert scores["loss"] == pytest.approx(total, rel=TOLERANCE)


@pytest.mark.slow
def test_gradients(taught):
    task, model, expected = taught
    batch = {name: tf.constant(expected[name]) for name in FEATURES}
    with tf.GradientTape() as tape:
        outputs = model({name: batch[name] for name in task.features}, training=True)
        loss = task.loss(outputs, batch, task.loss_normalizers(batch))
    variables = model.trainable_variables
    found = tape.gradient(loss, [v.value for v in variables])
    found = {v.path: tf.convert_to_tensor(g).numpy() for v, g in zip(variables, found, strict=True)}
    assert len(found) == 5 + 16 * 2 + 5 + 2
    parity.check_gradients(found, expected, _theirs, TOLERANCE)


def _theirs(path):
    if path.startswith(MAP):
        return f"map.{'weight' if path.endswith('kernel') else 'bias'}", path.endswith("kernel")
    dialect = family_mappings.hugging_face()
    return dialect.from_ours(path), dialect.transposed(path)


@pytest.mark.slow
def test_torch_makes_the_same_golden_again(tmp_path):
    parity.run_torch("torch_distillation.py", tmp_path)
    files = ("teacher/model.safetensors", "student/model.safetensors", "expected.safetensors")
    parity.check_same(tmp_path, [f"distillation/{file}" for file in files])
