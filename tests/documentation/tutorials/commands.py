"""The shell tutorials: pages of docs/tutorials whose command blocks run in order, in one directory.

A ```bash block is run as it is, a ```python block by a Python of its own, so it imports what it uses. A ```text block
shows lines that the command block before it printed: all of them, with a line of three dots for lines that are left
out. A line that ends with " ..." shows only the beginning of a line. A comment before a block, which no reader sees,
says what a test must know:

    <!-- not run: needs docker -->       why this block cannot be run in a test
    <!-- status 1 -->                    the block exits with this status instead of 0
    <!-- stays until: gRPC on -->        one command that keeps running during the next blocks, which wait for the words
    <!-- by the weights -->              what is printed depends on the weights: it is compared with MiniLM's alone
    <!-- by the training -->             the same, and how the CPU rounds in the training before it matters too: scores
                                         are compared within 0.3 (percentages within 30), and of all other lines, what
                                         does not change with the model
"""

import json
import re
from typing import NamedTuple

_FENCE = re.compile(r"^(?:<!-- ([^\n]*) -->\n+)?```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"not run: (?P<not_run>.+)|status (?P<status>\d+)|stays until: (?P<sign>.+)")
BY_THE_WEIGHTS, BY_THE_TRAINING = "by the weights", "by the training"
_NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_SCORE = re.compile(r"(\w+) = ([\d.]+)")
_KEY = re.compile(r'\s+("\w+"): ')
_HIT = re.compile(r"\s+-?\d\.\d{4}\s+\d+  ")  # of a search: cosine, row, text
_TIME = re.compile(r"^\d\d:\d\d:\d\d ")
_OF_TENSORFLOW = re.compile(r"[IWEF]\d{4} \d\d:\d\d:")  # lines of its libraries, left out where we start it ourselves
PORTS = ("8500", "8501")  # what pages ask on; a test puts free ones in their place


class Shown(NamedTuple):
    """Lines that a page says are printed."""

    text: str
    mark: str | None = None


class Block(NamedTuple):
    """Commands of a page.

    Attributes:
        line: of the page, on which they begin.
        text: bash; for a block of Python, the command that runs it.
        shown: what they print, as far as the page shows it.
        not_run: why they cannot be run in a test; None: they are run.
        status: their exit status.
        sign: words in the log of a command that keeps running; None: it ends.
    """

    line: int
    text: str
    shown: list[Shown]
    not_run: str | None = None
    status: int = 0
    sign: str | None = None


def blocks(text: str) -> list[Block]:
    """Returns the blocks of commands of a page's text, in order.

    Raises:
        ValueError: a block of another kind, one of output before all commands, or a comment that means nothing.
    """
    found = []
    for match in _FENCE.finditer(text):
        mark, language, content = match.groups()
        line = text.count("\n", 0, match.start(3)) + 1
        if language in ("bash", "python"):
            command = content if language == "bash" else f"python - <<'END'\n{content}END\n"
            found.append(Block(line, command, [], **_marks(mark, line)))
        elif language == "text" and found and mark in (None, BY_THE_WEIGHTS, BY_THE_TRAINING):
            found[-1].shown.append(Shown(content, mark))
        else:
            expected = "a block must be bash or Python, or text after it"
            raise ValueError(f"Line {line}: {expected}; got {language!r}, {mark!r}.")
    return found


def _marks(mark, line):
    if mark is None:
        return {}
    if not (match := _MARK.fullmatch(mark)):
        raise ValueError(f"Line {line}: a comment before commands must be one that means something; got {mark}.")
    given = {name: value for name, value in match.groupdict().items() if value}
    return {name: int(value) if name == "status" else value for name, value in given.items()}


def matches(shown: str, printed: str, tolerance: float = 0.0, mark: str | None = None) -> bool:
    """Says whether lines that a page shows are those that were printed.

    Args:
        mark: of the shown lines, or None.
        shown: lines; one of three dots stands for any lines, also none, and three dots at a line's end for its rest.
        printed: all that was printed. Spaces at the ends of lines, and the time of day at their starts, are no matter.
        tolerance: how far numbers with a point may be from each other.
    """
    pattern, lines = _lines(shown), _lines(printed)
    if mark == BY_THE_TRAINING:
        pattern, lines, tolerance = [*map(_form, pattern)], [*map(_form, lines)], 0.3
    reached = {0}  # how many of the printed lines the lines so far may stand for
    for line in pattern:
        if line == "...":
            reached = set(range(min(reached, default=len(lines) + 1), len(lines) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(lines) and _alike(line, lines[at], tolerance)}
    return len(lines) in reached


def _form(line):
    """Returns a score's line, or what of another line does not depend on the model: columns, keys, or its words."""
    if line == "...":
        return line
    if score := _SCORE.fullmatch(line):
        return f"{score[1]} = {float(score[2]) / 100}" if re.fullmatch(r"[1-9]\d+\.\d+", score[2]) else line
    if key := _KEY.match(line):
        return key[1]
    if line.startswith('{"'):
        return " ".join(json.loads(line))
    if _HIT.match(line):
        return "hit"
    if "\t" in line:
        return f"{line.count(chr(9))} tabs"
    return re.sub(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?", "#", line.split(";")[0])


def _lines(text):
    return [_TIME.sub("", line.rstrip()) for line in text.rstrip().split("\n") if not _OF_TENSORFLOW.match(line)]


def _alike(one, other, tolerance):
    """Says whether two lines, or the shown beginning of one, differ in decimal numbers alone, and little in these."""
    if one.endswith(" ..."):
        one = one.removesuffix(" ...")
        other = " ".join(other.split()[: len(one.split())])
    ours, theirs = ([float(number) for number in _NUMBER.findall(line)] for line in (one, other))
    words = {" ".join(_NUMBER.sub("#", line).split()) for line in (one, other)}
    if len(words) > 1 or len(ours) != len(theirs):
        return False
    return all(abs(a - b) <= tolerance for a, b in zip(ours, theirs, strict=True))
