"""Recipes by name: values of flags that there are, for those that are not given."""

import pytest

from bert_tf.cli.run_pretraining import FLAGS
from bert_tf.runs.pretraining_recipes import RECIPES, with_recipe
from bert_tf.runs.settings import PretrainingSettings

TABLE = {flag.name: flag for flag in FLAGS}


def _settings(**given):
    return PretrainingSettings().give(given)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_has_values_that_its_flags_take(name):
    for flag, value in ((TABLE[flag], value) for flag, value in RECIPES[name].items()):
        kinds = {"integer": int, "float": float, "bool": bool, "string": str}
        assert type(value) is kinds[flag.kind], flag.name
        assert not flag.choices or value in flag.choices
        assert (flag.low is None or value >= flag.low) and (flag.high is None or value <= flag.high), flag.name


def test_what_is_given_wins_and_both_are_told(caplog):
    given = {"recipe": "bert_paper", "train_batch_size": 32, "learning_rate": 1e-4}
    with caplog.at_level("INFO", logger="absl"):
        settings = with_recipe(_settings(**given))
    assert (settings.train_batch_size, settings.num_train_steps, settings.dropout_prob) == (32, 1_000_000, 0.1)
    assert settings.phases == "128x90%,512x10%" and settings.given == given.keys()
    first, second = caplog.messages
    assert "`recipe=bert_paper`: " in first and "`num_train_steps=1000000`" in first and "batch_size" not in first
    assert second == "Given settings that differ from `recipe=bert_paper`: `train_batch_size=32`"


def test_one_length_is_no_phases():
    assert with_recipe(_settings(recipe="bert_paper", max_seq_length=64)).phases is None


def test_without_a_recipe_nothing_changes():
    settings = _settings(seed=3)
    assert with_recipe(settings) is settings
