"""The trials of a hyperparameter search: folders, metrics, and which are promoted to the next stage."""

import dataclasses
import difflib
import itertools
import math
import os
import pathlib
import random
import re
from collections.abc import Iterable, Mapping, Sequence

from bert_tf.evaluation.metrics import higher_is_better
from bert_tf.evaluation.results import RESULTS_FILE
from bert_tf.experiments.child_runs import read_finished
from bert_tf.utils.settings import Flag

# === Search ===
# What a search tries: values of flags, all combinations of them or some, drawn at random.


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
        """The number of different values."""
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


def parse_axes(text: str, flags: Iterable[Flag]) -> list[Axis]:
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
            raise ValueError(f"`search` names {name} twice. Put its values together.")
        axes.append(_parse_axis(_find_flag(name, known), values))
    if not axes:
        raise ValueError("`search` is empty. Give a flag and its values, such as seed=1,2.")
    return axes


def _find_flag(name: str, known: Mapping[str, Flag]) -> Flag:
    if name in known and known[name].kind != "list":
        return known[name]
    if name in known:
        raise ValueError(f"`search` takes flags with a single value; {name} is a list. Remove it.")
    near = difflib.get_close_matches(name, known, 1)
    remedy = f"did you mean {near[0]}?" if near else "correct it."
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
                f"A `search` with a range requires `trials`, the number of values drawn: {axis.name} is a "
                "range."
            )
    return [_make_point(axes, values) for values in itertools.product(*(axis.values for axis in axes))]


def draw_trials(axes: Sequence[Axis], count: int, seed: int) -> list[dict[str, str]]:
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
        points.setdefault(values, _make_point(axes, values))
    return list(points.values())


def _make_point(axes, values):
    return dict(zip((axis.name for axis in axes), values, strict=True))


# === Trials ===
# The trials of a search: where they lie, how far they are, what they scored, and which of them go on.


@dataclasses.dataclass(frozen=True)
class Trial:
    """One combination of values.

    Attributes:
        number: from 1, in the order of the search.
        values: (flag, value) of what is searched.
    """

    number: int
    values: tuple[tuple[str, str], ...]

    def __str__(self):
        return f"trial {self.number}: {self.shown()}"

    def shown(self) -> str:
        """Returns its values for the reader."""
        return ", ".join(f"{name} {value}" for name, value in self.values)


@dataclasses.dataclass(frozen=True)
class TrialResult:
    """A trial that ended well.

    Attributes:
        trial: which.
        stage: of successive halving, from 1.
        folder: where it lies.
        score: by which it is judged; it may be NaN.
        scores: all that eval_results.txt says.
        seconds: that it took, since it was last started.
        one_answer: what its model answers to every example, so that it has learned nothing; None: it does not.
    """

    trial: Trial
    stage: int
    folder: pathlib.Path
    score: float
    scores: dict[str, float]
    seconds: float
    one_answer: str | None = None

    @property
    def is_of_use(self) -> bool:
        """Whether its score says something: it is a number, and the model gives more than one answer."""
        return self.one_answer is None and not math.isnan(self.score)


@dataclasses.dataclass(frozen=True)
class SuccessiveHalving:
    """Successive halving (Jamieson and Talwalkar 2016, arXiv 1502.07943): short runs of all, longer runs of the best.

    Every stage trains again, with a schedule of its own that ends at rate 0: a run that is cut short would be judged in
    the midst of its schedule.

    Attributes:
        count: of stages; half the trials of each go on, with twice the epochs.
    """

    count: int = 1

    def epochs(self, whole: float, stage: int) -> float:
        """Returns the epochs of a stage, from 1 on, where the last one has `whole`."""
        return whole / 2 ** (self.count - stage)

    def trials(self, whole: int, stage: int) -> int:
        """Returns how many trials a stage has, where the first one has `whole`."""
        return -(-whole // 2 ** (stage - 1))


class Folder:
    """The folder of a search, with its trials and their results.

    Args:
        path: the folder.
        stages: of the search.
        metric: by which trials are judged, as eval_results.txt names it, with or without "eval_".

    Raises:
        ValueError: no program has a score of that name.
    """

    def __init__(self, path: str | os.PathLike, stages: SuccessiveHalving, metric: str):
        self.path, self.stages = pathlib.Path(path), stages
        self.metric = f"eval_{metric.removeprefix('eval_')}"  # trials are scored by do_eval alone
        try:
            self.higher = higher_is_better(self.metric)
        except ValueError as error:
            raise ValueError(
                "`tuning_metric` must be a metric in eval_results.txt, such as accuracy, f1 or loss; "
                f"got {metric!r}."
            ) from error

    def of(self, trial: Trial, stage: int) -> pathlib.Path:
        """Returns the folder of a trial."""
        parent = self.path / f"stage-{stage}" if self.stages.count > 1 else self.path
        return parent / f"trial-{trial.number}"

    def result(self, trial: Trial, stage: int) -> TrialResult | None:
        """Returns the result of a trial; None: it has not finished successfully, or the record of it is damaged.

        Raises:
            ValueError: it was not scored by the metric.
        """
        folder = self.of(trial, stage)

        def build(note, scores, one_answer):
            score, seconds = scores.get(self.metric), float(note["seconds"])
            return TrialResult(trial, stage, folder, score, scores, seconds, one_answer)

        result = read_finished(folder, build)
        if result and result.score is None:
            raise ValueError(
                f"`tuning_metric` must be in {folder / RESULTS_FILE}, one of "
                f"{', '.join(sorted(result.scores))}; got {self.metric!r}."
            )
        return result

    def results(self, trials: Iterable[Trial]) -> list[TrialResult]:
        """Returns what trials came to, in all stages that they have been through: by stage, then as they come."""
        trials = list(trials)
        found = [self.result(trial, stage) for stage in range(1, self.stages.count + 1) for trial in trials]
        return [result for result in found if result]

    def ranked(self, results: Iterable[TrialResult]) -> list[TrialResult]:
        """Returns results from the best to the worst; of equal ones the first comes first.

        Behind them come those whose model gives one answer to all examples, whatever they score, and NaN comes last.
        """
        sign = -1 if self.higher else 1

        def sort_key(result):
            is_none = math.isnan(result.score)
            return is_none, result.one_answer is not None, 0.0 if is_none else sign * result.score

        return sorted(results, key=sort_key)

    def best(self, results: Iterable[TrialResult]) -> TrialResult | None:
        """Returns the best of those that came furthest; None: there is none whose score is a number."""
        results = [result for result in results if not math.isnan(result.score)]
        furthest = max((result.stage for result in results), default=0)
        return next(iter(self.ranked(r for r in results if r.stage == furthest)), None)

    def as_good(self, results: Iterable[TrialResult]) -> list[TrialResult]:
        """Returns the other results with the same score and stage as the best one, which is only listed first."""
        results = list(results)
        best = self.best(results)
        equal = [r for r in results if best and r != best and (r.stage, r.score) == (best.stage, best.score)]
        return [r for r in equal if r.is_of_use == best.is_of_use]


def format_trial_numbers(trials: Iterable[Trial]) -> str:
    """Returns which trials there are, for the reader: "trial 2, trial 4"."""
    return ", ".join(f"trial {trial.number}" for trial in trials)


def numbered(points: Iterable[Mapping[str, str]]) -> list[Trial]:
    """Returns trials of combinations of values."""
    return [Trial(number, tuple(point.items())) for number, point in enumerate(points, 1)]
