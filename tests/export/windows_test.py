"""A model that reads through windows, exported: text in, the script's answers out."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data import dataset, windowed
from bert_tf.data.windowed import Windowing
from bert_tf.training.batching import BatchSettings
from bert_tf.training.run_config import RunConfig
from bert_tf.training.trainer import Trainer
from tests.export import models
from tests.export.models import LENGTH

WINDOWS = Windowing(5, 8)  # as in `models.TASKS`
STORY = "the film is a story of people and music . "
TEXTS = ["", "good film", STORY + "good " + STORY, "😀🎬 我喜欢 " + 3 * STORY, "bad " * 1000, "a\x00b " + STORY]


def _script(trained, *texts):
    """Returns (answers, one batch of all the texts) as run_classifier.py makes them."""
    task, model, tokenizer = models.load_trained(trained)
    job = Trainer(task, RunConfig(str(trained), 8, 1))
    job.model = model
    examples = windowed.tokenize_windows(tokenizer, [*texts], LENGTH, WINDOWS, {})
    (batch,) = dataset.build_batches(examples, np.arange(len(examples))[np.newaxis], LENGTH)
    outputs = job.outputs(BatchSettings(LENGTH).scoring(examples, 4))
    return task.answers(outputs), {name: batch[name] for name in task.features}


@pytest.fixture(scope="module")
def script(trained):
    return _script(trained("windows"), TEXTS)


@pytest.fixture(scope="module")
def signatures(exported):
    return tf.saved_model.load(exported("windows")).signatures


@pytest.mark.slow
def test_the_export_answers_as_the_script(script, signatures):
    expected, batch = script
    counts = batch["input_mask"].numpy().any(2).sum(1)
    assert counts.tolist() == [1, 1, 3, 5, 8, 1]
    serve = signatures["serving_default"]
    np.testing.assert_allclose(serve(text=tf.constant(TEXTS))["probabilities"], expected, atol=1e-5)
    for i, text in enumerate(TEXTS):  # alone as among others
        np.testing.assert_allclose(serve(text=tf.constant([text]))["probabilities"], expected[i : i + 1], atol=1e-5)
    assert serve(text=tf.constant([], tf.string))["probabilities"].shape == (0, 3)
    examples = tf.constant([models.example(text=text) for text in TEXTS])
    np.testing.assert_allclose(signatures["classify"](inputs=examples)["scores"], expected, atol=1e-5)


@pytest.mark.slow
def test_ids_are_windows(script, signatures):
    expected, batch = script
    assert all(spec.shape.rank == 3 for spec in signatures["ids"].structured_input_signature[1].values())
    np.testing.assert_allclose(signatures["ids"](**batch)["probabilities"], expected, atol=1e-5)


@pytest.mark.slow
def test_pairs_are_read_through_windows(trained, exported):
    signatures = tf.saved_model.load(exported("windows_of_pairs")).signatures
    a, b = ["good film", STORY, "", STORY, ""], ["", 4 * STORY, 2 * STORY, "bad", ""]
    expected, _ = _script(trained("windows_of_pairs"), a, b)
    np.testing.assert_allclose(signatures["serving_default"](text_a=a, text_b=b)["score"], expected, atol=1e-5)
    examples = tf.constant([models.example(text_a=x, text_b=y) for x, y in zip(a, b, strict=True)])
    np.testing.assert_allclose(signatures["regress"](inputs=examples)["outputs"][:, 0], expected, atol=1e-5)
