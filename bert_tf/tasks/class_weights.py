"""Weights of the classes in the loss: balanced, from a file, or by name."""

from collections.abc import Sequence

import numpy as np

from bert_tf.utils.json_files import read_object


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
            f"`class_weights=balanced` requires training examples of every label. {missing} have no examples; pass "
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
                f"{path}: `class_weights` must give labels weights above 0; got {label!r}: {weight!r}; the "
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
        f"weight above 0; got {received!r}; the labels are {', '.join(map(repr, labels))}."
    )


def _is_positive(text):
    try:
        return 0 < float(text) < float("inf")
    except (TypeError, ValueError):
        return False
