from bert_tf.serving.server import tensorflow_messages  # noqa: F401  without it, messages import TensorFlow
