"""A model that reads through windows, exported: text in, the script's answers out."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.checkpoints import tf1
from bert_tf.checkpoints.loading import save_description
from bert_tf.data import dataset, windowed
from bert_tf.data.windowed import Windowing
from bert_tf.export.saved_model import export_trained
from bert_tf.tasks.base import TrainedTask
from bert_tf.tasks.classification import ClassificationTask
from bert_tf.tasks.registry import save_task
from bert_tf.tokenization.wordpiece import Tokenizer
from bert_tf.training.loop import RunConfig
from bert_tf.training.scoring import BatchSettings
from bert_tf.training.trainer import Trainer
from tests import tiny

LENGTH, WINDOWS = 12, Windowing(5, 8)
STORY = "the film is a story of people and music . "
TEXTS = ["", "good film", STORY + "good " + STORY, "😀🎬 我喜欢 " + 3 * STORY, "bad " * 1000, "a\x00b " + STORY]


def _exported(directory, problem, text_inputs, num_labels):
    """Makes what a script leaves after training, with random weights, and exports it."""
    Tokenizer(tiny.VOCAB).save(directory)
    tokenizer = Tokenizer.from_directory(directory)
    task = ClassificationTask(tiny.config(), num_labels, problem, windows=WINDOWS)
    save_description(directory, task.config, tokenizer, task.labels)
    save_task(directory, TrainedTask(task, text_inputs, LENGTH))
    job = Trainer(task, RunConfig(directory, 8, 1))
    job.model = task.build_model()
    tf1.write_tf1(f"{directory}/model.ckpt-1", job.model.variables)
    return tf.saved_model.load(export_trained(directory)).signatures, job, tokenizer


def _script(job, tokenizer, *texts):
    """Returns (answers, one batch of all the texts) as run_classifier.py makes them."""
    examples = windowed.tokenize_windows(tokenizer, [*texts], LENGTH, WINDOWS, {})
    (batch,) = dataset.build_batches(examples, np.arange(len(examples))[np.newaxis], LENGTH)
    outputs = job.outputs(BatchSettings(LENGTH).scoring(examples, 4))
    return job.task.answers(outputs), {name: batch[name] for name in job.task.features}


def _example(**texts):
    values = {k: tf.train.Feature(bytes_list=tf.train.BytesList(value=[v.encode()])) for k, v in texts.items()}
    return tf.train.Example(features=tf.train.Features(feature=values)).SerializeToString()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    return _exported(str(tmp_path_factory.mktemp("windows")), "single_label", ("text",), 3)


def test_the_export_answers_as_the_script(exported):
    signatures, job, tokenizer = exported
    expected, batch = _script(job, tokenizer, TEXTS)
    counts = batch["input_mask"].numpy().any(2).sum(1)
    assert counts.tolist() == [1, 1, 4, 6, 8, 2]
    serve = signatures["serving_default"]
    np.testing.assert_allclose(serve(text=tf.constant(TEXTS))["probabilities"], expected, atol=1e-5)
    for i, text in enumerate(TEXTS):  # alone as among others
        np.testing.assert_allclose(serve(text=tf.constant([text]))["probabilities"], expected[i : i + 1], atol=1e-5)
    assert serve(text=tf.constant([], tf.string))["probabilities"].shape == (0, 3)
    examples = tf.constant([_example(text=text) for text in TEXTS])
    np.testing.assert_allclose(signatures["classify"](inputs=examples)["scores"], expected, atol=1e-5)


def test_ids_are_windows(exported):
    signatures, job, tokenizer = exported
    expected, batch = _script(job, tokenizer, TEXTS)
    assert all(spec.shape.rank == 3 for spec in signatures["ids"].structured_input_signature[1].values())
    np.testing.assert_allclose(signatures["ids"](**batch)["probabilities"], expected, atol=1e-5)


@pytest.mark.slow
def test_pairs_are_read_through_windows(tmp_path):
    signatures, job, tokenizer = _exported(str(tmp_path), "regression", ("text_a", "text_b"), 1)
    a, b = ["good film", STORY, "", STORY, ""], ["", 4 * STORY, 2 * STORY, "bad", ""]
    expected, _ = _script(job, tokenizer, a, b)
    np.testing.assert_allclose(signatures["serving_default"](text_a=a, text_b=b)["score"], expected, atol=1e-5)
    examples = tf.constant([_example(text_a=x, text_b=y) for x, y in zip(a, b, strict=True)])
    np.testing.assert_allclose(signatures["regress"](inputs=examples)["outputs"][:, 0], expected, atol=1e-5)
