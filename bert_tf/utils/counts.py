"""Counts in messages, where 1 is singular, and shares."""


def number_of(count: int, noun: str) -> str:
    """Returns "1 line", "2 lines", "9,224 lines"; the noun is one that takes an s."""
    return f"{count:,} {noun}{word_for(count, '', 's')}"


def word_for(count: int, one: str, several: str) -> str:
    """Returns the form of a word that agrees with a count: word_for(1, "has", "have") is "has"."""
    return one if count == 1 else several


def list_names(names: list[str]) -> str:
    """Returns names separated by commas; those that contain a comma are quoted."""
    return ", ".join(repr(name) if "," in name else name for name in names)


def percent(share: float, digits: int = 1) -> str:
    """Returns "84.6%" of 0.846."""
    return f"{100 * share:.{digits}f}%"
