"""What tasks with labels share: losses, class weights, soft targets, the BiLSTM option."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from bert_tf.models.recurrent import RECURRENT
from bert_tf.utils.settings import Settings

# === Losses ===
# The loss of a choice among labels, and how much the examples of each label weigh in it.


def cross_entropy(
    logits: tf.Tensor, target: tf.Tensor, weights: tf.Tensor | None = None, smoothing: float = 0.0
) -> tf.Tensor:
    """Returns the loss of each of n choices among L labels, as torch.nn.CrossEntropyLoss(weight=, label_smoothing=).

    The target is 1 - e + e/L for the label and e/L for each other (Szegedy et al. 2015, section 7). Weights apply
    to the terms of the sum over the labels, so that each label's part of a smoothed target has that label's weight.

    Args:
        logits: float32 [n, L].
        target: int32 [n].
        weights: of the labels, float32 [L]; None: 1 each.
        smoothing: e.

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


def class_weights(
    given: Sequence[str] | None, labels: Sequence[str], label_ids, all_occur: bool = True
) -> tuple[float, ...] | None:
    """Returns a weight for each label; None where nothing was given, or nothing is trained.

    `balanced` is n / (L * count) for each of the L labels of n examples, as in scikit-learn: each label then has
    the same total weight. With several labels per example, count is the number of examples that have the label.

    Args:
        given: "balanced" alone, or "label:weight" each; labels that are not named have 1.
        labels: the L names.
        label_ids: of the training examples, int [n] or [n, L] of 0 and 1; None where nothing is trained.
        all_occur: each label must have an example to be balanced; otherwise one without has weight 1, and the others
            are balanced among themselves.

    Raises:
        ValueError: what was given is not that, names no label, or a label to be balanced has no example.
    """
    if not given or label_ids is None:
        return None
    return _balanced(labels, label_ids, all_occur) if list(given) == ["balanced"] else _by_name(labels, given)


def _balanced(labels, label_ids, all_occur):
    counts = label_ids.sum(0) if label_ids.ndim == 2 else np.bincount(label_ids, minlength=len(labels))
    if all_occur and (missing := [label for label, count in zip(labels, counts, strict=True) if not count]):
        raise ValueError(
            f"`class_weights=balanced` must have training examples of every label. Received none of {missing}; give "
            "the weights as label:weight pairs."
        )
    weights = len(label_ids) / (np.count_nonzero(counts) * np.maximum(counts, 1))
    return tuple(np.where(counts > 0, weights, 1.0).tolist())


def _by_name(labels, pairs):
    weights, parts = {}, []
    for part in pairs:
        parts.append(part)
        label, weight = _pair(",".join(parts), labels)
        if label in weights:
            raise _not_pairs(part, labels)
        if label is not None:  # else the name may go on: a command line is split at its commas, too
            weights[label], parts = weight, []
    if parts:
        raise _not_pairs(parts[0], labels)
    return tuple(weights.get(label, 1.0) for label in labels)


def _pair(text, labels):
    """Returns the label and the weight of label:weight; (None, None) where it is none.

    Blanks at the commas of a label's name may be gone.
    """
    name, colon, weight = text.rpartition(":")
    bare = {",".join(map(str.strip, label.split(","))): label for label in labels}
    label = name if name in labels else bare.get(name)
    return (label, float(weight)) if colon and label is not None and _is_positive(weight) else (None, None)


def _not_pairs(received, labels):
    return ValueError(
        "`class_weights` must be `balanced` or label:weight pairs with commas between them, each label once, each "
        f"weight over 0. Received {received!r}; the labels are {', '.join(map(repr, labels))}."
    )


def _is_positive(text):
    try:
        return 0 < float(text) < float("inf")
    except ValueError:
        return False


# === Texts ===
# What most tasks do with the texts to answer: one row for each, read from its first token on.


def single_rows(tokenizer, texts, max_seq_length: int) -> dict[str, tf.Tensor]:
    """Returns one row for each text or pair, cut as `Tokenizer.pack` cuts; what `Served.read` is for most tasks.

    Args: as `Served.read`.

    Returns:
        what `tokenizer.pad` returns, int32 [n, S]; S is the longest row's, and 1 where there is no text at all, since a
        pooler needs a first token.
    """
    packed = tokenizer.pack(*map(tokenizer.tokenize, texts), max_seq_length=max_seq_length)
    return padded(tokenizer, packed)


def padded(tokenizer, packed) -> dict[str, tf.Tensor]:
    """Returns what `tokenizer.pad` makes of rows of any length, int32 [w, S], with S at least 1."""
    return {name: at_least_one(values) for name, values in tokenizer.pad(packed).items()}


def at_least_one(values: tf.Tensor) -> tf.Tensor:
    """Returns values [..., S] as they are, or with one column of zeros where S is 0."""
    missing = tf.maximum(0, 1 - tf.shape(values)[-1])
    return tf.pad(values, [[0, 0]] * (values.shape.rank - 1) + [[0, missing]])


# === Soft targets ===
# How far a model's answers are from a teacher's, softened by a temperature (Hinton et al. 2015, section 2).


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


# === Recurrent ===
# A BiLSTM between the encoder and the head, as the paper puts it on its left-to-right model (section 5.1).


RECURRENT_HEAD = (f"{RECURRENT}/.*",)  # the paths of its weights


def read_lstm_units(settings: Settings) -> int | None:
    """Returns the units of each direction of the BiLSTM that the settings ask for; None: there is to be none.

    Raises:
        ValueError: it does not go together with another setting.
    """
    units = settings.get("lstm_units")
    if units and settings.lora_rank:
        raise ValueError(
            "`lstm_units` must come without `lora_rank`, for adapters are kept in a form that has no BiLSTM. Received "
            f"`lstm_units={units}` and `lora_rank={settings.lora_rank}`; leave one of the two out."
        )
    return units


def lstm_option(units: int | None) -> dict[str, int]:
    """Returns what task.json, and what a run must have alike to be continued, say of a BiLSTM; {}: there is none."""
    return {"lstm_units": units} if units else {}
