"""The texts to predict, from arguments or lines, and in the form of a model's inputs."""

import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bert_tf.serving.client.requests import LISTS
from bert_tf.utils.files import decode_argument, read_lines


def read_list_arguments(texts: Sequence[str], names: tuple[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Yields a text and its list, such as (context, choices): from the arguments or, if there are none, from each line
    of standard input.

    Args:
        texts: the arguments.
        names: a key of `LISTS`.

    Raises:
        ValueError: the list has too few texts, or an empty one.
    """
    fewest, meaning = LISTS[names]
    for number, (first, *others) in [(0, [*map(decode_argument, texts)])] if texts else _lines():
        if len(others) < fewest or not all(map(str.strip, others)):
            where = "The arguments" if texts else f"The tab-separated texts of line {number}"
            raise ValueError(f"{where} must be {meaning}, none of them empty; got {[first, *others]}.")
        yield first, others


def even(inputs: Mapping[str, Sequence]) -> tuple[dict[str, Any], list[int] | None]:
    """Pads lists of texts with "" to one length, at least 1, so that they fit into a tensor of strings.

    Args:
        inputs: {name: n texts, or n lists of texts}.

    Returns:
        {name: the same, with lists padded to one length}; the original lengths of lists, or None if there
        are no lists.
    """
    counts, made = None, dict(inputs)
    for name, values in inputs.items():
        if len(values) and all(isinstance(value, list | tuple) for value in values):
            counts = [len(value) for value in values]
            made[name] = [[*value, *[""] * (max(1, *counts) - len(value))] for value in values]
    return made, counts


def read_items(texts: Sequence[str], names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yields the texts of each example from the arguments or, if there are none, from standard input.

    Args:
        texts: the arguments, the texts of one example after another.
        names: names of an example's texts. A line has tabs between them; with a single text, tabs are part of it.

    Raises:
        ValueError: an example has more or fewer texts than names.
    """
    size = len(names)
    if texts:
        if len(texts) % size:
            raise ValueError(
                f"The arguments must be texts for {', '.join(names)} in turn, {size} per example; got {len(texts)}."
            )
        yield from zip(*[map(decode_argument, texts)] * size, strict=True)
        return
    for number, parts in _lines():
        yield _item(parts, names, number)


def read_text_columns(path: str, names: Sequence[str], last_is_list: bool) -> list[tuple[str | list[str], ...]]:
    """Returns the texts of each example of a file, with one example per line and tabs between texts.

    Args:
        path: a text file, which may be gzipped.
        names: names of an example's texts.
        last_is_list: whether the last name is a list, which takes all remaining texts.

    Raises:
        ValueError: an example has more or fewer texts than names, or the file is empty.
    """
    items: list[tuple[str | list[str], ...]] = []
    for number, line in enumerate(read_lines(path), start=1):
        parts = line.rstrip("\r\n").split("\t")
        own = len(names) - 1
        items.append((*parts[:own], parts[own:]) if last_is_list else _item(parts, names, number))
    if not items:
        raise ValueError(f"{path} is empty. It must have one example per line.")
    return items


def _item(parts, names, number):
    """Returns the texts of a line."""
    item = tuple(parts) if len(names) > 1 else ("\t".join(parts),)
    if len(item) != len(names):
        raise ValueError(
            f"Each line must contain {len(names)} tab-separated texts ({', '.join(names)}); got {len(item)} in line "
            f"{number}."
        )
    return item


def _lines():
    """Yields the number of each line of standard input, from 1, and its texts."""
    for number, line in enumerate(sys.stdin.buffer, start=1):
        yield number, line.decode("utf-8", "ignore").rstrip("\r\n").split("\t")


def to_inputs(items: Sequence[Any], names: Sequence[str]) -> dict[str, list]:
    """Returns {name: n texts} of n examples.

    Args:
        items: dictionaries {name: text}; or tuples of texts in the order of `names`; or texts, if there is one name.

    Raises:
        ValueError: an example's texts do not match the names.
    """
    table = {name: [] for name in names}
    for item in items:
        parts = item if isinstance(item, Mapping) else dict(zip(names, _parts(item), strict=False))
        if set(parts) != set(names) or not isinstance(item, Mapping) and len(_parts(item)) != len(names):
            form = f"be a string, or a dictionary with the key {names[0]!r}"
            if len(names) > 1:
                form = f"have the texts {', '.join(names)}, in a tuple in this order or a dictionary with these keys"
            raise ValueError(f"Each example must {form}; got {str(item):.100}.")
        for name, text in parts.items():
            table[name].append(text)
    return table


def chunks(items: Iterable[Any], size: int) -> Iterator[list]:
    """Yields lists of `size` items, the last one with the rest."""
    items = iter(items)
    while chunk := list(itertools.islice(items, size)):
        yield chunk


def _parts(item):
    if isinstance(item, str | bytes):
        return (item,)
    if isinstance(item, Sequence):
        return tuple(item)
    raise ValueError(f"An item must be a string, a tuple of strings or a dictionary; got {item!r:.99}.")
