"""The flags of layers: what they mean, and which contradict each other or the model."""

import pytest

from bert_tf.training.layer_rates import LayerRates, layer_rates
from bert_tf.training.run_config import RunConfig
from bert_tf.training.settings import FineTuningConfig


def _layer_rates(init_checkpoint="some", **given):
    run = RunConfig("out", train_batch_size=8, num_train_steps=0, init_checkpoint=init_checkpoint)
    return layer_rates(FineTuningConfig(**given), run, 2, 100)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"freeze_layers": "1"}, LayerRates(2, 1)),
        ({"freeze_layers": "all"}, LayerRates(2, "all")),
        ({"layerwise_lr_decay": 0.9, "reinit_layers": 2}, LayerRates(2, 0, 0.9)),
        ({"unfreeze_epochs": 0.5, "freeze_layers": "1"}, LayerRates(2, 1, 1.0, 6)),  # 100 / 8 * 0.5
        ({"unfreeze_epochs": 0.01}, LayerRates(2, unfreeze_steps=1)),
    ],
)
def test_the_flags_mean(given, expected):
    assert _layer_rates(**given) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"freeze_layers": "3"}, r"`freeze_layers` must be `all` or a number from 0 to 2, .* got 3\."),
        ({"freeze_layers": "some"}, r"`freeze_layers` must be `all` or a number .* got some\."),
        ({"freeze_layers": "-1"}, r"`freeze_layers` must be `all` or a number .* got -1\."),
        ({"layerwise_lr_decay": 0.0}, r"`layerwise_lr_decay` must be above 0 and at most 1; got 0\.0\. To keep"),
        ({"freeze_layers": "all", "unfreeze_epochs": 1.0}, "`unfreeze_epochs` has no effect with `freeze_layers=all`"),
        ({"freeze_layers": "2", "unfreeze_epochs": 1.0}, r"with `freeze_layers=2`: .* Remove one of the two\."),
        ({"freeze_layers": "all", "layerwise_lr_decay": 0.9}, "`layerwise_lr_decay` has no effect with"),
        ({"freeze_layers": "1", "reinit_layers": 2}, r"at most 1, the number of layers that are not frozen; got 2\."),
        ({"freeze_layers": "all", "reinit_layers": 1}, r"at most 0, the number of layers that are not frozen; got 1\."),
        ({"freeze_layers": "1", "init_checkpoint": None}, r"`freeze_layers` and `unfreeze_epochs` require"),
        ({"unfreeze_epochs": 1.0, "init_checkpoint": None}, r"require `init_checkpoint`: without one"),
        ({"reinit_layers": 1, "init_checkpoint": None}, r"`reinit_layers=1` requires `init_checkpoint`: "),
    ],
)
def test_flags_that_cannot_be_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        _layer_rates(**given)
