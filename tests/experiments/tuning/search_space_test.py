"""What a search says, and which trials it makes."""

import pytest

from bert_tf.experiments.tuning.search_space import Axis, combinations, draw_trials, parse_axes
from bert_tf.runs.settings import fine_tuning_settings
from bert_tf.tasks.options import RunOptions
from bert_tf.utils.settings import Flag, flags_of


def _parse(text):
    return parse_axes(text, flags_of(fine_tuning_settings(RunOptions)))


def test_values_and_ranges():
    assert _parse("learning_rate=2e-5,5e-5,auto; --train_batch_size=16,32,16 ;") == [
        Axis("learning_rate", ("2e-5", "5e-5", "auto")), Axis("train_batch_size", ("16", "32"))]  # fmt: skip
    rate, batch, decay = _parse("learning_rate=1e-5..1e-3;train_batch_size=8..64;layerwise_lr_decay=0.8..1")
    assert (rate.low, rate.high, rate.whole, rate.is_logarithmic) == (1e-5, 1e-3, False, True)
    assert (batch.low, batch.high, batch.whole, batch.is_logarithmic) == (8, 64, True, False)
    assert not decay.is_logarithmic and _parse("schedule=linear..cosine")[0].values  # no number: a value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "`search` is empty"),
        ("learning_rate", r"must be name=value,value with `;` .* got 'learning_rate'\. Example"),
        ("learning_rate=1e-5,", r"must be name=value,value"),
        ("learnin_rate=1e-5", r"cannot vary 'learnin_rate' between trials; did you mean learning_rate\?"),
        ("lr=1e-5", r"cannot vary 'lr' between trials; did you mean learning_rate\?"),
        ("learning_rate=1e-5;learning_rate=2e-5", "names learning_rate twice"),
        ("lora_targets=query,key", r"takes flags with a single value; lora_targets is a list"),
        ("learning_rate=1e-3..1e-5", r"A range of `search` must be low\.\.high, two numbers; got learning_rate"),
        ("train_batch_size=1.5..8", r"must be low\.\.high, two whole numbers; got train_batch_size=1\.5\.\.8"),
        ("learning_rate=1e-5..nan", r"must be low\.\.high"),
    ],
)
def test_malformed_searches_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        _parse(text)


def test_an_old_name_of_a_flag_is_its_new_one():
    table = [Flag("units", 1, "Size.", "integer", aliases=("size",), decides_result=True)]
    assert parse_axes("size=1,2", table) == [Axis("units", ("1", "2"))]
    with pytest.raises(ValueError, match="names units twice"):
        parse_axes("size=1;units=2", table)


def test_combinations_are_all_of_them():
    assert combinations(_parse("learning_rate=1e-5,2e-5;seed=1,2")) == [
        {"learning_rate": rate, "seed": seed} for rate in ("1e-5", "2e-5") for seed in ("1", "2")]  # fmt: skip
    with pytest.raises(ValueError, match=r"requires `trials`, .* learning_rate is a range"):
        combinations(_parse("seed=1,2;learning_rate=1e-5..1e-4"))


def test_a_longer_draw_begins_as_a_shorter_one():
    axes = _parse("learning_rate=1e-5..1e-3;train_batch_size=16,32;freeze_layers=0,1,2;warmup_proportion=0..0.2")
    points = draw_trials(axes, 40, seed=1)
    assert points[:8] == draw_trials(axes, 8, seed=1) != draw_trials(axes, 8, seed=2)
    rates = [float(point["learning_rate"]) for point in points]
    assert all(1e-5 <= rate <= 1e-3 for rate in rates) and 10 < sum(rate < 1e-4 for rate in rates) < 30
    assert {point["freeze_layers"] for point in points} == {"0", "1", "2"}
    assert 0.06 < sum(float(point["warmup_proportion"]) for point in points) / 40 < 0.14


def test_a_draw_repeats_no_combination():
    axes = _parse("train_batch_size=1..3;seed=1,2")
    points = draw_trials(axes, 100, seed=0)
    assert len(points) == len({tuple(point.values()) for point in points}) == 6
    wide = draw_trials(_parse("train_batch_size=1..30"), 100, seed=0)
    assert sorted(int(point["train_batch_size"]) for point in wide) == list(range(1, 31))
