"""A run in several phases, such as 900 steps of rows of 128 and then 100 of 512: which phase is a step in?"""

import dataclasses
import re
from collections.abc import Sequence

_PHASE = re.compile(r"(\d+)x(\d+(?:\.\d+)?%|\d+)(?:@(\d+))?")


@dataclasses.dataclass(frozen=True)
class Phase:
    """Steps on one kind of rows.

    Attributes:
        files: its record files, or patterns of them.
        max_seq_length: pieces a row.
        batch_size: rows a step, over all replicas and micro-batches.
        num_steps: at least 1.
    """

    files: tuple[str, ...]
    max_seq_length: int
    batch_size: int
    num_steps: int

    def __post_init__(self):
        for name in ("max_seq_length", "batch_size", "num_steps"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"The {name} of every phase must be at least 1. Received: {getattr(self, name)}; leave a phase of "
                    "no steps out."
                )


@dataclasses.dataclass(frozen=True)
class Phases:
    """The phases of one run, in order.

    Model, optimizer and step count go on from one to the next: `num_train_steps` is the whole run's, and so one
    learning-rate schedule spans all phases.
    """

    phases: tuple[Phase, ...]

    @property
    def num_train_steps(self) -> int:
        """Steps of all phases together."""
        return sum(phase.num_steps for phase in self.phases)

    @property
    def starts(self) -> tuple[int, ...]:
        """The number of steps made before each phase."""
        return tuple(sum(phase.num_steps for phase in self.phases[:i]) for i in range(len(self.phases)))

    def index_at(self, step: int) -> int:
        """Returns the index of the phase that makes `step`, counted from 1; steps beyond the end are the last's.

        128x900,512x100   steps 1 ... 900 -> 0   901 ... 1000 -> 1
        """
        begun = [i for i, start in enumerate(self.starts) if start < max(step, 1)]
        return begun[-1]

    def left(self, start: int) -> list[tuple[Phase, int]]:
        """Returns what is to do when `start` steps of the run are made: (phase, its own steps made), in order.

        128x900,512x100   start 0 -> (128, 0), (512, 0)   start 950 -> (512, 50)   start 1000 -> nothing
        """
        made = [max(0, start - begin) for begin in self.starts]
        return [(phase, done) for phase, done in zip(self.phases, made, strict=True) if done < phase.num_steps]


def parse(
    plan: str,
    files: Sequence[Sequence[str]],
    batch_size: int,
    num_train_steps: int | None = None,
    flag: str = "--phases",
) -> Phases:
    """Reads a plan: max_seq_length x steps, separated by commas, each with its own batch size after an @ or without.

        128x900,512x100          128x90%,512x10%          128x900@256,512x100@64

    Args:
        plan: the plan. A percentage is of `num_train_steps`; the last phase takes what rounding leaves.
        files: the record files of each phase, or one entry that serves all.
        batch_size: of the phases that name none.
        num_train_steps: steps of the whole run; None where the plan has no percentages.
        flag: the flag's name, for messages.

    Raises:
        ValueError: the plan cannot be read, adds up to another number of steps, or has not one entry of files a phase.
    """
    found = [_PHASE.fullmatch(part.strip()) for part in plan.split(",")]
    if not all(found):
        raise ValueError(
            f"{flag} must list LENGTHxSTEPS, separated by commas, such as 128x900,512x100 or 128x90%,512x10%@64. "
            f"Received: {plan!r}."
        )
    steps = _steps([match[2] for match in found], plan, num_train_steps, flag)
    files = list(files) * len(found) if len(files) == 1 else list(files)
    if len(files) != len(found):
        raise ValueError(
            f"{flag} must have one entry of record files a phase, or one for all. Received {len(found)} phases "
            f"({plan}) and {len(files)} entries."
        )
    rows = zip(files, found, steps, strict=True)
    return Phases(tuple(Phase(tuple(names), int(m[1]), int(m[3] or batch_size), count) for names, m, count in rows))


def _steps(texts, plan, num_train_steps, flag):
    """Returns the steps of each phase, int; percentages are of `num_train_steps` and add up to it."""
    if not any(text.endswith("%") for text in texts):
        steps = [int(text) for text in texts]
        if num_train_steps not in (None, sum(steps)):
            raise ValueError(
                f"The steps of {flag} must add up to --num_train_steps. Received {plan}, which are {sum(steps)}, and "
                f"{num_train_steps}; leave --num_train_steps out or make them equal."
            )
        return steps
    shares = [float(text[:-1]) for text in texts if text.endswith("%")]
    if len(shares) < len(texts) or abs(sum(shares) - 100) > 1e-6 or num_train_steps is None:
        raise ValueError(
            f"The percentages of {flag} must be of --num_train_steps, stand in every phase and add up to 100. Received "
            f"{plan}, and --num_train_steps {num_train_steps}."
        )
    ends = [round(num_train_steps * sum(shares[: i + 1]) / 100) for i in range(len(shares))]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]
