"""The texts that the client's user asks about: arguments, or lines."""

import sys
from collections.abc import Iterator, Sequence


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
    for number, line in enumerate(sys.stdin.buffer, start=1):
        text = line.decode("utf-8", "ignore").rstrip("\r\n")
        item = tuple(text.split("\t")) if size > 1 else (text,)
        if len(item) != size:
            raise ValueError(
                f"A line must hold {size} texts, {', '.join(names)}, with tabs between. Received {len(item)} in line "
                f"{number}."
            )
        yield item


def _clean(argument):
    """Drops bytes that are not UTF-8, as bert_tf does wherever it reads text."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "ignore")
