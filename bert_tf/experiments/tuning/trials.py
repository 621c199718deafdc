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
# The search space: values of flags, in all combinations or in a random sample of them.


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
        flags: of the command.

    Raises:
        ValueError: it is malformed, or names a flag that the command does not have, that is a list, or that does not
            affect the result.
    """
    known, axes = {flag.name: flag for flag in flags}, []
    for part in filter(None, map(str.strip, text.split(";"))):
        name, equals, values = part.partition("=")
        name, values = name.strip().removeprefix("--"), [value.strip() for value in values.split(",")]
        if not equals or not all(values):
            raise ValueError(
                "`search` must be name=value,value with `;` between the flags. "
                f"Got {part!r}. Example: learning_rate=2e-5,5e-5;train_batch_size=16,32."
            )
        if name in {axis.name for axis in axes}:
            raise ValueError(f"`search` names {name} twice. Put its values together.")
        axes.append(_parse_axis(_find_flag(name, known), values))
    if not axes:
        raise ValueError("`search` is empty. Give a flag and its values, such as seed=1,2.")
    return axes


def _find_flag(name: str, known: Mapping[str, Flag]) -> Flag:
    flag = known.get(name)
    if flag and not flag.decides_result:
        raise ValueError(
            f"`search` cannot vary {name!r} between trials, because it does not affect their results. Remove it."
        )
    if flag and flag.kind == "list":
        raise ValueError(f"`search` takes flags with a single value; {name} is a list. Remove it.")
    if flag:
        return flag
    near = difflib.get_close_matches(name, [other for other in known if known[other].decides_result], 1)
    remedy = f"did you mean {near[0]}?" if near else "check its spelling."
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


# === Trials ===
# The trials of a search: directories, progress, metrics, and promotion to the next stage.


@dataclasses.dataclass(frozen=True)
class Trial:
    """A trial: one combination of values.

    Attributes:
        number: from 1, in the order of the search.
        values: (flag, value) of each searched flag.
    """

    number: int
    values: tuple[tuple[str, str], ...]

    def __str__(self):
        return f"trial {self.number}: {self.shown()}"

    def shown(self) -> str:
        """Returns its values as text."""
        return ", ".join(f"{name} {value}" for name, value in self.values)


@dataclasses.dataclass(frozen=True)
class TrialResult:
    """The result of a successful trial.

    Attributes:
        trial: the trial.
        stage: of successive halving, from 1.
        folder: its directory.
        score: the metric that ranks it; it may be NaN.
        scores: all metrics in eval_results.txt.
        seconds: duration since its last start.
        one_answer: the model's constant prediction, with which it learned nothing; None: predictions vary.
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
        """Whether its score is meaningful: it is a number, and predictions vary."""
        return self.one_answer is None and not math.isnan(self.score)


@dataclasses.dataclass(frozen=True)
class SuccessiveHalving:
    """Successive halving (Jamieson and Talwalkar 2016, arXiv 1502.07943): short runs of all, longer runs of the best.

    Every stage trains from scratch with its own schedule that ends at learning rate 0: a shortened run would be ranked
    in the middle of its schedule.

    Attributes:
        count: number of stages; half of the trials of each continue, with twice the epochs.
    """

    count: int = 1

    def epochs(self, whole: float, stage: int) -> float:
        """Returns the epochs of a stage, counted from 1, if the last one has `whole`."""
        return whole / 2 ** (self.count - stage)

    def trials(self, whole: int, stage: int) -> int:
        """Returns the number of trials in a stage, if the first one has `whole`."""
        return -(-whole // 2 ** (stage - 1))


class Folder:
    """The directory of a search, with its trials and their results.

    Args:
        path: the directory.
        stages: of the search.
        metric: the metric that ranks trials, as in eval_results.txt, with or without "eval_".

    Raises:
        ValueError: no command has a metric of that name.
    """

    def __init__(self, path: str | os.PathLike, stages: SuccessiveHalving, metric: str):
        self.path, self.stages = pathlib.Path(path), stages
        self.metric = f"eval_{metric.removeprefix('eval_')}"  # trials are evaluated only with do_eval
        try:
            self.higher = higher_is_better(self.metric)
        except ValueError as error:
            raise ValueError(
                "`tuning_metric` must be a metric in eval_results.txt, such as accuracy, f1 or loss; "
                f"got {metric!r}."
            ) from error

    def of(self, trial: Trial, stage: int) -> pathlib.Path:
        """Returns the directory of a trial."""
        parent = self.path / f"stage-{stage}" if self.stages.count > 1 else self.path
        return parent / f"trial-{trial.number}"

    def result(self, trial: Trial, stage: int) -> TrialResult | None:
        """Returns the result of a trial; None: it has not finished successfully, or the record of it is damaged.

        Raises:
            ValueError: it does not have the metric.
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
        """Returns the results of trials in all their stages, by stage and then in order."""
        trials = list(trials)
        found = [self.result(trial, stage) for stage in range(1, self.stages.count + 1) for trial in trials]
        return [result for result in found if result]

    def ranked(self, results: Iterable[TrialResult]) -> list[TrialResult]:
        """Returns results from the best to the worst; of equal ones, the first comes first.

        They are followed by trials with a constant prediction, regardless of their score; NaN comes last.
        """
        sign = -1 if self.higher else 1

        def sort_key(result):
            is_none = math.isnan(result.score)
            return is_none, result.one_answer is not None, 0.0 if is_none else sign * result.score

        return sorted(results, key=sort_key)

    def best(self, results: Iterable[TrialResult]) -> TrialResult | None:
        """Returns the best trial of the last stage reached; None if no score is a number."""
        results = [result for result in results if not math.isnan(result.score)]
        furthest = max((result.stage for result in results), default=0)
        return next(iter(self.ranked(r for r in results if r.stage == furthest)), None)

    def as_good(self, results: Iterable[TrialResult]) -> list[TrialResult]:
        """Returns the other results with the same score and stage as the best one, which is merely listed first."""
        results = list(results)
        best = self.best(results)
        equal = [r for r in results if best and r != best and (r.stage, r.score) == (best.stage, best.score)]
        return [r for r in equal if r.is_of_use == best.is_of_use]


def format_trial_numbers(trials: Iterable[Trial]) -> str:
    """Returns the numbers of trials as text: "trial 2, trial 4"."""
    return ", ".join(f"trial {trial.number}" for trial in trials)


def numbered(points: Iterable[Mapping[str, str]]) -> list[Trial]:
    """Creates trials from combinations of values."""
    return [Trial(number, tuple(point.items())) for number, point in enumerate(points, 1)]
