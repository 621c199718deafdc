"""The texts that the client's user asks about: arguments, or lines."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bert_tf.utils.files import read_lines


def read_choices(texts: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yields (context, choices): of the arguments or, where there are none, of each line of standard input.

    Args:
        texts: the arguments, a context and its choices.

    Raises:
        ValueError: there are fewer than two choices.
    """
    for number, (context, *choices) in [(0, [*map(_clean, texts)])] if texts else _lines():
        if len(choices) < 2 or not all(map(str.strip, choices)):
            where = "Arguments" if texts else f"The texts of line {number}, with tabs between,"
            raise ValueError(
                f"{where} must be a context and two choices at least, none of which is empty. Received "
                f"{[context, *choices]}."
            )
        yield context, choices


def even(inputs: Mapping[str, Sequence]) -> tuple[dict[str, Any], list[int] | None]:
    """Returns what a tensor can hold: where examples have several texts, as many of them each, with "" behind.

    Args:
        inputs: {name: n texts, or n lists of texts}.

    Returns:
        {name: the same, as n lists of one length where it was lists}; the lengths that lists had, None where there
        are no lists.
    """
    counts, made = None, dict(inputs)
    for name, values in inputs.items():
        if len(values) and all(isinstance(value, list | tuple) for value in values):
            counts = [len(value) for value in values]
            made[name] = [[*value, *[""] * (max(counts) - len(value))] for value in values]
    return made, counts


def read_items(texts: Sequence[str], names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yields the texts of each example from the arguments or, where there are none, from standard input.

    Args:
        texts: the arguments, those of an example in turn.
        names: of an example's texts. A line has tabs between them; where there is one text, tabs are part of it.

    Raises:
        ValueError: an example has more or fewer texts than names.
    """
    size = len(names)
    if texts:
        if len(texts) % size:
            raise ValueError(
                f"Arguments must be texts for {', '.join(names)} in turn, {size} to an example. Received {len(texts)}."
            )
        yield from zip(*[map(_clean, texts)] * size, strict=True)
        return
    for number, parts in _lines():
        yield _item(parts, names, number)


def read_file(path: str, names: Sequence[str], last_is_list: bool) -> list[tuple[str | list[str], ...]]:
    """Returns the texts of each example of a file, one a line, with tabs between them.

    Args:
        path: a file of text, which may be packed (.gz).
        names: of an example's texts.
        last_is_list: the last name is of a list, which takes all texts that are left.

    Raises:
        ValueError: an example has more or fewer texts than names, or there is none.
    """
    items = []
    for number, line in enumerate(read_lines(path), start=1):
        parts = line.rstrip("\r\n").split("\t")
        own = len(names) - 1
        items.append((*parts[:own], parts[own:]) if last_is_list else _item(parts, names, number))
    if not items:
        raise ValueError(f"{path} must hold an example a line. Received an empty file; name another.")
    return items


def _item(parts, names, number):
    """Returns the texts of a line."""
    item = tuple(parts) if len(names) > 1 else ("\t".join(parts),)
    if len(item) != len(names):
        raise ValueError(
            f"A line must hold {len(names)} texts, {', '.join(names)}, with tabs between. Received {len(item)} in line "
            f"{number}."
        )
    return item


def _lines():
    """Yields the number of each line of standard input, from 1, and its texts."""
    for number, line in enumerate(sys.stdin.buffer, start=1):
        yield number, line.decode("utf-8", "ignore").rstrip("\r\n").split("\t")


def _clean(argument):
    """Drops bytes that are not UTF-8, as bert_tf does wherever it reads text."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "ignore")
