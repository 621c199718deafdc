"""The search space: values of flags, in all combinations or in a random sample of them."""

import dataclasses
import itertools
import math
import random
import re
from collections.abc import Iterable, Mapping, Sequence

from bert_tf.utils.flag_synonyms import suggest
from bert_tf.utils.settings import Flag

_NUMBERS = ("integer", "float")
_RANGE = re.compile(r"(.+?)\.\.(.+)")
_WIDE = 10  # ranges with at least this ratio of their ends are sampled on a logarithmic scale


@dataclasses.dataclass(frozen=True)
class Axis:
    """A searched flag, with its values or a range of numbers.

    Attributes:
        name: name of the flag.
        values: as written; () for a range.
        low, high: the ends of the range, inclusive.
        whole: whether the range has only whole numbers.
    """

    name: str
    values: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    whole: bool = False

    @property
    def is_logarithmic(self) -> bool:
        """Whether a range is sampled on a logarithmic scale: between 1e-5 and 1e-3, half are below 1e-4."""
        return not self.values and self.low > 0 and self.high >= _WIDE * self.low

    @property
    def size(self) -> float:
        """The number of distinct values."""
        return len(self.values) or (self.high - self.low + 1 if self.whole else math.inf)

    def draw(self, rng: random.Random) -> str:
        """Returns one value as on a command line."""
        if self.values:
            return rng.choice(self.values)
        if self.is_logarithmic:
            return self.format(math.exp(rng.uniform(math.log(self.low), math.log(self.high))))
        if self.whole:
            return self.format(rng.randint(int(self.low), int(self.high)))
        return self.format(rng.uniform(self.low, self.high))

    def format(self, value: str | float) -> str:
        """Returns a value as on a command line; numbers from a range have three digits, unless they are whole."""
        if self.values:
            return value
        return str(round(value)) if self.whole else f"{value:.3g}"


def parse_axes(text: str, flags: Iterable[Flag]) -> list[Axis]:
    """Returns the axes of a search such as `learning_rate=1e-5..1e-4;train_batch_size=16,32`, in order.

    Args:
        text: the search.
        flags: flags of the command.

    Raises:
        ValueError: it is malformed, or names a flag that the command does not have, that is a list, or that does not
            affect the result.
    """
    known, axes = {name: flag for flag in flags for name in (flag.name, *flag.aliases)}, []
    for part in filter(None, map(str.strip, text.split(";"))):
        name, equals, values = part.partition("=")
        name, values = name.strip().removeprefix("--"), [value.strip() for value in values.split(",")]
        if not equals or not all(values):
            raise ValueError(
                "`search` must be name=value,value with `;` between the flags; "
                f"got {part!r}. Example: learning_rate=2e-5,5e-5;train_batch_size=16,32."
            )
        flag = _find_flag(name, known)
        if flag.name in {axis.name for axis in axes}:
            raise ValueError(f"`search` names {flag.name} twice. Put its values together.")
        axes.append(_parse_axis(flag, values))
    if not axes:
        raise ValueError("`search` is empty. Give a flag and its values, such as seed=1,2.")
    return axes


def _find_flag(name: str, known: Mapping[str, Flag]) -> Flag:
    flag = known.get(name)
    if flag and not flag.decides_result:
        raise ValueError(
            f"`search` cannot vary {name!r} between trials, because it does not affect their results, or tune sets it "
            "itself. Remove it."
        )
    if flag and flag.kind == "list":
        raise ValueError(f"`search` takes flags with a single value; {name} is a list. Remove it.")
    if flag:
        return flag
    near = suggest(name, [flag.name for flag in known.values() if flag.decides_result])
    remedy = f"did you mean {near}?" if near else "check its spelling."
    raise ValueError(f"`search` cannot vary {name!r} between trials; {remedy}")


def _parse_axis(flag: Flag, values: Sequence[str]) -> Axis:
    ends = _RANGE.fullmatch(values[0]) if len(values) == 1 and flag.kind in _NUMBERS else None
    if not ends:
        return Axis(flag.name, tuple(dict.fromkeys(values)))
    try:
        low, high = (int(end) if flag.kind == "integer" else float(end) for end in ends.groups())
    except ValueError:
        low = high = math.nan
    if not low < high < math.inf:
        raise ValueError(
            f"A range of `search` must be low..high, two {'whole ' * (flag.kind == 'integer')}numbers; got "
            f"{flag.name}={values[0]}."
        )
    return Axis(flag.name, (), low, high, flag.kind == "integer")


def combinations(axes: Sequence[Axis]) -> list[dict[str, str]]:
    """Returns every combination of the values, {flag: value}; the last flag's value changes fastest.

    Raises:
        ValueError: a flag has a range, which cannot be enumerated.
    """
    for axis in axes:
        if not axis.values:
            raise ValueError(
                f"A `search` with a range requires `trials`, the number of values drawn: {axis.name} is a "
                "range."
            )
    return [_make_point(axes, values) for values in itertools.product(*(axis.values for axis in axes))]


def draw_trials(axes: Sequence[Axis], count: int, seed: int) -> list[dict[str, str]]:
    """Returns `count` different combinations, {flag: value}, or all if there are fewer; a higher count adds more.

    Args:
        axes: the search space.
        count: number of combinations.
        seed: seed of the sample.
    """
    rng, points = random.Random(seed), {}
    count = min(count, math.prod(axis.size for axis in axes))
    while len(points) < count:
        values = tuple(axis.draw(rng) for axis in axes)
        points.setdefault(values, _make_point(axes, values))
    return list(points.values())


def _make_point(axes, values):
    return dict(zip((axis.name for axis in axes), values, strict=True))
