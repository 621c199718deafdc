"""The learning rates against the formulas, worked out by hand; the linear one against google-research/bert's."""

import keras
import pytest

from bert_tf.training.schedules import SCHEDULES, ExponentialRise, WarmupLinearDecay


def _google(step, rate, steps, warmup):
    """optimization.py: polynomial_decay from step 0 on, replaced by rate * step / warmup while step < warmup."""
    decayed = rate * (1 - min(step, steps) / steps)
    return rate * step / warmup if step < warmup else decayed


@pytest.mark.parametrize("steps, warmup", [(10, 4), (10, 0), (3, 3), (1, 0)])
def test_every_step_has_google_s_rate(steps, warmup):
    schedule = WarmupLinearDecay(2e-5, steps, warmup)
    rates = [float(schedule(step)) for step in range(steps + 3)]
    assert rates == pytest.approx([_google(step, 2e-5, steps, warmup) for step in range(steps + 3)], rel=1e-6)


def test_the_corners_in_numbers():
    schedule = WarmupLinearDecay(1.0, 10, 4)
    assert [float(schedule(step)) for step in (0, 2, 3, 4, 5, 10, 11)] == [
        0.0, 0.5, 0.75, pytest.approx(0.6), 0.5, 0.0, 0.0]  # fmt: skip


def test_it_survives_saving():
    schedule = WarmupLinearDecay(1e-3, 7, 2)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(schedule))
    assert isinstance(again, WarmupLinearDecay) and again.get_config() == schedule.get_config()


@pytest.mark.parametrize("name, arguments, rates", [
    # steps 0, 2 (in the warm-up), 4 (its end), 8 (the middle of what follows), 10, 12 (the end), 13
    ("linear", {}, (0, 0.5, 2 / 3, 1 / 3, 1 / 6, 0, 0)),
    ("polynomial", {}, (0, 0.5, 1, 0.5**0.5, 0.5, 0, 0)),
    ("polynomial", {"power": 1}, (0, 0.5, 1, 0.5, 0.25, 0, 0)),
    ("polynomial", {"power": 2}, (0, 0.5, 1, 0.25, 0.0625, 0, 0)),
    ("cosine", {}, (0, 0.5, 1, 0.5, (1 - 0.5**0.5) / 2, 0, 0)),
    ("trapezoid", {}, (0, 0.5, 1, 1, 1, 0, 0)),  # a fifth of 12 is 2
    ("trapezoid", {"num_decay_steps": 8}, (0, 0.5, 1, 0.5, 0.25, 0, 0)),
    ("trapezoid", {"num_decay_steps": 12}, (0, 0.5, 2 / 3, 1 / 3, 1 / 6, 0, 0)),
])  # fmt: skip
def test_the_others_in_numbers(name, arguments, rates):
    schedule = SCHEDULES[name](2.0, 12, 4, **arguments)
    made = [float(schedule(step)) for step in (0, 2, 4, 8, 10, 12, 13)]
    assert made == pytest.approx([2 * rate for rate in rates], abs=1e-6)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(schedule))
    assert type(again) is type(schedule) and again.get_config() == schedule.get_config()


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_run_that_is_all_warm_up_or_has_none(name):
    assert float(SCHEDULES[name](2.0, 10, 0)(0)) == 2.0
    rising = SCHEDULES[name](2.0, 4, 4)
    assert float(rising(0)) == 0 and float(rising(2)) == 1.0 and 0 <= float(rising(4)) <= 2.0


def test_a_fall_that_begins_within_the_warm_up_cuts_it_short():
    schedule = SCHEDULES["trapezoid"](1.0, 10, 6, num_decay_steps=10)
    assert [float(schedule(step)) for step in (3, 5, 6, 8)] == pytest.approx([0.5, 0.5, 0.4, 0.2], abs=1e-6)


def test_the_rate_of_a_range_test_rises_by_the_same_factor():
    schedule = ExponentialRise(1e-6, 1e-2, 5)
    assert [float(schedule(step)) for step in range(6)] == pytest.approx([1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-2], rel=1e-5)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(schedule))
    assert isinstance(again, ExponentialRise) and again.get_config() == schedule.get_config()
