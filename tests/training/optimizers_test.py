"""Optimizers are made with all hyperparameters of a run."""

import dataclasses

import pytest

from bert_tf.training.optimizers import OPTIMIZERS, always_corrects, make_optimizer
from bert_tf.training.settings import AdamConfig


@pytest.mark.parametrize("field", dataclasses.fields(AdamConfig), ids=lambda field: field.name)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_hyperparameter_reaches_the_optimizer(name, field):
    other = not field.default if isinstance(field.default, bool) else field.default / 2
    usual, changed = (
        make_optimizer(name, 1e-3, AdamConfig(**changes)).get_config() for changes in ({}, {field.name: other})
    )
    is_read = field.name != "bias_correction" or not always_corrects(name)
    assert [value for key, value in changed.items() if value != usual[key]] == [other] * is_read
