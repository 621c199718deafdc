"""One training step: clipping, accumulation, XLA, float16."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.training.adamw import AdamW
from bert_tf.training.lamb import Lamb
from bert_tf.training.loss_spike_guard import GuardConfig
from bert_tf.training.replicas import build_graphs
from bert_tf.training.schedules import WarmupLinearDecay
from bert_tf.training.step import StepConfig, TrainStep
from tests import tiny
from tests.training.adamw_test import make_variables

TASK = ClassificationTask(tiny.config(), 2)
SHALLOW = tiny.shallow(ClassificationTask)(tiny.config(), 2)


def _make(config=StepConfig(), task=TASK, seed=0):  # noqa: B008  (frozen)
    keras.utils.set_random_seed(seed)
    model = task.build_model()
    optimizer = AdamW(WarmupLinearDecay(1e-3, 40, 4))
    optimizer.build(model.trainable_variables)
    return TrainStep(task, model, optimizer, config)


def _losses(step, steps=20, examples=None):
    examples = examples or tiny.tokenized(64)
    return [float(step(batch)["loss"]) for batch in tiny.batches(examples, 16, steps)]


def _weights(step):
    return {v.path: v.numpy() for v in step.model.variables}


@pytest.fixture(scope="module")
def plain():
    """Losses and weights of 20 ordinary steps."""
    step = _make()
    return _losses(step), _weights(step)


def _assert_equal_run(step, plain, tolerance):
    np.testing.assert_allclose(_losses(step), plain[0], rtol=0, atol=tolerance)
    weights = _weights(step)
    for path, value in plain[1].items():
        np.testing.assert_allclose(weights[path], value, rtol=0, atol=1e-4, err_msg=path)


def test_the_loss_falls(plain):
    assert plain[0][-1] < 0.7 * plain[0][0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "tolerance"), [("float32", 1e-5), ("mixed_bfloat16", 0.02), ("mixed_float16", 2e-3)]
)
def test_xla_on_is_xla_off_for_fifty_steps(precision, tolerance):
    def losses(use_xla):
        keras.config.set_dtype_policy(precision)
        try:
            step = _make(StepConfig(use_xla=use_xla, scale_loss=precision == "mixed_float16"))
        finally:
            keras.config.set_dtype_policy("float32")
        return _losses(step, 50, tiny.tokenized(160))

    np.testing.assert_allclose(losses(True), losses(False), rtol=0, atol=tolerance)


@pytest.mark.parametrize("config", [{}, {"accumulation": 2, "scale_loss": True}], ids=str)
def test_with_xla_no_operation_of_a_step_is_outside_its_program(config):
    step = _make(StepConfig(use_xla=True, guard=GuardConfig(), **config), SHALLOW)
    (batch,) = tiny.batches(tiny.tokenized(16), 16)
    graph = step._graph_of(batch).get_concrete_function(batch)
    assert graph.function_def.attr["_XlaMustCompile"].b
    branches = [node.op for node in graph.graph.as_graph_def().node if node.op in ("If", "StatelessIf")]
    assert not branches  # a GPU waits for the host at a branch


@pytest.mark.parametrize("kind", [AdamW, Lamb])
def test_a_skipped_update_of_a_program_changes_no_bit(kind):
    variables, optimizer = make_variables(), kind(0.1)
    optimizer.build(variables)

    @tf.function(jit_compile=True)
    def program(gradients, when):
        optimizer.apply_in_program(gradients, variables, when)

    def state():
        return [v.numpy() for v in [*variables, *optimizer.slots(variables).values(), optimizer.iterations]]

    ones = [tf.ones(v.shape) for v in variables]
    program(ones, tf.constant(True))
    before = state()
    program([np.nan * ones[0], *ones[1:]], tf.constant(False))
    assert all(map(np.array_equal, before, state()))
    program(ones, tf.constant(True))
    assert not any(map(np.array_equal, before, state()))


@pytest.mark.slow
def test_two_half_batches_accumulated_are_one_and_their_width_may_change(plain):
    step = _make(StepConfig(accumulation=2))
    _assert_equal_run(step, plain, 1e-6)
    for width in (16, 24, 16, 32):
        (batch,) = tiny.batches(tiny.tokenized(16), 16, width=width)
        assert np.isfinite(float(step(batch)["loss"]))


@pytest.mark.parametrize("accumulation", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_packed_examples_give_the_losses_of_padded_ones(plain, accumulation):
    _assert_equal_run(_make(StepConfig(pack_examples=True, accumulation=accumulation)), plain, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [tiny.MODERNBERT, tiny.DEBERTA, tiny.BIASED, tiny.NOMIC, tiny.GTE],
    ids=["modern", "deberta", "biased", "nomic", "gte"],
)  # fmt: skip
def test_packed_examples_of_families_with_relative_positions_give_the_losses_of_padded_ones(changes):
    task = ClassificationTask(tiny.config(**changes), 2)
    plain, packed = (_make(StepConfig(pack_examples=packs), task) for packs in (False, True))
    losses = _losses(plain)
    assert losses[-1] < 0.7 * losses[0]
    _assert_equal_run(packed, (losses, _weights(plain)), 1e-5)


@pytest.mark.slow
def test_dropout_of_packed_examples_is_a_function_of_the_seed():
    task = ClassificationTask(tiny.config(dropout=0.1), 2)
    packed, padded = (_make(StepConfig(pack_examples=packs), task) for packs in (True, False))
    start = [v.numpy() for v in _moving(packed)]
    losses = _losses(packed, 6)
    for variable, value in zip(_moving(packed), start, strict=True):
        variable.assign(value)
    assert _losses(packed, 6) == losses
    assert np.abs(np.subtract(losses, _losses(padded, 6))).max() > 1e-4  # other masks, so packed they were


def _moving(step):
    """Returns all that a step changes: weights, the optimizer's slots, the count of steps."""
    slots = step.optimizer.slots(step.model.trainable_variables)
    return [*step.model.variables, *slots.values(), step.optimizer.iterations]


@pytest.mark.slow
def test_half_batches_with_unequal_numbers_of_real_examples_are_one():
    (batch,) = tiny.batches(tiny.tokenized(8), 8)
    batch["is_real_example"] = tf.constant([1, 1, 1, 1, 1, 0, 0, 0], tf.float32)
    results, weights = [], []
    for parts in (1, 2, 4):  # with 4, one part has no real example at all
        step = _make(StepConfig(accumulation=parts))
        results.append({name: float(value) for name, value in step(batch).items()})
        step(batch)  # the first step of a warm-up has rate 0
        weights.append(_weights(step)["bert/encoder/layer_0/intermediate/dense/kernel"])
    for result, weight in zip(results[1:], weights[1:], strict=True):
        assert result == pytest.approx(results[0], abs=1e-6)
        np.testing.assert_allclose(weight, weights[0], rtol=0, atol=1e-6)


def test_gradients_are_clipped_by_their_global_norm():
    """Adam hides the size of a gradient, so it is read where it arrives: adam_m = (1 - b1) x gradient after a step."""
    (batch,) = tiny.batches(tiny.tokenized(16), 16)
    moments, norms = {}, {}
    for clip in (0.0, 0.5):
        step = _make(StepConfig(clip_norm=clip), SHALLOW)
        norms[clip] = float(step(batch)["gradient_norm"])
        slots = step.optimizer.slots(step.model.trainable_variables)
        moments[clip] = {n: s.numpy() for n, s in slots.items() if n.endswith("/adam_m")}
    gradients = {name: moment / 0.1 for name, moment in moments[0.0].items()}
    norm = np.sqrt(sum((g.astype(np.float64) ** 2).sum() for g in gradients.values()))
    assert norms[0.0] == norms[0.5] == pytest.approx(norm, rel=1e-5)  # what is reported is the norm before clipping
    assert norm > 0.5
    for name, moment in moments[0.5].items():
        np.testing.assert_allclose(moment, 0.1 * gradients[name] * 0.5 / norm, rtol=1e-4, atol=1e-9)


@pytest.mark.slow
def test_small_gradients_are_left_alone_and_with_a_norm_of_0_all():
    (batch,) = tiny.batches(tiny.tokenized(16), 16)
    one, other = (_make(StepConfig(clip_norm=clip)) for clip in (1e3, 0.0))
    assert float(one(batch)["gradient_norm"]) < 1e3
    other(batch)
    slots = [s.optimizer.slots(s.model.trainable_variables)["bert/pooler/dense/kernel/adam_m"] for s in (one, other)]
    assert (slots[0].numpy() == slots[1].numpy()).all() and slots[0].numpy().any()


@pytest.mark.slow
def test_dropout_is_a_function_of_seed_and_step():
    task = ClassificationTask(tiny.config(dropout=0.3), 2)
    (batch,) = tiny.batches(tiny.tokenized(16), 16)
    losses = [[float(step(batch)["loss"]) for _ in range(2)] for step in (
        _make(StepConfig(seed=1), task), _make(StepConfig(seed=1), task), _make(StepConfig(seed=2), task))]  # fmt: skip
    assert losses[0] == losses[1] and losses[0] != losses[2]
    assert losses[0][0] != losses[0][1]  # the rate was 0: only the masks changed


@pytest.mark.slow
@pytest.mark.parametrize("use_xla", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_float16_skips_an_overflow_halves_the_scale_and_goes_on(use_xla):
    keras.config.set_dtype_policy("mixed_float16")
    try:
        step = _make(StepConfig(scale_loss=True, use_xla=use_xla))
    finally:
        keras.config.set_dtype_policy("float32")
    (batch,) = tiny.batches(tiny.tokenized(16), 16)
    step.loss_scale.assign(2.0**60)
    step.finite_steps.assign(7)
    before = _weights(step)
    result = step(batch)
    assert float(result["skipped"]) == 1 and np.isfinite(float(result["loss"]))
    assert float(step.loss_scale) == 2.0**59 and int(step.finite_steps) == 0
    assert int(step.optimizer.iterations.numpy()) == 0
    assert all((value == before[path]).all() for path, value in _weights(step).items())
    moments = step.optimizer.slots(step.model.trainable_variables)
    assert not any(m.numpy().any() for m in moments.values())

    step.loss_scale.assign(2.0**10)
    losses = [step(batch) for _ in range(20)]
    assert not any(float(result["skipped"]) for result in losses)
    assert int(step.finite_steps) == 20 and float(step.loss_scale) == 2.0**10
    assert float(losses[-1]["loss"]) < 0.8 * float(losses[0]["loss"])

    step.finite_steps.assign(1999)
    step(batch)
    assert float(step.loss_scale) == 2.0**11 and int(step.finite_steps) == 0


def test_one_graph_serves_all_sizes():
    traced = []
    double = build_graphs(lambda batch: traced.append(batch["x"].shape) or batch["x"] * 2)
    for shape in ((2, 8), (2, 16), (3, 8), (2, 8)):
        assert double({"x": tf.ones(shape)})({"x": tf.ones(shape)}).shape == shape
    assert len(traced) == 1 and traced[0].as_list() == [None, None]
