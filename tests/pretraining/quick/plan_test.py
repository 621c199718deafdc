"""How many steps fit: figures by hand, no clock."""

import pytest

from bert_tf.pretraining.quick.plan import (
    CHECKPOINTS,
    TRIAL_CHECKPOINTS,
    TRIAL_STEPS,
    Throughput,
    TrainingPlan,
    measure_throughput,
)
from bert_tf.pretraining.quick.recipe import PlannedPhase, SizeRecipe, spread_layers
from tests.pretraining.quick import support

PHASES = (PlannedPhase(32, 0.6, 64), PlannedPhase(64, 0.4, 32))
FAST = (640.0, 160.0)  # rows a second: 0.1 and 0.2 seconds a step


def test_rates_are_those_of_settled_steps_and_the_rest_is_the_start():
    steps, checkpoints = TRIAL_STEPS * (0.1 + 0.2), TRIAL_CHECKPOINTS * 2.6
    found = measure_throughput(support.history(PHASES, FAST, seconds=3), PHASES, 100.0)
    assert found.rows_per_second == FAST
    assert found.checkpoint_seconds == pytest.approx(3 - 2 * 0.2)
    assert found.start_seconds == pytest.approx(100 - steps - checkpoints)


def test_what_is_too_short_to_be_seen_is_nothing():
    found = measure_throughput(support.history(PHASES, FAST, seconds=0), PHASES, 0.0)
    assert found.checkpoint_seconds == 0.0 and found.start_seconds == 0.0


def test_the_training_ends_with_the_minutes():
    rates = Throughput(FAST, start_seconds=10.0, checkpoint_seconds=1.0)
    plan = TrainingPlan.of(PHASES, rates, minutes=10, seconds_used=150.0)
    seconds = 600 - 150 - 10 - CHECKPOINTS * 1
    steps, per_step = sum(plan.steps), 0.6 * 0.1 + 0.4 * 0.2
    assert steps * per_step <= seconds < (steps + 1.01) * per_step and steps in (2999, 3000)
    assert plan.steps[0] == round(0.6 * steps) and plan.minutes_used == 2.5


@pytest.mark.parametrize("minutes", [10, 10.05, 11.1, 45])
def test_the_steps_of_the_phases_add_up(minutes):
    thirds = tuple(PlannedPhase(32, 1 / 3, 64) for _ in range(3))
    steps = TrainingPlan.of(thirds, Throughput((640.0,) * 3, 0.0, 0.0), minutes, 0.0).steps
    assert sum(steps) == int(minutes * 60 / 0.1 + 1e-6) and max(steps) - min(steps) <= 1


@pytest.mark.parametrize("used", [100.0, 700.0])
def test_too_few_minutes_are_refused_and_the_message_says_how_many_are_enough(used):
    rates = Throughput(FAST, start_seconds=10.0, checkpoint_seconds=1.0)
    with pytest.raises(ValueError, match=r"`minutes` must leave time for 120 steps.* use (\d+) or more") as refused:
        TrainingPlan.of(PHASES, rates, minutes=2, seconds_used=used)
    enough = int(str(refused.value).split("use ")[1].split()[0])
    assert sum(TrainingPlan.of(PHASES, rates, enough, used).steps) >= 2 * TRIAL_STEPS
    message = "`minutes` must leave time for .* steps of training; got .* or more, and run the same command again"
    with pytest.raises(ValueError, match=message):
        TrainingPlan.of(PHASES, rates, enough - 1, used)


def test_what_is_written_is_read_again(tmp_path):
    assert TrainingPlan.read(tmp_path) is None
    plan = TrainingPlan.of(PHASES, Throughput(FAST, 10.0, 1.0), 10, 150.0)
    plan.write(tmp_path, PHASES, {32: 1000, 64: 500}, ["bert-tf one", "bert-tf other"])
    assert TrainingPlan.read(tmp_path) == plan


@pytest.mark.parametrize("text", ["{}", '{"phases": [3]}', "[]", "{"])
def test_another_file_is_refused(tmp_path, text):
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(ValueError, match=r"plan\.json (must be|is not) .*plan of `pretrain quick`"):
        TrainingPlan.read(tmp_path)


@pytest.mark.parametrize(
    ("number", "depth", "layers"),
    [(4, 6, [0, 2, 4, 5]), (4, 12, [0, 4, 8, 11]), (4, 5, [0, 2, 3, 4]), (2, 3, [0, 2]), (1, 3, [0])],
)
def test_layers_are_evenly_spread(number, depth, layers):
    assert spread_layers(number, depth) == layers


def test_a_recipe_has_phases_that_are_all_of_it():
    with pytest.raises(AssertionError, match="add up"):
        SizeRecipe.of({**support.SMALL, "phases": ((16, 0.6, 8),)})
