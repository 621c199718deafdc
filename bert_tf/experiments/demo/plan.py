"""Precision and length of the demo's training on this machine, so that it ends within a few minutes."""

import dataclasses
import math
import time

from bert_tf.utils.progress import clock

SENTENCES = 8058  # in train.tsv
MOST, LEAST = 2.0, 1.0  # passes over them: more gain little, fewer are not enough for the demo's stated accuracy
_STEP = 0.25
_PATIENCE = 150.0  # seconds of training: in total, the demo takes under 5 minutes even on a busy machine
# Cost of one pass over the sentences: the time of matrix products with this many billion operations on
# the same machine, in float32. Measured; two thirds of that with bfloat16 instructions, which only matrix products use.
_PASS = 20_400.0
_IN_BFLOAT16 = 0.66
_WIDTH = 768  # of the matrices for measuring the machine's speed
_SECONDS = 0.5  # duration of the measurement


@dataclasses.dataclass(frozen=True)
class DemoPlan:
    """Precision and length of the demo's training.

    Attributes:
        precision: "float32" or "mixed_bfloat16", or the user's choice.
        epochs: passes over the sentences.
    """

    precision: str
    epochs: float


def choose_plan(
    speed: float, best_precision: str, precision: str | None = None, epochs: float | None = None
) -> DemoPlan:
    """Returns the plan for a machine.

    Args:
        speed: result of `matrix_speed`.
        best_precision: as `resources.best_precision`.
        precision, epochs: the user's choices, if any.
    """
    precision = precision or best_precision
    affordable = _PATIENCE / seconds(DemoPlan(precision, 1.0), speed)
    steps = math.floor(affordable / _STEP) * _STEP
    return DemoPlan(precision, min(MOST, max(LEAST, steps)) if epochs is None else epochs)


def seconds(plan: DemoPlan, speed: float) -> float:
    """Estimates the training time of this plan on a machine of this speed."""
    return plan.epochs * _PASS * (1.0 if plan.precision == "float32" else _IN_BFLOAT16) / speed


def tell(plan: DemoPlan, speed: float, best_precision: str) -> str:
    """Returns the line that explains the plan."""
    has = "has no bfloat16 instructions" if best_precision == "float32" else "supports bfloat16"
    passes = "1 pass" if plan.epochs == 1 else f"{plan.epochs:g} passes"
    duration = clock(seconds(plan, speed))
    return (
        f"Plan: {plan.precision}, {passes} over {SENTENCES:,} sentences, about {duration} minutes of training: "
        f"the CPU {has} and currently multiplies matrices at {speed:,.0f} GFLOP/s."
    )


def matrix_speed() -> float:
    """Measures the speed of float32 matrix products in GFLOP/s, under the machine's current load."""
    import numpy as np  # here, because `bert-tf demo --help` does not need it

    matrix = np.full((_WIDTH, _WIDTH), 1 / _WIDTH, np.float32)
    matrix @ matrix  # the first one creates the threads
    count, begin = 0, time.perf_counter()
    while (passed := time.perf_counter() - begin) < _SECONDS:
        matrix @ matrix
        count += 1
    return 2 * _WIDTH**3 * count / passed / 1e9
