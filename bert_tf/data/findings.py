"""Findings of the data checks, and their thresholds."""

import dataclasses
import itertools
from collections.abc import Iterable

from bert_tf.utils.counts import word_for
from bert_tf.utils.token_counts import LARGE_SHARE

_SHOWN = 5  # positions shown in a line of text
_KEPT = 1000  # positions of a finding

# From this share on a finding is a warning, below it a note: real data sets have a few of each. GLUE's, SQuAD and
# CoNLL-2003 stay below all of them but where they cannot.
DUPLICATES = 0.05  # of a file's examples
CONTRADICTIONS = 0.01  # of a file's examples
OVERLAP = 0.02  # of the evaluation file's examples
EMPTY = 0.001  # of a file's examples
LISTS = 0.5  # of a file's examples: fewer are no finding
DAMAGED = 0.005  # of a file's lines
CUT = LARGE_SHARE  # of a file's examples: at 128 tokens, GLUE's recipe, only RTE is above it, with 0.13


@dataclasses.dataclass(frozen=True)
class DataFinding:
    """A probable mistake in a data file.

    Attributes:
        kind: a stable name, such as "duplicates"; docs/guides/prepare_data.md lists them.
        path: the file.
        count: number of examples, labels or lines affected.
        what: the finding, without the file name.
        remedy: the suggested fix.
        places: positions of the first ones, such as "line 3"; the key of bert-tf data check --json.
        is_warning: whether it is a warning; if False, it is a note, because too few are affected to do harm.
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
        """The finding, its positions and the suggested fix, without the file name."""
        return self.text_with()

    def text_with(self, source: str | None = None) -> str:
        """Returns `text`; if not all positions fit, it names `source` as the place that lists them."""
        shown = ", ".join(self.places[:_SHOWN])
        if len(self.places) > _SHOWN:
            kept = "all" if len(self.places) < _KEPT else f"the first {_KEPT:,}"
            shown += ", ..." + (f"; {kept}: {source}" if source else "")
        return f"{self.what}{f' ({shown})' if shown else ''}; {self.remedy}."


def format_positions(path: str, positions: Iterable[str]) -> tuple[str, ...]:
    """Returns the first 1,000 of these positions, "file:3" or "file: row 3", without the name of the file `path`."""
    rests = [position.removeprefix(path) for position in itertools.islice(positions, _KEPT)]
    return tuple(f"line {rest[1:]}" if rest[1:].isdigit() else rest.removeprefix(": ") for rest in rests)


def first_lines(numbers: Iterable[int]) -> tuple[str, ...]:
    """Returns the first 1,000 of these lines, formatted as positions."""
    return tuple(f"line {number}" for _, number in zip(range(_KEPT), numbers, strict=False))


def format_share(count: int, of: int, what: str, verb: tuple[str, str] | None = None) -> str:
    """Returns "34 of 2,490 examples (1.4%)", followed by the verb in the singular or plural."""
    percent = 100 * count / max(1, of)
    number = f"{percent:.0f}" if percent >= 10 else f"{percent:.2g}"
    return f"{count:,} of {of:,} {what} ({number}%)" + (f" {word_for(count, *verb)}" if verb else "")
