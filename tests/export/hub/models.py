"""SavedModels of TF Hub's API for tests: ours, and one as others make them."""


import tensorflow as tf


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
