"""What the look at the data finds, and from when on it is a warning."""

import dataclasses
from collections.abc import Callable, Iterable

from bert_tf.utils.counts import word_for

_SHOWN = 5  # places in a line of text
_KEPT = 1000  # places of a finding

# From this share on a finding is a warning, below it a note: real data sets have a few of each. GLUE's, SQuAD and
# CoNLL-2003 stay below all of them but where they cannot.
DUPLICATES = 0.05  # of a file's examples
CONTRADICTIONS = 0.01  # of a file's examples
OVERLAP = 0.02  # of the evaluation file's examples
EMPTY = 0.001  # of a file's examples
DAMAGED = 0.005  # of a file's lines
CUT = 0.2  # of a file's examples: at 128 pieces, GLUE's recipe, RTE has 0.13


@dataclasses.dataclass(frozen=True)
class Finding:
    """Something in a file of examples that is probably a mistake.

    Attributes:
        kind: a name that stays, such as "duplicates"; docs/check_data.md lists them.
        path: the file.
        count: how many examples, labels or lines it is about.
        what: what was found, without the file's name.
        remedy: what to do.
        places: where the first of them are: "line 3", or as the file counts.
        is_warning: False: a note, since there are too few to do harm.
    """

    kind: str
    path: str
    count: int
    what: str
    remedy: str
    places: tuple[str, ...] = ()
    is_warning: bool = True

    def __str__(self):
        return f"{self.path}: {self.text}"

    @property
    def text(self) -> str:
        """What was found, where and what to do, without the file's name."""
        return self.text_with()

    def text_with(self, source: str | None = None) -> str:
        """Returns `text`; behind places that are too many for it stands which source has them all."""
        shown = ", ".join(self.places[:_SHOWN])
        if len(self.places) > _SHOWN:
            kept = "all" if len(self.places) < _KEPT else f"the first {_KEPT:,}"
            shown += ", ..." + (f"; {kept}: {source}" if source else "")
        return f"{self.what}{f' ({shown})' if shown else ''}; {self.remedy}."


def places_of(path: str, where: Callable[[int], str], indices: Iterable[int]) -> tuple[str, ...]:
    """Returns where the first 1,000 of these examples are, without the file's name.

    Args:
        path: the file.
        where: index -> "file:3", or "file: row 3".
        indices: of the examples.
    """
    rests = [where(int(i)).removeprefix(path) for _, i in zip(range(_KEPT), indices, strict=False)]
    return tuple(f"line {rest[1:]}" if rest[1:].isdigit() else rest.removeprefix(": ") for rest in rests)


def lines(numbers: Iterable[int]) -> tuple[str, ...]:
    """Returns the first 1,000 of these lines as places."""
    return tuple(f"line {number}" for _, number in zip(range(_KEPT), numbers, strict=False))


def share(count: int, of: int, what: str, verb: tuple[str, str] | None = None) -> str:
    """Returns "34 of 2,490 examples (1.4 %)", and behind it the form of the verb for one or for several."""
    percent = 100 * count / max(1, of)
    number = f"{percent:.0f}" if percent >= 10 else f"{percent:.2g}"
    return f"{count:,} of {of:,} {what} ({number} %)" + (f" {word_for(count, *verb)}" if verb else "")
