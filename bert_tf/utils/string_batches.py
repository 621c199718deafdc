"""Lists of strings in chunks of similar size, so that arrays stay in the CPU cache."""

import itertools

CHARACTERS = 1 << 18  # per chunk, for splitting or tokenizing strings in the graph


def split_by_characters(strings: list[str], characters: int = CHARACTERS) -> list[list[str]]:
    """Splits a list, in order, into chunks of about this many characters; none is empty unless the list is."""
    ends = [end // characters for end in itertools.accumulate(map(len, strings))]
    cuts = [0, *(i for i in range(1, len(ends)) if ends[i] != ends[i - 1]), len(strings)]
    return [strings[a:b] for a, b in itertools.pairwise(cuts)]
