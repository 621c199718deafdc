"""How far a model's answers are from a teacher's, softened by a temperature (Hinton et al. 2015, section 2)."""

import tensorflow as tf


def divergence(logits: tf.Tensor, taught: tf.Tensor, temperature: float = 1.0) -> tf.Tensor:
    """Returns T^2 KL(softmax(taught / T) || softmax(logits / T)), so that its gradient keeps its size whatever T is.

    Args:
        logits, taught: float [..., L], the model's and the teacher's.
        temperature: T, over 0.

    Returns:
        float32 [...]; 0 where both say the same.
    """
    logits, taught = (tf.cast(each, tf.float32) / temperature for each in (logits, taught))
    target = tf.nn.softmax(taught)
    cross, own = (tf.nn.softmax_cross_entropy_with_logits(labels=target, logits=each) for each in (logits, taught))
    return (cross - own) * temperature**2


def yes_no_divergence(logits: tf.Tensor, taught: tf.Tensor, temperature: float = 1.0) -> tf.Tensor:
    """Returns the same of questions with two answers each, float32 [..., L]; logits are those of yes, [..., L]."""
    logits, taught = (tf.cast(each, tf.float32) / temperature for each in (logits, taught))
    target = tf.sigmoid(taught)
    cross, own = (tf.nn.sigmoid_cross_entropy_with_logits(labels=target, logits=each) for each in (logits, taught))
    return (cross - own) * temperature**2
