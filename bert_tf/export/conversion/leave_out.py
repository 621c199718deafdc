"""Weights and settings to leave out of a conversion, as patterns of their names."""

import re
from collections.abc import Iterable


class LeaveOut:
    """The weights and settings to leave out, as patterns that must each match something."""

    def __init__(self, patterns: Iterable[str]):
        self._patterns, self.dropped = list(patterns), []
        self._unused = list(self._patterns)
        for pattern in self._patterns:
            _check_pattern(pattern)

    def drops(self, name: str) -> bool:
        """Returns whether a weight or setting is to be left out, and records it."""
        fitting = [pattern for pattern in self._patterns if re.fullmatch(pattern, name)]
        self._unused = [pattern for pattern in self._unused if pattern not in fitting]
        self.dropped += [name] if fitting else []
        return bool(fitting)

    def check(self):
        """Raises ValueError if a pattern matches nothing."""
        if self._unused:
            raise ValueError(
                f"Every pattern of `leave_out` must match a weight or a setting that the format lacks. Pattern "
                f"{self._unused[0]!r} matches none; remove it."
            )


def _check_pattern(pattern):
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(
            f"`leave_out` must list regular expressions; {pattern!r} is not one: {error}. Write `\\.` for a dot."
        ) from error
