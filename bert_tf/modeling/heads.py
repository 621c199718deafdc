"""Heads: what is put on the encoder for a task. A head keeps to google-research/bert's variable names."""

import keras
import tensorflow as tf

from bert_tf.modeling.layers import Dropout, initializer


@keras.saving.register_keras_serializable("bert_tf")
class ClassificationHead(keras.layers.Layer):
    """Dropout and one linear layer on the pooled output (run_classifier.py's `create_model`).

    One head serves one label (softmax over `num_labels`), several labels (a sigmoid each) and regression (one number):
    they differ in the loss and in what is made of the scores, not in the weights.

    Args:
        num_labels: width of the output; 1 for regression.
        dropout: `EncoderConfig.hidden_dropout_prob`.
        initializer_range: standard deviation of the weights' start.

    Input: `pooled_output` [B, H]. Output: float32 [B, num_labels], scores before softmax or sigmoid.
    Weights: `output_weights` [num_labels, H], `output_bias` [num_labels].
    """

    def __init__(self, num_labels, dropout=0.1, initializer_range=0.02, **kwargs):
        kwargs.setdefault("name", "classifier")
        super().__init__(**kwargs)
        self.num_labels = num_labels
        self.dropout_rate = dropout
        self.initializer_range = initializer_range
        self.dropout = Dropout(dropout, name="dropout", dtype=self.dtype_policy)

    def build(self, input_shape):
        start = initializer(self.initializer_range)
        shape = (self.num_labels, input_shape[-1])
        self.output_weights = self.add_weight(name="output_weights", shape=shape, initializer=start)
        self.output_bias = self.add_weight(name="output_bias", shape=(self.num_labels,), initializer="zeros")
        self.dropout.build(input_shape)

    def call(self, pooled_output, training=None):
        x = self.dropout(pooled_output, training=training)
        logits = tf.matmul(x, tf.cast(self.output_weights, x.dtype), transpose_b=True)
        return tf.cast(tf.nn.bias_add(logits, tf.cast(self.output_bias, x.dtype)), tf.float32)

    def compute_output_spec(self, pooled_output, training=None):
        return keras.KerasTensor((pooled_output.shape[0], self.num_labels), "float32")

    def get_config(self):
        return super().get_config() | {
            "num_labels": self.num_labels,
            "dropout": self.dropout_rate,
            "initializer_range": self.initializer_range,
        }
