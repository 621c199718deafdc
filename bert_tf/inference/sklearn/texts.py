"""What the estimators take for texts and for labels: lists, one-dimensional arrays, Series."""

from collections.abc import Iterable

import numpy as np
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from bert_tf.data.tables import Examples
from bert_tf.utils.text_lists import text_list


def as_texts(texts: Iterable[str]) -> list[str]:
    """Returns n texts as a list.

    Raises:
        ValueError: there is none, something is no string, or it is one text, or a table of them.
    """
    texts = text_list(texts, "X")
    if not texts:
        raise ValueError("`X` must hold a text at least. Received none, 0 sample(s); check where they come from.")
    return texts


def as_examples(texts: list[str], labels: list[str] | None = None) -> Examples:
    """Returns texts, and the names of their labels, as a task reads them."""
    places = [str(n) for n in range(len(texts))]
    return Examples(places, texts, None, labels, "X", list(range(len(texts))))


def as_labels(labels, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the classes, sorted, [L], and the place of each text's class among them, int [n].

    Args:
        labels: n of them, strings, integers or booleans.
        texts: the n texts.

    Raises:
        ValueError: there are more or fewer labels than texts, they are numbers on a scale, one is no single line, or
            all are the same.
    """
    if labels is None:
        raise ValueError("`y` must be a label for each text: requires y to be passed, but the target y is None.")
    labels = column_or_1d(labels, warn=True)
    check_consistent_length(texts, labels)
    assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    classes, places = np.unique(labels, return_inverse=True)
    if broken := [i for i, name in enumerate(classes.tolist()) if isinstance(name, str) and {"\n", "\r"} & set(name)]:
        place = int(np.flatnonzero(places == broken[0])[0])
        raise ValueError(
            f"`y` must be labels of one line of text each, as they are kept one a line. Received "
            f"{str(classes[broken[0]])!r:.80} for text {place}; write it without line breaks."
        )
    if len(classes) < 2:
        raise ValueError(
            f"`y` must have two classes to tell apart. Received one class, {classes[0]!r}, for all {len(texts)} texts; "
            "add texts of another."
        )
    return classes, places


def as_places(labels, texts: list[str], classes: np.ndarray) -> np.ndarray:
    """Returns the place of each text's label among `classes`, int [n].

    Raises:
        ValueError: there are more or fewer labels than texts, or one is no class.
    """
    labels = column_or_1d(labels, warn=True)
    check_consistent_length(texts, labels)
    place = {name: i for i, name in enumerate(classes.tolist())}
    if strange := [name for name in labels.tolist() if name not in place]:
        raise ValueError(f"`y` must be of the classes {list(place)}. Received: {strange[0]!r}; leave such texts out.")
    return np.array([place[name] for name in labels.tolist()])
