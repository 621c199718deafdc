"""Texts that the estimators accept: lists, arrays, Series and DataFrames, checked before any work."""

from collections.abc import Iterable

import numpy as np

from bert_tf.utils.text_inputs import present_list, text_list


def column_names(table) -> list[str] | None:
    """Returns the names of a DataFrame's columns; None for anything else."""
    columns = getattr(table, "columns", None)
    return None if columns is None or callable(columns) else list(columns)


def as_texts(X: Iterable, pairs: bool = False) -> list[str] | list[tuple[str, str]]:
    """Returns n texts or, with `pairs`, n texts or n pairs of texts.

    Args:
        X: a list, array or Series of texts; a list of pairs, or an array [n, 2]; a DataFrame with one or two columns.
        pairs: accept pairs.

    Raises:
        ValueError: there are no texts, an element is missing or not a text, or texts and pairs are mixed.
    """
    columns = column_names(X)
    if columns is None:
        texts = text_list(X, "X", pairs)
    elif 1 <= len(columns) <= 1 + pairs:
        lists = [text_list(X[name], "X") for name in columns]
        texts = list(zip(*lists, strict=True)) if len(lists) == 2 else lists[0]
    else:
        raise ValueError(
            f"`X` must have one column of texts{', or two of text pairs' if pairs else ''}; got a "
            f"{type(X).__name__} of {len(columns)}: {', '.join(map(str, columns))}; choose columns of it."
        )
    if not texts:
        raise ValueError("`X` is empty: 0 sample(s), but at least one text is required.")
    return texts


def as_sentences(X: Iterable) -> list[list[str]]:
    """Returns the words of n sentences; those of a text are separated by whitespace.

    Raises:
        ValueError: there are no sentences, one has no words, a word is not a text or blank, or it is a table.
    """
    sentences = []
    for n, sentence in enumerate(present_list(X, "X")):
        words = sentence.split() if isinstance(sentence, str) else sentence
        words = words.tolist() if isinstance(words, np.ndarray) else words
        if not isinstance(words, list | tuple) or not words or not all(isinstance(w, str) and w.strip() for w in words):
            raise ValueError(
                "`X` must be lists of words, or texts, with at least one word each and without blank words; got "
                f"{sentence!r:.80} at position {n}; remove it, or fill it in."
            )
        sentences.append(list(map(str, words)))
    if not sentences:
        raise ValueError("`X` is empty: 0 sample(s), but at least one sentence is required.")
    return sentences


def with_string_input(tags):
    """Returns the scikit-learn tags of an estimator that takes strings."""
    tags.input_tags.one_d_array = tags.input_tags.string = True
    tags.input_tags.two_d_array = False
    if tags.transformer_tags:
        tags.transformer_tags.preserves_dtype = []
    return tags
