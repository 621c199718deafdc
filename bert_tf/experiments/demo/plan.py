"""How the demo trains on this machine: in which precision, and how long, so that it ends within a few minutes."""

import dataclasses
import math
import time

from bert_tf.utils.progress import clock

SENTENCES = 8058  # in train.tsv
MOST, LEAST = 2.0, 1.0  # passes over them: more gains little, fewer are not enough for what the demo promises
_STEP = 0.25
_PATIENCE = 150.0  # seconds of training: with all else, and on a machine that is busy, the demo stays below 5 minutes
# What a pass over the sentences costs: as much time as a product of matrices with so many billion operations takes on
# the same machine, in float32. Measured; two thirds of it with instructions for bfloat16, which only products have.
_PASS = 20_400.0
_IN_BFLOAT16 = 0.66
_WIDTH = 768  # of the matrices that are multiplied to know the machine
_SECONDS = 0.5  # so long


@dataclasses.dataclass(frozen=True)
class Plan:
    """How to train.

    Attributes:
        precision: "float32" or "mixed_bfloat16", or what the user gave.
        epochs: passes over the sentences.
    """

    precision: str
    epochs: float


def choose(speed: float, best_precision: str, precision: str | None = None, epochs: float | None = None) -> Plan:
    """Returns the plan for a machine.

    Args:
        speed: of `matrix_speed`.
        best_precision: as `processor.best_precision`.
        precision, epochs: what the user gave, which is kept; None: nothing.
    """
    precision = precision or best_precision
    affordable = _PATIENCE / seconds(Plan(precision, 1.0), speed)
    steps = math.floor(affordable / _STEP) * _STEP
    return Plan(precision, min(MOST, max(LEAST, steps)) if epochs is None else epochs)


def seconds(plan: Plan, speed: float) -> float:
    """Returns how long training by this plan will take, about, on a machine of this speed."""
    return plan.epochs * _PASS * (1.0 if plan.precision == "float32" else _IN_BFLOAT16) / speed


def tell(plan: Plan, speed: float, best_precision: str) -> str:
    """Returns the line that says what was chosen, and why."""
    has = "has no use for bfloat16" if best_precision == "float32" else "computes in bfloat16"
    passes = "1 pass" if plan.epochs == 1 else f"{plan.epochs:g} passes"
    duration = clock(seconds(plan, speed))
    return (
        f"Plan: {plan.precision}, {passes} over {SENTENCES:,} sentences, about {duration} minutes of training: "
        f"the processor {has} and multiplies matrices at {speed:,.0f} GFLOP/s now."
    )


def matrix_speed() -> float:
    """Returns how many billion operations in float32 a product of matrices makes a second here, with what else runs."""
    import numpy as np  # here: `bert-tf demo --help` does without

    matrix = np.full((_WIDTH, _WIDTH), 1 / _WIDTH, np.float32)
    matrix @ matrix  # the first one makes the threads
    count, begin = 0, time.perf_counter()
    while (passed := time.perf_counter() - begin) < _SECONDS:
        matrix @ matrix
        count += 1
    return 2 * _WIDTH**3 * count / passed / 1e9
