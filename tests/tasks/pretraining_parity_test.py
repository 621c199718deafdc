"""Pretraining against torch Transformers' models for it: one step by committed goldens, and fifty steps of BERT's."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file

from bert_tf.checkpoints import name_maps
from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.models.config import EncoderConfig
from bert_tf.pretraining.objectives.base import PretrainingTask
from bert_tf.training.learning_rate import WarmupLinearDecay
from bert_tf.training.optimizers import AdamW
from bert_tf.training.step import StepConfig, TrainStep
from tests import parity
from tests.parity import GOLDENS

GOLDEN = GOLDENS / "pretraining"
# Folder of the golden -> sentence objective, and how many variables: ALBERT's blocks are one, and its table is narrow.
CASES = {"pretraining": ("nsp", 5 + 16 * 2 + 2 + 5 + 2), "pretraining_albert": ("sop", 5 + 2 + 16 + 2 + 5 + 2)}
TOLERANCE = 1e-5
FEATURES = (
    "input_ids",
    "input_mask",
    "segment_ids",
    "masked_lm_positions",
    "masked_lm_ids",
    "masked_lm_weights",
    "next_sentence_labels",
)


def _task_and_model(case="pretraining"):
    sentence_objective, number = CASES[case]
    task = PretrainingTask(EncoderConfig.load(GOLDENS / case), sentence_objective)
    model = task.build_model()
    report = assign_weights(GOLDENS / case, model.variables, family=task.config.model_type)
    assert len(report.loaded) == len(model.variables) == len(model.trainable_variables) == number
    return task, model


def _expected(case="pretraining"):
    return load_file(GOLDENS / case / "expected.safetensors")


def _gradients(task, model, batch):
    with tf.GradientTape() as tape:
        outputs = model({name: batch[name] for name in task.features}, training=True)
        loss = task.loss(outputs, batch, task.loss_normalizers(batch))
    found = tape.gradient(loss, [v.value for v in model.trainable_variables])
    return {v.path: tf.convert_to_tensor(g).numpy() for v, g in zip(model.trainable_variables, found, strict=True)}


@pytest.mark.parametrize("case", CASES)
def test_one_step_losses(case):
    task, model = _task_and_model(case)
    expected = _expected(case)
    batch = {name: expected[name] for name in FEATURES}
    outputs = model({name: batch[name] for name in task.features})
    kept = {name: value.numpy() for name, value in task.reduce_outputs(outputs, batch).items()}
    sums, scores = {name: value.sum() for name, value in kept.items()}, task.metrics(kept)
    assert sums["masked_lm_weights"] == batch["masked_lm_weights"].sum() and sums["next_sentence_weights"] == 4
    for name in ("masked_lm_loss", "next_sentence_loss"):
        assert scores[name] == pytest.approx(float(expected[name]), rel=TOLERANCE)
    loss = float(task.loss(outputs, batch, task.loss_normalizers(batch)))
    assert loss == pytest.approx(float(expected["masked_lm_loss"] + expected["next_sentence_loss"]), rel=TOLERANCE)


@pytest.mark.parametrize("case", CASES)
def test_one_step_gradients(case):
    task, model = _task_and_model(case)
    expected, name_map = _expected(case), name_maps.hugging_face(task.config.model_type)
    gradients = _gradients(task, model, {name: expected[name] for name in FEATURES})
    parity.check_gradients(
        gradients, expected, lambda path: (name_map.from_ours(path), name_map.transposed(path)), TOLERANCE
    )


def _batches(steps):
    """Returns batches as the golden's, {name: [steps, 16, ...]}: its rows with other pieces, and other labels."""
    rng, golden = np.random.default_rng(0), _expected()
    batches = {name: np.tile(golden[name], (steps, 4) + (1,) * (golden[name].ndim - 1)) for name in FEATURES}
    for name, mask in (("input_ids", batches["input_mask"]), ("masked_lm_ids", batches["masked_lm_weights"] > 0)):
        few = rng.integers(1, 40, mask.shape)  # so few kinds that there is something to learn
        batches[name] = (few * mask).astype(np.int32)
    batches["next_sentence_labels"] = rng.integers(0, 2, batches["next_sentence_labels"].shape).astype(np.int32)
    return batches


@pytest.mark.slow
def test_torch_makes_the_same_golden_again(tmp_path):
    parity.run_torch("torch_pretraining.py", "make", tmp_path)
    files = itertools.product(CASES, ("model.safetensors", "expected.safetensors"))
    parity.check_same(tmp_path, ["/".join(path) for path in files])


@pytest.mark.slow
def test_fifty_steps(tmp_path):
    steps, peak, warm_up = 50, 5e-3, 5
    batches = _batches(steps)
    np.savez(tmp_path / "batches.npz", **batches, learning_rate=peak, num_warmup_steps=warm_up)
    parity.run_torch("torch_pretraining.py", "train", GOLDENS, tmp_path / "batches.npz", tmp_path / "torch.npz")
    true = np.load(tmp_path / "torch.npz")["losses"]
    task, model = _task_and_model()
    optimizer = AdamW(WarmupLinearDecay(peak, steps, warm_up))
    optimizer.build(model.trainable_variables)
    step = TrainStep(task, model, optimizer, StepConfig())
    ours = [
        float(step({name: tf.constant(values[number]) for name, values in batches.items()})["loss"])
        for number in range(steps)
    ]
    print(f"from {ours[0]:.4f} to {ours[-1]:.4f}, largest difference {np.abs(ours - true).max():.2e}")
    assert ours[-1] < 0.8 * ours[0]
    np.testing.assert_allclose(ours, true, atol=1e-3, rtol=0)
