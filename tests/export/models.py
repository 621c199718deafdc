"""Tiny trained models of every task that is exported, as their programs leave them, with random weights."""

import dataclasses
import os

import keras
import tensorflow as tf

from bert_tf.checkpoints import tf1
from bert_tf.checkpoints.loading import load_description, save_description
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.export.precision import build_with_weights
from bert_tf.tasks.base import TrainedTask
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.embedding.task import EmbeddingTask
from bert_tf.tasks.multiple_choice.task import MultipleChoiceTask
from bert_tf.tasks.question_answering.task import QuestionAnsweringTask
from bert_tf.tasks.registry import read_task, save_task
from bert_tf.tasks.reranking.task import RerankingTask
from bert_tf.tasks.tagging.task import TaggingTask
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import tiny

LENGTH = 16

# name -> (what makes the task of a configuration, names of an example's texts)
TASKS = {
    "classification": (lambda config: ClassificationTask(config, 2, labels=["bad", "good"]), ("text",)),
    "lstm": (lambda config: ClassificationTask(config, 2, lstm_units=4), ("text",)),
    "windows": (lambda config: ClassificationTask(config, 3, windows={"stride": 5, "max_windows": 8}), ("text",)),
    "regression": (lambda config: ClassificationTask(config, 1, "regression"), ("text_a", "text_b")),
    "questions": (lambda config: QuestionAnsweringTask(config, 5, 6, 5, 4), ("question", "context")),
    "tagging": (lambda config: TaggingTask(config, ["B-PER", "I-PER", "O"], doc_stride=5), ("text",)),
    "choices": (MultipleChoiceTask, ("context", "choices")),
    "reranking": (RerankingTask, ("query", "documents")),
    "embedding": (EmbeddingTask, ("text",)),
}
NLI = ["contradiction", "entailment", "neutral"]
OTHERS = {
    "nli": (lambda config: ClassificationTask(config, 3, labels=NLI), ("text_a", "text_b")),
    "multi_label": (lambda config: ClassificationTask(config, 3, "multi_label", labels=["a", "b", "c"]), ("text",)),
    "windows_of_pairs": (
        lambda config: ClassificationTask(config, 1, "regression", windows={"stride": 5, "max_windows": 8}),
        ("text_a", "text_b"),
    ),
    "thresholds": (
        lambda config: ClassificationTask(config, 2, "multi_label", ["film", "good"], thresholds=[0.1, 0.9]), ("text",)
    ),
    "local": (
        lambda config: ClassificationTask(dataclasses.replace(config, **tiny.MODERNBERT), 2, labels=["bad", "good"]),
        ("text",),
    ),
    "disentangled": (
        lambda config: ClassificationTask(dataclasses.replace(config, **tiny.DEBERTA), 2, labels=["bad", "good"]),
        ("text",),
    ),
    "biased": (
        lambda config: ClassificationTask(dataclasses.replace(config, **tiny.BIASED), 2, labels=["bad", "good"]),
        ("text",),
    ),
    "gated": (
        lambda config: ClassificationTask(dataclasses.replace(config, **tiny.NOMIC), 2, labels=["bad", "good"]),
        ("text",),
    ),
    "scaled": (
        lambda config: ClassificationTask(dataclasses.replace(config, **tiny.GTE), 2, labels=["bad", "good"]),
        ("text",),
    ),
}  # for single tests


def write_trained(directory, name: str) -> TrainedTask:
    """Makes what training leaves in `directory`, of a name in `TASKS` or `OTHERS`; returns its task."""
    directory = os.fspath(directory)
    os.makedirs(directory, exist_ok=True)
    make, text_inputs = (TASKS | OTHERS)[name]
    task = make(tiny.config())
    WordPieceTokenizer(tiny.VOCAB).save(directory)
    save_description(directory, task.config, WordPieceTokenizer.from_directory(directory), task.labels)
    trained = TrainedTask(task, text_inputs, LENGTH)
    save_task(directory, trained)
    keras.utils.set_random_seed(1)
    tf1.write_tf1(os.path.join(directory, "model.ckpt-7"), task.build_model().variables)
    return trained


def load_trained(directory):
    """Returns (task, Keras model, tokenizer) of what `write_trained` wrote."""
    description = load_description([os.fspath(directory)])
    task = read_task(os.fspath(directory), description.config).task
    return task, build_with_weights(task, open_checkpoint(directory))[0], description.tokenizer


def example(**texts: str) -> bytes:
    """Returns a serialized tf.Example of an example's texts."""
    values = {k: tf.train.Feature(bytes_list=tf.train.BytesList(value=[v.encode()])) for k, v in texts.items()}
    return tf.train.Example(features=tf.train.Features(feature=values)).SerializeToString()
