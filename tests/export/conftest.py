"""Tiny trained models and their exports, each made once for all files of tests."""

import pytest

from bert_tf.export.export_options import DEFAULT
from bert_tf.export.trained_model import export_trained
from tests import tiny
from tests.export import models
from tests.processor import skip_without_int8


@pytest.fixture(scope="session")
def trained(made_once):
    """trained(name) -> the folder of a trained model of `models.TASKS`."""
    return lambda name: made_once(f"trained-{name}", lambda folder: models.write_trained(folder, name))


@pytest.fixture(scope="session")
def exported(made_once, trained):
    """exported(name, options) -> the path of its export, the only version in its folder."""

    def export(name, options=DEFAULT):
        if options.has_int8_products:
            skip_without_int8()
        kind = "-".join((name, options.dtype, options.export_for, *options.explanations))
        folder = made_once(f"export-{kind}", lambda folder: export_trained(str(trained(name)), str(folder), options))
        return str(folder / "1")

    return export


@pytest.fixture(scope="session")
def pretrained(made_once) -> str:
    """The folder of a tiny checkpoint with both heads of pretraining."""
    return str(made_once("pretrained", tiny.pretrained))
