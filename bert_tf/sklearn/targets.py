"""Targets that the estimators accept: labels, label sets, values and tags, checked before any work."""

from collections.abc import Iterable, Sequence

import numpy as np
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from bert_tf.evaluation.entities import split_tag
from bert_tf.sklearn.texts import column_names
from bert_tf.utils.text_inputs import present_list


def check_targets(y, inputs: Sequence):
    """Raises ValueError if there are no targets."""
    if y is None:
        raise ValueError("`y` must be given: requires y to be passed, but the target y is None.")
    check_consistent_length(inputs, y)


def as_labels(y, texts: Sequence) -> np.ndarray:
    """Returns n labels, one for each text: strings, integers or booleans.

    Raises:
        ValueError: the numbers of labels and texts differ, labels are missing or continuous, or one has several lines.
    """
    check_targets(y, texts)
    labels = column_or_1d(y, warn=True)
    assert_all_finite(labels, input_name="y")
    if None in (names := labels.tolist()):
        raise ValueError(
            f"`y` must not have missing labels; got None for text {names.index(None)}; remove such texts, or "
            "label them."
        )
    check_classification_targets(labels)
    for n, label in enumerate(names):
        _check_line(label, n)
    return labels


def has_label_sets(y) -> bool:
    """Returns whether each text may have several labels: `y` is a matrix, or a list of lists of labels."""
    shape = getattr(y, "shape", ())
    if len(shape) == 2:
        return shape[1] > 1
    return isinstance(y, Iterable) and any(isinstance(each, list | tuple | set | frozenset | np.ndarray) for each in y)


def as_label_sets(y, texts: Sequence) -> np.ndarray | list[frozenset[str]]:
    """Returns the labels of n texts: an indicator matrix int64 [n, L], or n sets of label names.

    Args:
        y: a matrix of 0 and 1, dense or sparse, or a DataFrame of such columns; or a list of lists of strings.
        texts: the n texts.

    Raises:
        ValueError: the numbers of texts differ, or it is neither of these.
    """
    columns = column_names(y)
    y = y.toarray() if hasattr(y, "toarray") else y
    y = np.stack([np.asarray(y[name]) for name in columns], 1) if columns else y
    if len(getattr(y, "shape", ())) == 2:
        check_consistent_length(texts, y)
        return _indicator(y)
    check_targets(y, texts)
    sets = [each.tolist() if isinstance(each, np.ndarray) else each for each in y]
    values = [value for each in sets if isinstance(each, Iterable) for value in each]
    if values and not any(isinstance(value, str) for value in values):
        return _indicator(_matrix(sets))
    for n, names in enumerate(sets):
        if isinstance(names, str) or not isinstance(names, Iterable) or not all(isinstance(m, str) for m in names):
            raise _no_label_sets(f"{names!r:.80} for text {n}")
        for name in names:
            _check_line(name, n)
    return [frozenset(map(str, names)) for names in sets]


def _matrix(sets):
    try:
        return np.array(sets)
    except ValueError as error:  # of unequal lengths
        raise _no_label_sets(f"{sets[0]!r:.80} and others of another length") from error


def _indicator(matrix):
    if matrix.ndim != 2 or matrix.shape[1] < 2 or not np.isin(matrix, (0, 1)).all():
        odd = matrix[~np.isin(matrix, (0, 1))] if matrix.ndim == 2 else []
        raise _no_label_sets(f"{odd.flat[0]}" if len(odd) else f"an array of shape {matrix.shape}")
    return matrix.astype(np.int64)


def _no_label_sets(received):
    return ValueError(
        "`y` must be one label per text; or, for several labels per text, a matrix of 0 and 1 with at least two "
        f"columns, or a list of labels (strings) per text; got {received}."
    )


def _check_line(label, n):
    if isinstance(label, str) and {"\n", "\r"} & set(label):
        raise ValueError(
            f"Each label in `y` must be a single line, because labels are stored one per line; got {label!r:.80} for "
            f"text {n}. Remove the line breaks."
        )


def as_values(y, texts: Sequence) -> np.ndarray:
    """Returns n finite numbers, float64, one for each text.

    Raises:
        ValueError: the numbers of values and texts differ, or a value is missing, infinite or not a number.
    """
    check_targets(y, texts)
    values = column_or_1d(y, warn=True)
    try:
        values = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`y` must be numbers. Unknown label type: {error}.") from error
    assert_all_finite(values, input_name="y")
    return values


def as_tags(y, sentences: list[list[str]]) -> list[list[str]]:
    """Returns the tags of n sentences, one per word.

    Raises:
        ValueError: the numbers of sentences or of words differ, or a tag is not an entity tag such as B-PER.
    """
    check_targets(y, sentences)
    tags = [each.tolist() if isinstance(each, np.ndarray) else each for each in present_list(y, "y")]
    for n, (own, words) in enumerate(zip(tags, sentences, strict=True)):
        if not isinstance(own, list | tuple) or not all(isinstance(tag, str) for tag in own):
            raise ValueError(
                f"`y` must be a list of tags per sentence; got {own!r:.80} for sentence {n}."
            )
        if len(own) != len(words):
            raise ValueError(
                f"`y` must have one tag per word; got {len(own)} tags for the {len(words)} words of sentence {n}."
            )
        for tag in own:
            try:
                split_tag(tag)
            except ValueError as error:
                raise ValueError(f"`y`, sentence {n}: {error}") from error
    return [list(map(str, own)) for own in tags]
