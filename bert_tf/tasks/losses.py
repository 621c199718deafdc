"""Shared losses on labels: cross-entropy, example and class weights, and the distance to a teacher's outputs."""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from bert_tf.utils.json_files import read_object

# === Cross-entropy ===


def cross_entropy(
    logits: tf.Tensor, target: tf.Tensor, weights: tf.Tensor | None = None, smoothing: float = 0.0
) -> tf.Tensor:
    """Computes the cross-entropy of n examples, like torch.nn.CrossEntropyLoss(weight=, label_smoothing=).

    The target is 1 - e + e/L for the label and e/L for each other (Szegedy et al. 2015, section 7). Weights apply to
    the terms of the sum over the labels, so that each label's share of a smoothed target has that label's weight.

    Args:
        logits: float32 [n, L].
        target: int32 [n].
        weights: label weights, float32 [L]. If None, 1 each.
        smoothing: the label smoothing e.

    Returns:
        float32 [n].
    """
    if weights is None and not smoothing:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logits)
    terms = -tf.nn.log_softmax(logits)
    if weights is not None:
        terms *= weights
    own = tf.gather(terms, target, batch_dims=1)
    return (1 - smoothing) * own + smoothing * tf.reduce_mean(terms, -1)


# === Example weights ===


def sum_losses(losses: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Computes the sum of the losses of a batch's examples, float32 [B], each times its weight; padding counts as 0.

    The weights are the batch's `sample_weights` if it has them, otherwise 1. A loss divides the sum by normalizers
    without these weights, so that its expectation over random batches is exactly the weighted one.
    """
    weights = batch["is_real_example"]
    return tf.reduce_sum(losses * (weights * batch["sample_weights"] if "sample_weights" in batch else weights))


# === Class weights ===
# Class weights in the loss.


def class_weights(
    given: Sequence[str] | None, labels: Sequence[str], label_ids, all_occur: bool = True, example_weights=None
) -> tuple[float, ...] | None:
    """Returns a weight per label, or None without class weights or training.

    `balanced` is n / (L * count) for each of the L labels of n examples, as in scikit-learn: each label then has
    the same total weight. With several labels per example, count is the number of examples that have the label.

    Args:
        given: "balanced" alone, "label:weight" pairs, or the path of a .json file with an object of labels and weights;
            unnamed labels have weight 1.
        labels: the L names.
        label_ids: labels of the training examples, int [n] or [n, L] of 0 and 1. If None, nothing is trained.
        all_occur: whether each label must have an example to be balanced; otherwise a label without one has weight 1,
            and the others are balanced among themselves.
        example_weights: float [n], how often each of the n examples counts. If None, once.

    Raises:
        ValueError: `given` has none of these forms, names an unknown label, or a label to be balanced has no example.
    """
    if not given or label_ids is None:
        return None
    if list(given) == ["balanced"]:
        times = np.ones(len(label_ids)) if example_weights is None else example_weights
        return _balanced(labels, label_ids, all_occur, times)
    path = ",".join(given)
    return _from_file(labels, path) if path.lower().endswith(".json") else _by_name(labels, given)


def _balanced(labels, label_ids, all_occur, times):
    counts = times @ label_ids if label_ids.ndim == 2 else np.bincount(label_ids, times, len(labels))
    if all_occur and (missing := [label for label, count in zip(labels, counts, strict=True) if not count]):
        raise ValueError(
            f"`class_weights=balanced` requires training examples of every label. There are none of {missing}; pass "
            "label:weight pairs instead."
        )
    weights = times.sum() / (np.count_nonzero(counts) * np.where(counts > 0, counts, 1))
    return tuple(np.where(counts > 0, weights, 1.0).tolist())


def _from_file(labels, path):
    remedy = 'write it as {"label": weight}'
    weights = read_object(path, "an object of labels and their weights (`class_weights`)", remedy)
    for label, weight in weights.items():
        if label not in labels or isinstance(weight, bool) or not _is_positive(weight):
            raise ValueError(
                f"{path}: `class_weights` must give labels weights above 0. Received {label!r}: {weight!r}; the "
                f"labels are {', '.join(map(repr, labels))}."
            )
    return tuple(float(weights.get(label, 1.0)) for label in labels)


def _by_name(labels, pairs):
    weights, parts = {}, []
    for part in pairs:
        parts.append(part)
        label, weight = _pair(",".join(parts), labels)
        if label in weights:
            raise _not_pairs(part, labels)
        if label is not None:  # otherwise the name may continue: the command line is split at its commas, too
            weights[label], parts = weight, []
    if parts:
        raise _not_pairs(parts[0], labels)
    return tuple(weights.get(label, 1.0) for label in labels)


def _pair(text, labels):
    """Returns the label and the weight of label:weight, or (None, None) if it is not such a pair.

    Spaces around the commas in a label's name may be missing.
    """
    name, colon, weight = text.rpartition(":")
    bare = {",".join(map(str.strip, label.split(","))): label for label in labels}
    label = name if name in labels else bare.get(name)
    return (label, float(weight)) if colon and label is not None and _is_positive(weight) else (None, None)


def _not_pairs(received, labels):
    return ValueError(
        "`class_weights` must be `balanced` or comma-separated label:weight pairs, with each label once and each "
        f"weight above 0. Received {received!r}; the labels are {', '.join(map(repr, labels))}."
    )


def _is_positive(text):
    try:
        return 0 < float(text) < float("inf")
    except (TypeError, ValueError):
        return False


# === Distillation ===
# The distance of a model's outputs to a teacher's, softened by a temperature (Hinton et al. 2015, section 2).


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
