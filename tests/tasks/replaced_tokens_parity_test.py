"""Replaced-token detection against torch Transformers' ElectraForMaskedLM and ElectraForPreTraining: one step."""

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file

from bert_tf.checkpoints import name_maps
from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.models.config import EncoderConfig
from bert_tf.pretraining.objectives.replaced_tokens import ReplacedTokensTask, add_unmasked_ids, to_electra_config
from tests import parity

GOLDEN = parity.GOLDENS / "replaced_tokens"
FILES = ("model.safetensors", "generator/model.safetensors", "expected.safetensors")
TOLERANCE = 1e-5
NAMES, OURS = name_maps.hugging_face("electra"), "generator/"


@pytest.fixture(scope="module")
def step():
    """The task, its model with torch's weights, the batch, the outputs, the loss and its gradients by path."""
    config = EncoderConfig.load(GOLDEN)
    assert to_electra_config(config) == config
    task = ReplacedTokensTask(config, EncoderConfig.load(GOLDEN / "generator"))
    model = task.build_model()
    report = assign_weights(GOLDEN, model.variables, ["generator/.*"])
    there = load_file(GOLDEN / "generator" / "model.safetensors")
    arrays = {f"{OURS}{NAMES.to_ours(name)}": array.astype(np.float32) for name, array in there.items()}
    assert report.excused_missing == [v.path for v in model.variables if v.path in arrays]
    assert len(report.loaded) + len(arrays) == len(model.variables)
    for variable in model.variables:
        if variable.path in arrays:
            array = arrays[variable.path]
            variable.assign(array.T if NAMES.transposed(variable.path.removeprefix(OURS)) else array)
    expected = load_file(GOLDEN / "expected.safetensors")
    batch = add_unmasked_ids({name: tf.constant(expected[name]) for name in expected if expected[name].ndim == 2
                               and not name.startswith(("gradient/", "sampled"))})  # fmt: skip
    with tf.GradientTape() as tape:
        outputs = model({name: batch[name] for name in task.features}, training=True)
        loss = task.loss(outputs, batch, task.loss_normalizers(batch))
    found = tape.gradient(loss, [v.value for v in model.trainable_variables])
    gradients = {v.path: tf.convert_to_tensor(g).numpy() for v, g in zip(model.variables, found, strict=True)}
    return task, batch, outputs, float(loss), gradients, expected


def test_the_same_pieces_are_sampled(step):
    _, batch, outputs, _, _, expected = step
    replaced, real = np.zeros(batch["input_ids"].shape, np.int32), expected["masked_lm_weights"] > 0
    places = real.nonzero()[0], expected["masked_lm_positions"][real]
    replaced[places] = (expected["sampled"] != expected["masked_lm_ids"])[real]
    assert 0 < replaced.sum() < real.sum()  # one was guessed right
    np.testing.assert_array_equal(outputs["replaced"], replaced)


def test_losses(step):
    task, batch, outputs, loss, _, expected = step
    parts = task.loss_parts(outputs, batch, task.loss_normalizers(batch))
    scores = task.metrics({name: value.numpy() for name, value in task.reduce_outputs(outputs, batch).items()})
    for name in ("masked_lm_loss", "replaced_loss"):
        assert float(parts[name]) == pytest.approx(float(expected[name]), rel=TOLERANCE)
        assert scores[name] == pytest.approx(float(expected[name]), rel=TOLERANCE)
    whole = float(expected["masked_lm_loss"] + 50 * expected["replaced_loss"])
    assert loss == pytest.approx(whole, rel=TOLERANCE) and scores["loss"] == pytest.approx(whole, rel=TOLERANCE)


def test_gradients(step):
    *_, gradients, expected = step
    parity.check_gradients(gradients, expected, _theirs, TOLERANCE)


def _theirs(path):
    own = path.removeprefix(OURS)
    return f"{'generator.' if own != path else ''}{NAMES.from_ours(own)}", NAMES.transposed(own)


@pytest.mark.slow
def test_torch_makes_the_same_golden_again(tmp_path):
    parity.run_torch("torch_replaced_tokens.py", tmp_path)
    parity.check_same(tmp_path, [f"replaced_tokens/{file}" for file in FILES])
