"""Tiny models that the tests of this folder share: pretrained, fine-tuned, exported, and loaded for indexes."""

import functools
import os

import pytest

import bert_tf
from bert_tf.export.export_options import DEFAULT
from bert_tf.export.trained_model import export_trained
from bert_tf.inference import embedders, search
from bert_tf.inference.sentence_encoder import SentenceEncoder
from tests import tiny
from tests.export import models
from tests.inference.indexes import index_of


@pytest.fixture(scope="session")
def pretrained(made_once) -> str:
    """The folder of a tiny checkpoint with both heads of pretraining."""
    return str(made_once("pretrained", tiny.pretrained))


@pytest.fixture(scope="session")
def trained(made_once):
    """trained(name) -> the folder of a trained model of `tests/export/models.py`."""
    return lambda name: str(made_once(f"trained-{name}", lambda folder: models.write_trained(folder, name)))


@pytest.fixture(scope="session")
def of_training(trained):
    """of_training(name) -> the predictor of that model, one for all tests, which counts the tokens of all."""
    return functools.cache(lambda name: bert_tf.Predictor(trained(name)))


@pytest.fixture(scope="session")
def exported(made_once, trained):
    """exported(name, options) -> the folder of an export's versions."""

    def export(name, options=DEFAULT):
        kind = f"export-{name}-{options.dtype}-{options.export_for}"  # the name that the tests of exports give it
        return str(made_once(kind, lambda folder: export_trained(trained(name), str(folder), options)))

    return export


@pytest.fixture(scope="session")
def model(tmp_path_factory) -> str:
    """The folder of a tiny checkpoint for indexes."""
    return str(tiny.checkpoint(tmp_path_factory.mktemp("model")))


@pytest.fixture(scope="session")
def varied_model(tmp_path_factory) -> str:
    """The same with larger weights, for indexes whose texts are to differ more."""
    return str(tiny.checkpoint(tmp_path_factory.mktemp("varied_model"), initializer_range=0.3))


@pytest.fixture(scope="module")
def path(model, tmp_path_factory):
    """The folder of an index of `indexes.TEXTS`."""
    return index_of(model, tmp_path_factory.mktemp("max"), pooling="max")


@pytest.fixture(scope="session")
def encoder_of():
    """encoder_of(path, options) -> a `SentenceEncoder`, one for the same files and options."""
    kept = {}

    def encoder(path, **options):
        files = [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]
        key = str(path), repr(sorted(options.items())), str([(file, os.stat(file).st_mtime_ns) for file in files])
        if key not in kept:
            kept[key] = SentenceEncoder(path, **options)
        return kept[key]

    return encoder


@pytest.fixture(scope="module", autouse=True)
def kept_encoders(encoder_of):
    """Lets all indexes share the encoders of a model: each takes half a second to trace."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (embedders, search):
            patch.setattr(module, "SentenceEncoder", encoder_of)
        yield
