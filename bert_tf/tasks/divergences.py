"""The distance of a model's outputs to a teacher's, softened by a temperature (Hinton et al. 2015, section 2)."""

import tensorflow as tf


def divergence(logits: tf.Tensor, teacher_logits: tf.Tensor, temperature: float = 1.0) -> tf.Tensor:
    """Computes T^2 KL(softmax(teacher_logits / T) || softmax(logits / T)), whose gradient scale is independent of T.

    Args:
        logits, teacher_logits: float [..., L].
        temperature: T, above 0.

    Returns:
        float32 [...]; 0 if both agree.
    """
    both = [tf.cast(each, tf.float32) / temperature for each in (logits, teacher_logits)]
    target = tf.nn.softmax(both[1])
    cross, own = (tf.nn.softmax_cross_entropy_with_logits(labels=target, logits=each) for each in both)
    return (cross - own) * temperature**2


def yes_no_divergence(logits: tf.Tensor, teacher_logits: tf.Tensor, temperature: float = 1.0) -> tf.Tensor:
    """Computes the same for binary decisions, float32 [..., L]; the logits are those of "yes", [..., L]."""
    both = [tf.cast(each, tf.float32) / temperature for each in (logits, teacher_logits)]
    target = tf.sigmoid(both[1])
    cross, own = (tf.nn.sigmoid_cross_entropy_with_logits(labels=target, logits=each) for each in both)
    return (cross - own) * temperature**2
