"""Which versions of a model are served: TensorFlow Serving's version policies."""

import dataclasses
from collections.abc import Container, Iterable, Iterator


@dataclasses.dataclass(frozen=True)
class Policy:
    """Which of the versions that are there are served.

    Attributes:
        newest: so many of the newest; None: all.
        versions: only these; None: any.
    """

    newest: int | None = None
    versions: frozenset[int] | None = None

    def candidates(self, numbers: Iterable[int]) -> list[int]:
        """Returns those of the versions that may be served, the newest first."""
        allowed = numbers if self.versions is None else self.versions & set(numbers)
        return sorted(allowed, reverse=True)

    def missing(self, numbers: Container[int]) -> Iterator[int]:
        """Yields versions that are asked for by number and are not there."""
        return (number for number in sorted(self.versions or ()) if number not in numbers)


LATEST = Policy(newest=1)
ALL = Policy()
