"""What need not come along in a conversion: weights, and settings, by patterns of their names."""

import re
from collections.abc import Iterable


class Choice:
    """What shall stay behind, by patterns of which each must mean something."""

    def __init__(self, patterns: Iterable[str]):
        self._patterns, self.dropped = list(patterns), []
        self._unused = list(self._patterns)
        for pattern in self._patterns:
            _check_pattern(pattern)

    def drops(self, name: str) -> bool:
        """Says whether a weight or setting shall stay behind, and remembers it."""
        fitting = [pattern for pattern in self._patterns if re.fullmatch(pattern, name)]
        self._unused = [pattern for pattern in self._unused if pattern not in fitting]
        self.dropped += [name] if fitting else []
        return bool(fitting)

    def check(self):
        """Raises ValueError where a pattern means nothing that is there."""
        if self._unused:
            raise ValueError(
                f"Every pattern of `leave_out` must match a weight or a setting that the format lacks. Received "
                f"{self._unused[0]!r}, which matches none; leave it out."
            )


def _check_pattern(pattern):
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(
            f"Each of `leave_out` must be a regular expression. Received {pattern!r}: {error}; write `\\.` for a dot."
        ) from error
