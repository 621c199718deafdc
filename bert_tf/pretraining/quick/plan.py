"""Plans quick pretraining: recipes, and how many steps fit into the minutes."""

import dataclasses
import datetime
import itertools
import json
import math
import pathlib
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.utils.files import write_text
from bert_tf.utils.json_files import read_object

# === Recipe ===


@dataclasses.dataclass(frozen=True)
class PlannedPhase:
    """One part of the training: sequence length, share of the steps, batch size.

    Attributes:
        row_length: tokens of a row.
        share: of all steps, over 0, at most 1.
        batch_size: rows of a step.
    """

    row_length: int
    share: float
    batch_size: int


@dataclasses.dataclass(frozen=True)
class SizeRecipe:
    """The phases, flags and size by which a small encoder is made.

    Attributes:
        phases: of the training, in order; their shares add up to 1.
        warmup_steps: in which the rate rises: with a few dozen a network stands still for hundreds of steps afterwards.
            Of short runs it is a fifth at most.
        records: flags of create_pretraining_data, for rows of every length.
        pretraining: flags of run_pretraining.
        config: fields of `EncoderConfig` but for vocab_size; None: the network is made of the teacher's layers.
        layers: how many of these, evenly spread.
    """

    phases: Sequence[PlannedPhase]
    warmup_steps: int
    records: Mapping[str, Any]
    pretraining: Mapping[str, Any]
    config: Mapping[str, Any] | None = None
    layers: int = 0

    def __post_init__(self):
        assert math.isclose(sum(phase.share for phase in self.phases), 1), "shares must add up to 1"
        assert (self.config is None) == (self.layers > 0), "there is one network to begin with"

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "SizeRecipe":
        """Returns the recipe of {attribute: value}, with each phase as a tuple."""
        return cls(**{**values, "phases": tuple(PlannedPhase(*phase) for phase in values["phases"])})

    @property
    def row_lengths(self) -> list[int]:
        """The row lengths of all phases, each once, the shortest first."""
        return sorted({phase.row_length for phase in self.phases})

    def to_dict(self) -> dict[str, Any]:
        """Returns all attributes as JSON gives them back."""
        return json.loads(json.dumps(dataclasses.asdict(self)))


def spread_layers(number: int, depth: int) -> list[int]:
    """Returns `number` layers of `depth`, evenly spread, the first and the last among them: 4 of 6 are 0, 2, 4, 5."""
    return [-(-place * (depth - 1) // max(1, number - 1)) for place in range(number)]


# === Plan ===
# How many steps fit into the minutes: what was measured, and what follows from it. No clock is read here.


PLAN_FILE = "plan.json"
TRIAL_STEPS = 60  # of each phase, to find out how fast it is
_SETTLED = 15  # the first of them build graphs, and do not count
TRIAL_CHECKPOINTS, CHECKPOINTS = 4, 20  # of the calibration and of the training


@dataclasses.dataclass(frozen=True)
class Throughput:
    """The speed of this machine.

    Attributes:
        rows_per_second: of each phase.
        start_seconds: from the command to the first step, and from the last one to the end; graphs being built too.
        checkpoint_seconds: to save one, and to score it where there is held-out text.
    """

    rows_per_second: tuple[float, ...]
    start_seconds: float
    checkpoint_seconds: float


def measure_throughput(lines: Sequence[dict], phases: Sequence[PlannedPhase], seconds: float) -> Throughput:
    """Returns the throughput that a calibration's history shows.

    Args:
        lines: of its history.jsonl.
        phases: of its training, `TRIAL_STEPS` each.
        seconds: that its command took.
    """
    trained = [line for line in lines if line["kind"] == "train"]
    speeds = [line for line in trained if line.get("examples_per_second")]
    starts = [TRIAL_STEPS * number for number in range(len(phases))]
    rates = tuple(
        statistics.median(
            line["examples_per_second"] for line in speeds if start + _SETTLED < line["step"] <= start + TRIAL_STEPS
        )
        for start in starts
    )
    per_step = [phase.batch_size / rate for phase, rate in zip(phases, rates, strict=True)]
    # The last checkpoint counts: earlier ones build the graph of the scoring, and after its line the run ends.
    before, end = trained[-2], lines.index(trained[-1])
    last = lines[min(end + 1, len(lines) - 1)]  # its scores, where there is held-out text
    begun, ended = (datetime.datetime.fromisoformat(line["time"]) for line in (before, last))
    checkpoint = max(0.0, (ended - begun).total_seconds() - per_step[-1] * (last["step"] - before["step"]))
    start = max(0.0, seconds - TRIAL_STEPS * sum(per_step) - TRIAL_CHECKPOINTS * checkpoint)
    return Throughput(rates, start, checkpoint)


@dataclasses.dataclass(frozen=True)
class TrainingPlan:
    """The steps of each phase, settled once.

    Attributes:
        minutes: given, for all.
        minutes_used: by what comes before the training.
        rates: that were found.
        steps: of each phase.
    """

    minutes: float
    minutes_used: float
    rates: Throughput
    steps: tuple[int, ...]

    @classmethod
    def of(
        cls, phases: Sequence[PlannedPhase], rates: Throughput, minutes: float, seconds_used: float
    ) -> "TrainingPlan":
        """Returns the plan whose training ends when the minutes do.

        Raises:
            ValueError: they are over before, or leave fewer steps than the calibration made.
        """
        per_step = sum(
            phase.share * phase.batch_size / rate for phase, rate in zip(phases, rates.rows_per_second, strict=True)
        )
        besides = seconds_used + rates.start_seconds + CHECKPOINTS * rates.checkpoint_seconds
        steps, least = int((60 * minutes - besides) / per_step), TRIAL_STEPS * len(phases)
        if steps < least:
            raise ValueError(
                f"`minutes` must leave time for {least} steps of training. Received {minutes:g}, of which "
                f"{besides / 60:.1f} are needed for preparation and checkpoints; use "
                f"{math.ceil((besides + least * per_step) / 60)} or more, and run the same command again to resume."
            )
        ends = [round(steps * share) for share in itertools.accumulate(phase.share for phase in phases)]
        steps_of_phases = tuple(end - start for start, end in itertools.pairwise([0, *ends]))
        return cls(minutes, seconds_used / 60, rates, steps_of_phases)

    @classmethod
    def read(cls, folder: pathlib.Path) -> "TrainingPlan | None":
        """Returns the plan in a folder, None where there is none yet.

        Raises:
            ValueError: the file holds none.
        """
        path = folder / PLAN_FILE
        if not path.exists():
            return None
        values = read_object(path, "the plan of pretrain_small", "choose another `output_dir`, or remove this one")
        try:
            phases = values["phases"]
            rates = [phase["rows_per_second"] for phase in phases]
            found = Throughput(tuple(rates), values["start_seconds"], values["checkpoint_seconds"])
            return cls(
                values["minutes"], values["minutes_used"], found, tuple(phase["num_train_steps"] for phase in phases)
            )
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"{path} is not a plan of pretrain_small: it lacks {error}. Choose another `output_dir`."
            ) from error

    def times_read(self, phases: Sequence[PlannedPhase], rows: Mapping[int, int]) -> list[float]:
        """Returns how often each phase reads the text; `rows` are the records' of each length."""
        pairs = zip(phases, self.steps, strict=True)
        return [steps * phase.batch_size / rows[phase.row_length] for phase, steps in pairs]

    def write(
        self, folder: pathlib.Path, phases: Sequence[PlannedPhase], rows: Mapping[int, int], commands: Sequence[str]
    ):
        """Writes the plan as JSON; `rows` are the numbers of rows of each length."""
        parts = zip(phases, self.rates.rows_per_second, self.steps, self.times_read(phases, rows), strict=True)
        values = {
            "minutes": self.minutes,
            "minutes_used": self.minutes_used,
            "start_seconds": self.rates.start_seconds,
            "checkpoint_seconds": self.rates.checkpoint_seconds,
            "phases": [
                {
                    "max_seq_length": phase.row_length,
                    "train_batch_size": phase.batch_size,
                    "rows_per_second": rate,
                    "num_train_steps": steps,
                    "rows": rows[phase.row_length],
                    "times_read": round(times, 3),
                }
                for phase, rate, steps, times in parts
            ],
            "commands": list(commands),
        }
        write_text(folder / PLAN_FILE, json.dumps(values, indent=1) + "\n")
