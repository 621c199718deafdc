"""A loss that turns NaN or leaps: its step moves nothing and is counted, and a run goes back to a good checkpoint."""

import os

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.checkpoints.checkpoint_manager import CheckpointManager
from bert_tf.data import batch_order, dataset
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.training.loss_spike_guard import Guard, GuardConfig, Rollback, first_broken, order_seed
from bert_tf.training.optimizers import OPTIMIZERS
from bert_tf.training.run_config import RunConfig
from bert_tf.training.schedules import WarmupLinearDecay
from bert_tf.training.step import StepConfig, TrainStep
from bert_tf.training.trainer import Trainer
from tests import tiny
from tests.training.runs import EXAMPLES, Killed, assert_equal, batches, saved

TEXTS = ("training/settings", "training/unreported")


class Scaled(tiny.shallow(ClassificationTask)):
    """A task whose loss is multiplied by what the batch says."""

    def loss(self, outputs, batch, denominators):
        return super().loss(outputs, batch, denominators) * tf.reduce_max(batch["times"])


SCALED = Scaled(tiny.config(), 2)


def _batch(times):
    (batch,) = tiny.batches(tiny.tokenized(8), 8)
    return batch | {"times": tf.fill([8], float(times))}


def _make(config, optimizer="adamw", task=SCALED):
    keras.utils.set_random_seed(0)
    model = task.build_model()
    optimizer = OPTIMIZERS[optimizer](WarmupLinearDecay(1e-3, 40))
    optimizer.build(model.trainable_variables)
    return TrainStep(task, model, optimizer, config)


def _all(step):
    """Returns every number that a step can move but the guard's."""
    slots = step.optimizer.slots(step.model.trainable_variables)
    moved = {v.path: v for v in step.model.variables} | slots | {"iterations": step.optimizer.iterations}
    return {name: v.numpy() for name, v in (moved | {"scale": step.loss_scale}).items()}


@pytest.mark.parametrize(
    "optimizer", [pytest.param(name, marks=pytest.mark.slow if name == "lamb" else ()) for name in OPTIMIZERS]
)
def test_a_bad_batch_moves_nothing_and_is_counted(optimizer):
    step = _make(StepConfig(guard=GuardConfig(warmup=2)), optimizer)
    for _ in range(3):
        assert float(step(_batch(1))["skipped"]) == 0
    before, mean = _all(step), float(step.guard.mean_loss)
    for count, times in enumerate((np.nan, np.inf, 50, 1e30), 1):
        results = step(_batch(times))
        assert float(results["skipped"]) == 1 and float(results["skipped_in_a_row"]) == count
    assert_equal(_all(step), before)
    assert float(step.guard.mean_loss) == mean and int(step.guard.steps_seen) == 3
    results = step(_batch(1))
    assert float(results["skipped"]) == float(results["skipped_in_a_row"]) == 0
    assert int(step.guard.skipped_steps) == 4 and int(step.optimizer.iterations.numpy()) == 4


@pytest.mark.slow
def test_a_run_that_has_ended_with_a_skipped_step_stays_what_it_is(tmp_path):
    run = RunConfig(
        os.fspath(tmp_path), 8, 4, 0, 1e-3, save_checkpoints_steps=4, keep_optimizer=False,
        step=StepConfig(guard=GuardConfig()), rollback=Rollback(),
    )  # fmt: skip

    def scaled(start, rollbacks=0):
        for step, batch in enumerate(batches(run)(start), start + 1):
            yield batch | {"times": tf.fill([8], np.nan if step == 2 else 1.0)}

    for _ in range(2):  # made, and made again
        trainer = Trainer(SCALED, run)
        trainer.fit(scaled)
        assert trainer.global_step == 4 and int(saved(tmp_path, 4)["global_step"]) == 3
        assert (tmp_path / "checkpoint").read_text().startswith('model_checkpoint_path: "model.ckpt-4"')


@pytest.mark.slow
@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_guard_that_finds_nothing_changes_nothing_to_the_bit(accumulation):
    ends = []
    for guard in (None, GuardConfig()):
        step = _make(StepConfig(guard=guard, accumulation=accumulation))
        losses = [float(step(_batch(1 + i % 2))["loss"]) for i in range(6)]
        ends.append(_all(step) | {"losses": losses})
    assert_equal(*ends)


def test_without_a_guard_every_step_is_made():
    step = _make(StepConfig())
    results = step(_batch(np.nan))
    assert "skipped_in_a_row" not in results and float(results["skipped"]) == 0
    assert set(step.variables()) == {"loss_scale", "finite_steps"}
    assert any(np.isnan(value).any() for value in _all(step).values())


@pytest.mark.parametrize("loss, squares, can_mend, broken", [
    (1.0, [1.0, 2.0, 3.0], False, -1),
    (1.0, [1.0, np.inf, np.nan], False, 1),
    (1.0, [1.0, np.inf, np.nan], True, -1),  # the loss scale may be too large
    (1.0, [3e38, 3e38, 0.0], False, -2),  # the norm alone is infinite
    (np.nan, [np.nan] * 3, False, -2), (np.inf, [1.0] * 3, True, -2)])  # fmt: skip
def test_what_of_a_step_is_not_finite(loss, squares, can_mend, broken):
    squares = tf.constant(squares)
    norm = tf.sqrt(2 * tf.reduce_sum(squares))
    assert int(first_broken(tf.constant(loss), squares, norm, tf.constant(can_mend))) == broken


@pytest.mark.slow
@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("use_xla", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_step_says_what_of_its_numbers_is_not_finite(accumulation, use_xla):
    step = _make(StepConfig(accumulation=accumulation, use_xla=use_xla))
    weights = step.model.get_weights()

    def made(times):
        step.model.set_weights(weights)
        results = step(_batch(times))
        return float(results["loss"]), int(results["broken"])

    assert made(1)[1] == -1
    assert made(np.inf) == (np.inf, -2)
    loss, place = made(1e30)  # whose square float32 does not hold
    assert np.isfinite(loss) and step.model.trainable_variables[place].path == "bert/embeddings/word_embeddings"


def _run_without_rollback(folder, save_every=4, **changes):
    return RunConfig(os.fspath(folder), 8, 200, 2, 1e-3, save_checkpoints_steps=save_every, **changes)


def _fit_until_bad(run, bad, task=SCALED):
    """Returns the steps that the actions saw, and the message with which the run ended; `bad` are its NaN steps."""
    keras.utils.set_random_seed(0)
    seen = []

    def scaled(start):
        for step, batch in enumerate(batches(run)(start), start + 1):
            yield batch | {"times": tf.fill([8], np.nan if step in bad else 1.0)}

    with pytest.raises(ValueError) as error:
        Trainer(task, run).fit(scaled, callbacks=[lambda step, results, state: seen.append(step)])
    return seen, str(error.value)


def test_without_rollback_the_first_bad_step_ends_the_run_and_no_checkpoint_has_it(tmp_path):
    run = _run_without_rollback(tmp_path)
    assert run.report_steps == 4
    seen, message = _fit_until_bad(run, {6})  # a single one: later losses are NaN for what it left in the weights
    assert seen == [1, 2, 3, 4, 5, 6, 7]
    assert "a loss of nan in step 6 of 200, with a learning rate of 0.000975 and precision float32; lower " in message
    assert CheckpointManager(os.fspath(tmp_path)).steps() == [4]
    assert all(np.isfinite(value).all() for name, value in saved(tmp_path, 4).items() if name not in TEXTS)


@pytest.mark.slow
def test_a_checkpoint_out_of_turn_looks_first(tmp_path):
    seen, message = _fit_until_bad(_run_without_rollback(tmp_path, save_every=3), {2})
    assert seen == [1, 2] and " in step 2 of 200" in message and CheckpointManager(os.fspath(tmp_path)).steps() == []


@pytest.mark.slow
def test_where_the_first_step_is_bad_the_rate_is_not_blamed(tmp_path):
    seen, message = _fit_until_bad(_run_without_rollback(tmp_path), range(1, 9))
    assert seen == [] and "in step 1 of 200" in message and "lower `learning_rate`" not in message
    assert ", before the first update, so the learning rate is not the cause;" in message


@pytest.mark.slow
def test_in_float16_an_overflow_goes_on_and_a_loss_that_is_none_ends_the_run(tmp_path):
    keras.config.set_dtype_policy("mixed_float16")
    try:
        run = _run_without_rollback(tmp_path, step=StepConfig(scale_loss=True))
        seen, message = _fit_until_bad(run, {6}, Overflowing(tiny.config(), 2))
    finally:
        keras.config.set_dtype_policy("float32")
    assert seen == [1, 2, 3, 4, 5, 6, 7] and "a loss of nan in step 6 of 200" in message
    assert "precision mixed_float16; pass `precision=mixed_bfloat16` or `precision=float32`" in message
    assert float(saved(tmp_path, 4)["training/loss_scale"]) == 2.0**11


class Overflowing(Scaled):
    """A task whose gradients overflow at the first loss scales, 2 ** 15 to 2 ** 12, though its loss does not."""

    def loss(self, outputs, batch, denominators):
        @tf.custom_gradient
        def steep(values):
            return values, lambda up: tf.where(up >= 2.0**12, np.inf, up)

        return steep(super().loss(outputs, batch, denominators))


def test_what_leaps():
    guard = Guard(GuardConfig(factor=2.0, margin=1.0, memory=3, warmup=3))

    def leaps(loss):
        return bool(guard.is_bad(tf.constant(loss), tf.constant(True)))

    for seen, loss in enumerate((4.0, 5.0, 6.0)):
        assert not leaps(1e6) and int(guard.steps_seen) == seen  # during the warm-up nothing does
        guard.note(tf.constant(loss), tf.constant(False), tf.constant(True))
    assert float(guard.mean_loss) == pytest.approx(5.0)
    assert leaps(10.1) and not leaps(9.9)
    guard.note(tf.constant(8.0), tf.constant(False), tf.constant(True))
    assert float(guard.mean_loss) == pytest.approx(6.0)  # 5 + (8 - 5) / 3
    guard.mean_loss.assign(0.1)
    assert leaps(1.2) and not leaps(1.0)  # the margin: twice almost nothing is no leap
    assert bool(guard.is_bad(tf.constant(0.1), tf.constant(False)))


@pytest.mark.slow
def test_a_finite_loss_whose_gradients_are_not_finite_is_bad():
    step = _make(StepConfig(guard=GuardConfig()))  # in its warm-up no loss leaps
    before, results = _all(step), step(_batch(1e30))
    assert np.isfinite(float(results["loss"])) and float(results["skipped"]) == 1
    assert_equal(_all(step), before)


def test_leaps_can_be_turned_off():
    guard = Guard(GuardConfig(margin=np.inf, warmup=1))
    guard.note(tf.constant(1.0), tf.constant(False), tf.constant(True))
    losses = {1e30: False, np.inf: True, np.nan: True}
    assert {loss: bool(guard.is_bad(tf.constant(loss), tf.constant(True))) for loss in losses} == losses


@pytest.mark.slow
def test_in_float16_an_overflow_is_not_bad_until_the_scale_cannot_fall():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        step = _make(StepConfig(scale_loss=True, guard=GuardConfig()))
    finally:
        keras.config.set_dtype_policy("float32")
    step.loss_scale.assign(2.0**60)
    results = step(_batch(1))
    assert float(results["skipped"]) == 1 and int(step.guard.skipped_steps) == 0
    assert float(step.loss_scale) == 2.0**59
    step.loss_scale.assign(1.0)
    assert float(step(_batch(1e30))["skipped"]) == 1 and int(step.guard.skipped_steps) == 1


@pytest.mark.parametrize("make, values", [
    (GuardConfig, {"factor": 0.5}), (GuardConfig, {"warmup": 0}), (GuardConfig, {"margin": np.nan}),
    (Rollback, {"after": 0}), (Rollback, {"at_most": -1})])  # fmt: skip
def test_settings_that_cannot_be_are_refused(make, values):
    ((name, value),) = values.items()
    with pytest.raises(ValueError, match=rf"needs .*{name} >= .*; got .*'{name}': {value}"):
        make(**values)


def _run(folder, at_most=2):
    step = StepConfig(seed=3, guard=GuardConfig(warmup=3))
    return RunConfig(os.fspath(folder), 8, 16, 2, 1e-3, save_checkpoints_steps=4, keep_checkpoints=1, step=step,
                     rollback=Rollback(after=3, at_most=at_most), keep_optimizer=True)  # fmt: skip


def _fit(run, bad, kill_at=None):
    """Returns (step, loss, skipped) of every step made and seen; `bad` is {rollbacks: steps whose batch is NaN}.

    `kill_at` is how many steps are made before the end comes, or the name of a function of `CheckpointManager` within
    a rollback.
    """
    keras.utils.set_random_seed(0)
    made, begun = [], []
    task = Scaled(tiny.config(dropout=0.2), 2)

    def scaled(start, rollbacks):
        begun.append((start, rollbacks))
        order = batch_order.training_order(EXAMPLES.lengths, 8, run.num_train_steps, order_seed(3, rollbacks))
        rows = dataset.build_batches(EXAMPLES, order[start:], 16, by_length=False)
        for step, batch in enumerate(rows, start + 1):
            yield batch | {"times": tf.fill([8], np.nan if step in bad.get(rollbacks, ()) else 1.0)}

    def watch(step, results, state):
        made.append((step, float(results["loss"]), int(results["skipped"])))
        if kill_at == len(made):
            raise Killed

    try:
        Trainer(task, run).fit(scaled, callbacks=[watch])
    except Killed:
        assert kill_at
    return made, begun


def _end(folder):
    return saved(folder, 16)


@pytest.mark.slow
def test_a_run_goes_back_and_ends_well(tmp_path, caplog):
    with caplog.at_level("WARNING"):
        made, begun = _fit(_run(tmp_path), {0: range(6, 17)})
    assert begun == [(0, 0), (4, 1)]
    # The step after which the run goes back, 8, is not shown to the actions.
    assert [step for step, _, _ in made] == [1, 2, 3, 4, 5, 6, 7, *range(5, 17)]
    assert [step for step, _, skipped in made if skipped] == [6, 7]
    assert made[4][0] == made[7][0] == 5 and made[4][1] != made[7][1]  # other data, other masks
    assert any("3 steps in a row, up to step 8. Rolling back to step 4" in r.getMessage() for r in caplog.records)
    end = _end(tmp_path)
    counts = {n: int(end[f"training/guard/{n}"]) for n in ("rollbacks", "skipped_steps", "skipped_in_a_row")}
    assert counts == {"rollbacks": 1, "skipped_steps": 3, "skipped_in_a_row": 0}
    assert int(end["global_step"]) == 16


@pytest.mark.slow
def test_a_checkpoint_that_did_not_help_is_given_up_for_the_one_before(tmp_path):
    _, begun = _fit(_run(tmp_path), {0: range(10, 17), 1: range(9, 17)})
    assert begun == [(0, 0), (8, 1), (4, 2)]
    assert int(_end(tmp_path)["training/guard/returned_to"]) == 4


@pytest.mark.slow
def test_a_run_that_does_not_recover_ends_with_a_message(tmp_path):
    with pytest.raises(ValueError, match=r"in 3 steps in a row, up to step 6, the loss was NaN, .* after 2 "
                       r"rollbacks to a checkpoint in .*: the last step had a loss of nan, in precision float32; lower "
                       r"`learning_rate`, "):  # fmt: skip
        _fit(_run(tmp_path), {n: range(4, 17) for n in range(3)})


TWICE = {0: range(6, 17), 1: range(11, 17)}  # goes back after step 8 and after step 13


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The end of a run that went back twice and was never stopped."""
    folder = tmp_path_factory.mktemp("whole")
    _, begun = _fit(_run(folder), TWICE)
    assert begun == [(0, 0), (4, 1), (8, 2)]
    return _end(folder)


@pytest.mark.slow
@pytest.mark.parametrize("kill_at", [1, *range(4, 11), *range(12, 16)])  # at 9 it has gone back
def test_killed_anywhere_the_end_is_the_same_to_the_bit(tmp_path, whole, kill_at):
    made, _ = _fit(_run(tmp_path), TWICE, kill_at)
    assert len(made) == kill_at
    _fit(_run(tmp_path), TWICE)
    assert_equal(whole, _end(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("function", ["delete_after", "save"])
def test_killed_while_going_back_the_end_is_the_same_to_the_bit(tmp_path, whole, function, monkeypatch):
    real, kills = getattr(CheckpointManager, function), []

    def killed(store, step, *args):
        if function == "delete_after" or step in store.steps():  # written again: it is the one that the run returns to
            kills.append(step)
            raise Killed
        return real(store, step, *args)

    with monkeypatch.context() as patch:
        patch.setattr(CheckpointManager, function, killed)
        _fit(_run(tmp_path), TWICE, kill_at="a rollback")
    assert kills == [4]
    _fit(_run(tmp_path), TWICE)
    assert_equal(whole, _end(tmp_path))


def test_the_order_of_a_run_that_never_went_back_is_the_seed_s_own():
    assert order_seed(7, 0) == 7 and len({order_seed(seed, n) for seed in (7, 8) for n in range(3)}) == 6
