"""Plans quick pretraining: the number of steps within the time limit, from measurements; it reads no clock."""

import dataclasses
import datetime
import itertools
import json
import math
import pathlib
import statistics
from collections.abc import Mapping, Sequence

from bert_tf.pretraining.quick.recipe import PlannedPhase
from bert_tf.utils.files import write_text
from bert_tf.utils.json_files import read_object

PLAN_FILE = "plan.json"
TRIAL_STEPS = 60  # of each phase, to measure its speed
_SETTLED = 15  # the first ones, which build graphs and are not counted
TRIAL_CHECKPOINTS, CHECKPOINTS = 4, 20  # of the calibration and of the training


@dataclasses.dataclass(frozen=True)
class Throughput:
    """The measured speed of this machine.

    Attributes:
        rows_per_second: speed of each phase.
        start_seconds: time before the first step and after the last one, including building graphs.
        checkpoint_seconds: time to save a checkpoint, and to evaluate it if there is held-out text.
    """

    rows_per_second: tuple[float, ...]
    start_seconds: float
    checkpoint_seconds: float


def measure_throughput(lines: Sequence[dict], phases: Sequence[PlannedPhase], seconds: float) -> Throughput:
    """Computes the throughput from the history of a calibration run.

    Args:
        lines: lines of its history.jsonl.
        phases: phases of its training, of `TRIAL_STEPS` each.
        seconds: duration of its command.
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
    # The last checkpoint is measured: earlier ones build the evaluation graph, and after its line the run ends.
    before, end = trained[-2], lines.index(trained[-1])
    last = lines[min(end + 1, len(lines) - 1)]  # its metrics, if there is held-out text
    begun, ended = (datetime.datetime.fromisoformat(line["time"]) for line in (before, last))
    checkpoint = max(0.0, (ended - begun).total_seconds() - per_step[-1] * (last["step"] - before["step"]))
    start = max(0.0, seconds - TRIAL_STEPS * sum(per_step) - TRIAL_CHECKPOINTS * checkpoint)
    return Throughput(rates, start, checkpoint)


@dataclasses.dataclass(frozen=True)
class TrainingPlan:
    """The number of steps of each phase, planned once.

    Attributes:
        minutes: time limit of the whole run.
        minutes_used: time used before the training.
        rates: the measured throughput.
        steps: number of steps of each phase.
    """

    minutes: float
    minutes_used: float
    rates: Throughput
    steps: tuple[int, ...]

    @classmethod
    def of(
        cls, phases: Sequence[PlannedPhase], rates: Throughput, minutes: float, seconds_used: float
    ) -> "TrainingPlan":
        """Returns the plan whose training ends at the time limit.

        Raises:
            ValueError: no time is left, or fewer steps fit than the calibration took.
        """
        per_step = sum(
            phase.share * phase.batch_size / rate for phase, rate in zip(phases, rates.rows_per_second, strict=True)
        )
        besides = seconds_used + rates.start_seconds + CHECKPOINTS * rates.checkpoint_seconds
        steps, least = int((60 * minutes - besides) / per_step), TRIAL_STEPS * len(phases)
        if steps < least:
            raise ValueError(
                f"`minutes` must leave time for {least} steps of training; got {minutes:g}, but "
                f"preparation and checkpoints take {besides / 60:.1f} minutes; use "
                f"{math.ceil((besides + least * per_step) / 60)} or more, and run the same command again to resume."
            )
        ends = [round(steps * share) for share in itertools.accumulate(phase.share for phase in phases)]
        steps_of_phases = tuple(end - start for start, end in itertools.pairwise([0, *ends]))
        return cls(minutes, seconds_used / 60, rates, steps_of_phases)

    @classmethod
    def read(cls, folder: pathlib.Path) -> "TrainingPlan | None":
        """Reads the plan in a directory, or returns None if there is none yet.

        Raises:
            ValueError: the file does not contain a plan.
        """
        path = folder / PLAN_FILE
        if not path.exists():
            return None
        values = read_object(path, "the plan of `pretrain quick`", "choose a new `output_dir`, or remove this one")
        try:
            phases = values["phases"]
            rates = [phase["rows_per_second"] for phase in phases]
            found = Throughput(tuple(rates), values["start_seconds"], values["checkpoint_seconds"])
            return cls(
                values["minutes"], values["minutes_used"], found, tuple(phase["num_train_steps"] for phase in phases)
            )
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"{path} is not a plan of `pretrain quick`: it lacks {error}. Choose another `output_dir`."
            ) from error

    def times_read(self, phases: Sequence[PlannedPhase], rows: Mapping[int, int]) -> list[float]:
        """Returns the number of epochs of each phase; `rows` counts the rows of each length."""
        pairs = zip(phases, self.steps, strict=True)
        return [steps * phase.batch_size / rows[phase.row_length] for phase, steps in pairs]

    def write(
        self, folder: pathlib.Path, phases: Sequence[PlannedPhase], rows: Mapping[int, int], commands: Sequence[str]
    ):
        """Writes the plan as JSON; `rows` counts the rows of each length."""
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
