"""SavedModels of TF Hub's API for tests: ours, and one as others make them."""

import pathlib

import keras
import tensorflow as tf

from bert_tf.checkpoints.tf1 import write_tf1
from bert_tf.models.pretraining_heads import Pretrainer
from tests import tiny


def pretrained(folder, dropout=0.0) -> str:
    """Writes a tiny checkpoint with pretraining's heads, as google-research/bert's releases have them."""
    keras.utils.set_random_seed(1)
    pretrainer = Pretrainer(tiny.config(dropout))
    tiny.checkpoint(folder)
    pretrainer.config.save(pathlib.Path(folder) / "bert_config.json")
    write_tf1(str(pathlib.Path(folder) / "bert_model.ckpt"), pretrainer.variables)
    return str(folder)


class _Head(tf.Module):
    def __init__(self, whole):
        super().__init__()
        self.whole, self.bias = whole, tf.Variable([1.0, 2.0, 3.0], name="mlm/bias")

    @tf.function(input_signature=[{"input_word_ids": tf.TensorSpec([None, None], tf.int32)}])
    def __call__(self, inputs):
        return {"mlm_logits": self.whole(inputs, training=False)["sequence_output"] + self.bias}


class LookAlike(tf.Module):
    """An encoder as TF Model Garden exports it: lists, a `mask` that means nothing, a loss, a part; no signature."""

    variables = trainable_variables = ()

    def __init__(self):
        super().__init__()
        self.table = tf.Variable(tf.random.stateless_normal([20, 3], [1, 2]), name="word_embeddings/embeddings")
        self.frozen = tf.Variable([2.0], name="scale", trainable=True)  # not in the list: it stays
        self.steps = tf.Variable(7, dtype=tf.int64, trainable=False)
        self.variables, self.trainable_variables = [self.table, self.frozen], [self.table]
        self.regularization_losses = [self._loss]
        specs = {"input_word_ids": tf.TensorSpec([None, None], tf.int32)}
        for training in (False, True):
            self.__call__.get_concrete_function(specs, training=training, mask=None)
        self.mlm = _Head(self)

    @tf.function(input_signature=[])
    def _loss(self):
        return 0.5 * tf.reduce_sum(self.table**2)

    @tf.function
    def __call__(self, inputs, training=False, mask=None):
        x = tf.gather(self.table, inputs["input_word_ids"]) * self.frozen
        x = x * 3.0 if training else x
        return {"sequence_output": x, "pooled_output": tf.reduce_sum(x, 1)}


class Writer(tf.Module):
    """A SavedModel that does more than compute."""

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def __call__(self, ids):
        return tf.cond(tf.reduce_any(ids > 0), lambda: _written(ids), lambda: ids)


def _written(ids):
    tf.io.write_file("/tmp/bert_tf_never_written", "text")
    return ids
