"""The learning rate against google-research/bert's formula, worked out by hand."""

import keras
import pytest

from bert_tf.training.schedule import WarmupLinearDecay


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
