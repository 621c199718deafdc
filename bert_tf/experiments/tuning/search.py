"""What a search tries: values of flags, all combinations of them or some, drawn at random."""

import dataclasses
import difflib
import itertools
import math
import random
import re
from collections.abc import Iterable, Mapping, Sequence

from bert_tf.utils.settings import Flag

_NUMBERS = ("integer", "float")
_RANGE = re.compile(r"(.+?)\.\.(.+)")
_WIDE = 10  # a range whose ends are so many times apart is drawn from evenly on a logarithmic scale


@dataclasses.dataclass(frozen=True)
class Axis:
    """One flag that is searched, with its values, or with a range of numbers.

    Attributes:
        name: of the flag.
        values: as they were written; () where there is a range.
        low, high: the ends of the range, which belong to it.
        whole: the range is of whole numbers.
    """

    name: str
    values: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    whole: bool = False

    @property
    def is_logarithmic(self) -> bool:
        """Whether a range is drawn from evenly on a logarithmic scale: between 1e-5 and 1e-3 half are below 1e-4."""
        return not self.values and self.low > 0 and self.high >= _WIDE * self.low

    @property
    def size(self) -> float:
        """How many different values there are."""
        return len(self.values) or (self.high - self.low + 1 if self.whole else math.inf)

    def draw(self, rng: random.Random) -> str:
        """Returns one value, as it is written on a command line; numbers of a range have three digits."""
        if self.values:
            return rng.choice(self.values)
        if self.whole and not self.is_logarithmic:
            return str(rng.randint(int(self.low), int(self.high)))
        if not self.is_logarithmic:
            return f"{rng.uniform(self.low, self.high):.3g}"
        number = math.exp(rng.uniform(math.log(self.low), math.log(self.high)))
        return str(round(number)) if self.whole else f"{number:.3g}"


def parse(text: str, flags: Iterable[Flag]) -> list[Axis]:
    """Returns the axes of a search such as `learning_rate=1e-5..1e-4;train_batch_size=16,32`, in its order.

    Args:
        text: the search.
        flags: those that may be searched.

    Raises:
        ValueError: it is not like that, or names a flag that is not among them.
    """
    known, axes = {flag.name: flag for flag in flags}, []
    for part in filter(None, map(str.strip, text.split(";"))):
        name, equals, values = part.partition("=")
        name, values = name.strip().removeprefix("--"), [value.strip() for value in values.split(",")]
        if not equals or not all(values):
            raise ValueError(
                "`search` must be name=value,value with `;` between the flags. "
                f"Received {part!r}; write, say, learning_rate=2e-5,5e-5;train_batch_size=16,32."
            )
        if name in {axis.name for axis in axes}:
            raise ValueError(f"`search` must name a flag once. Received {name} twice; put its values together.")
        axes.append(_axis(_find(name, known), values))
    if not axes:
        raise ValueError("`search` must name a flag and its values. Received nothing; name one.")
    return axes


def _find(name: str, known: Mapping[str, Flag]) -> Flag:
    if name in known and known[name].kind != "list":
        return known[name]
    if name in known:
        raise ValueError(f"`search` must be over flags of one value. Received {name}, which is a list; leave it out.")
    near = difflib.get_close_matches(name, known, 1)
    remedy = f"did you mean {near[0]}?" if near else "correct it."
    raise ValueError(f"`search` must name flags that may differ from trial to trial. Received {name!r}; {remedy}")


def _axis(flag: Flag, values: Sequence[str]) -> Axis:
    ends = _RANGE.fullmatch(values[0]) if len(values) == 1 and flag.kind in _NUMBERS else None
    if not ends:
        return Axis(flag.name, tuple(dict.fromkeys(values)))
    try:
        low, high = (int(end) if flag.kind == "integer" else float(end) for end in ends.groups())
    except ValueError:
        low = high = math.nan
    if not low < high < math.inf:
        raise ValueError(
            f"A range of `search` must be low..high, two {'whole ' * (flag.kind == 'integer')}numbers. Received "
            f"{flag.name}={values[0]}; correct it."
        )
    return Axis(flag.name, (), low, high, flag.kind == "integer")


def combinations(axes: Sequence[Axis]) -> list[dict[str, str]]:
    """Returns every combination of the values, {flag: value}; the last flag's value changes fastest.

    Raises:
        ValueError: a flag has a range, of which there is no end.
    """
    for axis in axes:
        if not axis.values:
            raise ValueError(
                f"A `search` with a range must come with `trials`. Received a range of {axis.name} alone; say how "
                "many are drawn."
            )
    return [_point(axes, values) for values in itertools.product(*(axis.values for axis in axes))]


def draw(axes: Sequence[Axis], count: int, seed: int) -> list[dict[str, str]]:
    """Returns `count` different combinations, {flag: value}, or all there are; with a higher count come more of them.

    Args:
        axes: what is searched.
        count: how many are drawn.
        seed: of the draw.
    """
    rng, points = random.Random(seed), {}
    count = min(count, math.prod(axis.size for axis in axes))
    while len(points) < count:
        values = tuple(axis.draw(rng) for axis in axes)
        points.setdefault(values, _point(axes, values))
    return list(points.values())


def _point(axes, values):
    return dict(zip((axis.name for axis in axes), values, strict=True))
