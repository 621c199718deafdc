"""Strings in parts of about one size: for calls whose arrays shall stay in the processor's cache."""

import itertools

CHARACTERS = 1 << 18  # of a part, for whatever splits or tokenizes strings in the graph


def batches(strings: list[str], characters: int = CHARACTERS) -> list[list[str]]:
    """Cuts a list, in order, into parts of about so many characters; none is empty unless the list is."""
    ends = [end // characters for end in itertools.accumulate(map(len, strings))]
    cuts = [0, *(i for i in range(1, len(ends)) if ends[i] != ends[i - 1]), len(strings)]
    return [strings[a:b] for a, b in itertools.pairwise(cuts)]
