"""Which versions of a model are served: TensorFlow Serving's version policies."""

import dataclasses
from collections.abc import Container, Iterable, Iterator


@dataclasses.dataclass(frozen=True)
class Policy:
    """Policy for which of the existing versions are served.

    Attributes:
        newest: this many of the newest; None for all.
        versions: only these; None for any.
    """

    newest: int | None = None
    versions: frozenset[int] | None = None

    def candidates(self, numbers: Iterable[int]) -> list[int]:
        """Returns those of the versions that may be served, the newest first."""
        allowed = numbers if self.versions is None else self.versions & set(numbers)
        return sorted(allowed, reverse=True)

    def missing(self, numbers: Container[int]) -> Iterator[int]:
        """Yields versions that are requested by number and do not exist."""
        return (number for number in sorted(self.versions or ()) if number not in numbers)


LATEST = Policy(newest=1)
ALL = Policy()
