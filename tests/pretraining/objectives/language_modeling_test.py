"""The pretraining task: losses and scores by hand and by torch, packed rows, left to right, and that it learns."""

import dataclasses
import itertools
from collections import Counter

import keras
import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file

from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.checkpoints.names import family_mappings
from bert_tf.models.config import EncoderConfig
from bert_tf.pretraining.objectives.language_modeling import PretrainingTask
from bert_tf.pretraining.objectives.left_to_right import next_tokens
from bert_tf.pretraining.packing import pack_examples
from bert_tf.training.adamw import AdamW
from bert_tf.training.schedules import WarmupLinearDecay
from bert_tf.training.step import StepConfig, TrainStep
from tests import parity, tiny
from tests.fake_batches import fake_batch
from tests.harness import randomize
from tests.parity import GOLDENS

CONFIG = tiny.config()
V = CONFIG.vocab_size
LABELS = ("masked_lm_ids", "masked_lm_weights", "next_sentence_labels")
UNPACKED = ("input_ids", "input_mask", "segment_ids", "masked_lm_positions", *LABELS)


def _batch(names=UNPACKED, **arguments):
    return fake_batch(names, vocab_size=V, **arguments)


def _model(task, seed=0):
    keras.utils.set_random_seed(seed)
    model = task.build_model()
    randomize(model, seed)
    return model


def _outputs(task, model, batch):
    return model({name: batch[name] for name in task.features})


def _by_hand(logits, labels):
    """Returns (loss, whether right) of every place."""
    z = logits - logits.max(-1, keepdims=True)
    losses = np.log(np.exp(z).sum(-1)) - np.take_along_axis(z, labels[..., None], -1)[..., 0]
    return losses, logits.argmax(-1) == labels


def _numpy(kept):
    return {name: value.numpy() for name, value in kept.items()}


def _sums(kept):
    """Returns what is kept of the rows, summed over them; not the labels."""
    return {name: float(value.sum()) for name, value in _numpy(kept).items() if not name.endswith("_labels")}


def test_sums_loss_and_scores_by_hand():
    task, batch = PretrainingTask(CONFIG), _batch()
    rng = np.random.default_rng(0)
    logits = {"mlm_logits": rng.standard_normal((4, 3, V)), "nsp_logits": rng.standard_normal((4, 1, 2))}
    logits = {name: values.astype(np.float32) for name, values in logits.items()}
    losses, right = _by_hand(logits["mlm_logits"], batch["masked_lm_ids"])
    weights = batch["masked_lm_weights"]
    right[0, 0] = True
    logits["mlm_logits"][0, 0, batch["masked_lm_ids"][0, 0]] = 9
    losses[0, 0] = _by_hand(logits["mlm_logits"][0, :1], batch["masked_lm_ids"][0, :1])[0][0]
    sentence_losses, sentence_right = _by_hand(logits["nsp_logits"], batch["next_sentence_labels"])
    expected = {
        "masked_lm_loss": (losses * weights).sum(),
        "masked_lm_correct": (right * weights).sum(),
        "masked_lm_weights": weights.sum(),
        "next_sentence_loss": sentence_losses.sum(),
        "next_sentence_correct": sentence_right.sum(),
        "next_sentence_weights": 4,
    }
    kept = task.reduce_outputs(logits, batch)
    labels = {part: kept.pop(f"{part}_labels").numpy() for part in ("masked_lm", "next_sentence")}
    assert all(value.dtype == tf.float32 and value.shape == (4,) for value in kept.values())
    assert (labels["masked_lm"] == np.where(weights > 0, batch["masked_lm_ids"] + 1, 0)).all()
    assert (labels["next_sentence"] == batch["next_sentence_labels"] + 1).all()
    np.testing.assert_allclose(kept["masked_lm_loss"], (losses * weights).sum(1), rtol=1e-5)
    assert _sums(kept) == pytest.approx(expected, rel=1e-5)
    denominators = task.loss_normalizers(batch)
    assert {name: float(value) for name, value in denominators.items()} == {
        "masked_lm_weights": weights.sum(),
        "next_sentence_weights": 4,
    }
    scores = task.metrics(_numpy(kept) | {f"{part}_labels": each for part, each in labels.items()})
    ones = batch["next_sentence_labels"].mean()
    commonest = max(Counter(batch["masked_lm_ids"][weights > 0].tolist()).values())
    assert tuple(scores) == task.metric_names
    assert scores == pytest.approx(
        {
            "masked_lm_accuracy": expected["masked_lm_correct"] / weights.sum(),
            "masked_lm_loss": expected["masked_lm_loss"] / weights.sum(),
            "next_sentence_accuracy": sentence_right.mean(),
            "next_sentence_loss": sentence_losses.mean(),
            "loss": expected["masked_lm_loss"] / weights.sum() + sentence_losses.mean(),
            "masked_lm_perplexity": np.exp(expected["masked_lm_loss"] / weights.sum()),
            "masked_lm_accuracy_majority_baseline": commonest / weights.sum(),
            "next_sentence_accuracy_majority_baseline": max(ones, 1 - ones),
        },
        rel=1e-5,
    )
    assert float(task.loss(logits, batch, denominators)) == pytest.approx(scores["loss"], rel=1e-6)
    assert scores["masked_lm_accuracy"] > 0


def test_masked_lm_alone():
    task = PretrainingTask(CONFIG, "none")
    assert task.features == ("input_ids", "input_mask", "segment_ids", "masked_lm_positions")
    batch = _batch(tuple(name for name in UNPACKED if name != "next_sentence_labels"))
    outputs = _outputs(task, _model(task), batch)
    kept = task.reduce_outputs(outputs, batch)
    assert set(kept) == {"masked_lm_loss", "masked_lm_correct", "masked_lm_weights", "masked_lm_labels"}
    scores = task.metrics(_numpy(kept))
    ours = {"masked_lm_perplexity", "masked_lm_accuracy_majority_baseline"}
    assert set(scores) == {"masked_lm_accuracy", "masked_lm_loss", "loss"} | ours
    assert float(task.loss(outputs, batch, task.loss_normalizers(batch))) == pytest.approx(scores["loss"], rel=1e-6)
    assert scores["loss"] == scores["masked_lm_loss"] > 0


def test_what_counts_for_nothing():
    task, batch = PretrainingTask(CONFIG), _batch()
    model = _model(task)
    filled = batch | {"is_real_example": np.array([1, 1, 0, 1], np.float32)}
    without = {name: np.delete(values, 2, 0) for name, values in batch.items()}
    sums = [_sums(task.reduce_outputs(_outputs(task, model, b), b)) for b in (filled, without)]
    assert sums[0] == pytest.approx(sums[1], rel=1e-5)
    nothing = batch | {"masked_lm_weights": np.zeros_like(batch["masked_lm_weights"])}
    outputs = _outputs(task, model, nothing)
    kept = task.reduce_outputs(outputs, nothing)
    loss = float(task.loss(outputs, nothing, task.loss_normalizers(nothing)))
    assert loss == pytest.approx(_sums(kept)["next_sentence_loss"] / 4, rel=1e-6)
    scores = task.metrics(_numpy(kept))
    assert np.isnan([scores["masked_lm_loss"], scores["masked_lm_accuracy_majority_baseline"]]).all()


def test_the_losses_of_parts_add_up_over_the_denominators_of_the_whole():
    task, batch = PretrainingTask(CONFIG), _batch()
    model, whole = _model(task), task.loss_normalizers(batch)
    parts = [{name: values[rows] for name, values in batch.items()} for rows in (slice(0, 1), slice(1, 4))]
    losses = [float(task.loss(_outputs(task, model, part), part, whole)) for part in (*parts, batch)]
    assert losses[0] + losses[1] == pytest.approx(losses[2], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [{}, {"sentence_objective": "none"}])
def test_packed_rows_have_the_sums_of_their_examples(arguments):
    batch = _batch(batch_size=9, seq_length=12, seed=3)
    rows = pack_examples(
        batch | {"input_ids": batch["input_ids"] * batch["input_mask"]}, max_predictions=6, max_sentences=3
    )
    assert len(rows["input_ids"]) < 9
    alone, packed = PretrainingTask(CONFIG, **arguments), PretrainingTask(CONFIG, packed=True, **arguments)
    assert "sentence_ids" in packed.features
    assert ("next_sentence_positions" in packed.features) == (not arguments)
    model, other = _model(alone), packed.build_model()
    other.set_weights(model.get_weights())
    before = _sums(alone.reduce_outputs(_outputs(alone, model, batch), batch))
    assert _sums(packed.reduce_outputs(_outputs(packed, other, rows), rows)) == pytest.approx(before, rel=1e-5)
    assert {n: float(v) for n, v in packed.loss_normalizers(rows).items()} == {
        n: float(v) for n, v in alone.loss_normalizers(batch).items()
    }


def test_left_to_right_sees_nothing_of_what_it_foretells():
    task = PretrainingTask(dataclasses.replace(CONFIG, is_decoder=True), "none")
    batch = {name: values for name, values in _batch(seed=1).items() if not name.startswith("masked")}
    one = next_tokens(batch)
    other = next_tokens(batch | {"input_ids": np.where(np.arange(16) < 6, batch["input_ids"], 5)})
    model = _model(task)
    logits = [_outputs(task, model, b)["mlm_logits"].numpy() for b in (one, other)]
    np.testing.assert_allclose(logits[0][:, :6], logits[1][:, :6], rtol=1e-4, atol=1e-4)
    assert np.abs(logits[0][:, 6:] - logits[1][:, 6:]).max() > 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        {"sentence_objective": "sop", "packed": True},
        {},
        {"sentence_objective": "none"},
        {"sentence_objective": "none", "is_decoder": True, "packed": True},
    ],
    ids=str,
)
def test_a_tiny_model_learns(arguments):
    config = tiny.config(is_decoder=arguments.get("is_decoder", False))
    task = PretrainingTask(config, **{k: v for k, v in arguments.items() if k != "is_decoder"})
    batch = _batch(batch_size=8)
    if task.packed:
        batch = pack_examples(batch | {"input_ids": batch["input_ids"] * batch["input_mask"]}, 6, 3)
    batch = next_tokens(batch) if config.is_decoder else batch
    batch = {name: tf.constant(values) for name, values in batch.items()}
    keras.utils.set_random_seed(0)
    model = task.build_model()
    optimizer = AdamW(3e-3)
    optimizer.build(model.trainable_variables)
    step = TrainStep(task, model, optimizer, StepConfig())
    losses = [float(step(batch)["loss"]) for _ in range(30)]
    assert losses[0] > np.log(V) * 0.8
    assert losses[-1] < 0.4 * losses[0]


@pytest.mark.slow
@pytest.mark.parametrize("accumulation", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_step_gives_the_parts_of_a_loss_that_is_their_sum_by_weights(accumulation):
    task = tiny.shallow(PretrainingTask)(CONFIG)
    batch = {name: tf.constant(values) for name, values in _batch().items()}
    task.loss_weights = {"next_sentence_loss": 50.0, "masked_lm_loss": 1.0}
    model, optimizer = _model(task), AdamW(3e-3)
    outputs, denominators = _outputs(task, model, batch), task.loss_normalizers(batch)
    parts, loss = task.loss_parts(outputs, batch, denominators), task.loss(outputs, batch, denominators)
    expected = {name: float(value) for name, value in {**parts, "loss": loss}.items()}
    assert expected["loss"] == pytest.approx(50 * expected["next_sentence_loss"] + expected["masked_lm_loss"])
    optimizer.build(model.trainable_variables)
    results = TrainStep(task, model, optimizer, StepConfig(accumulation=accumulation))(batch)
    assert {name: float(results[name]) for name in expected} == pytest.approx(expected, rel=1e-5)


def test_its_own_head():
    assert PretrainingTask(CONFIG).head == ("cls/predictions/.*", "cls/seq_relationship/.*")
    assert PretrainingTask(CONFIG, "none").head == ("cls/predictions/.*",)
    assert PretrainingTask(CONFIG).uses_pooler and not PretrainingTask(CONFIG, "none").uses_pooler


def test_an_unknown_objective_is_refused():
    with pytest.raises(ValueError, match=r"must be one of \('nsp', 'sop', 'none'\); got 'mlm'\."):
        PretrainingTask(CONFIG, "mlm")


# === Parity: torch Transformers' models, one step by committed goldens and fifty steps of BERT's ===


GOLDEN = GOLDENS / "pretraining"
# Folder of the golden -> sentence objective, and how many variables: ALBERT's blocks are one, and its table is narrow.
GOLDEN_CASES = {"pretraining": ("nsp", 5 + 16 * 2 + 2 + 5 + 2), "pretraining_albert": ("sop", 5 + 2 + 16 + 2 + 5 + 2)}
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
    sentence_objective, number = GOLDEN_CASES[case]
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


@pytest.mark.parametrize("case", GOLDEN_CASES)
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


@pytest.mark.parametrize("case", GOLDEN_CASES)
def test_one_step_gradients(case):
    task, model = _task_and_model(case)
    expected, weight_mapping = _expected(case), family_mappings.hugging_face(task.config.model_type)
    gradients = _gradients(task, model, {name: expected[name] for name in FEATURES})
    parity.check_gradients(
        gradients, expected, lambda path: (weight_mapping.from_ours(path), weight_mapping.transposed(path)), TOLERANCE
    )


def _batches_of_torch(steps):
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
    files = itertools.product(GOLDEN_CASES, ("model.safetensors", "expected.safetensors"))
    parity.check_same(tmp_path, ["/".join(path) for path in files])


@pytest.mark.slow
def test_fifty_steps(tmp_path):
    steps, peak, warm_up = 50, 5e-3, 5
    batches = _batches_of_torch(steps)
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
