"""`bert-tf pretrain quick` with tiny recipes, and with steps that do not depend on how fast the machine is.

python -m tests.pretraining.quick.tiny_program --input_file=... --output_dir=... --minutes=60
"""

import dataclasses
import sys

from bert_tf.cli import main
from bert_tf.pretraining.quick.plan import Throughput, TrainingPlan
from bert_tf.runs import pretraining_recipes
from tests.pretraining.quick import support

MINUTES, STEPS = 60, 240


class _FixedPlan(TrainingPlan):
    """The plan of a machine on which training takes so many steps, whatever the minutes, and nothing else any time."""

    total = STEPS

    @classmethod
    def of(cls, phases, rates, minutes, seconds_used):
        assert min(rates.rows_per_second) > 0 and rates.start_seconds > 0 < seconds_used, rates
        fixed = Throughput(tuple(phase.batch_size * cls.total / (60 * minutes) for phase in phases), 0.0, 0.0)
        return dataclasses.replace(TrainingPlan.of(phases, fixed, minutes + 1e-6, 0.0), minutes=minutes)


def shrink(steps: int = STEPS, small: dict = support.SMALL, taught: dict = support.SMALL_TAUGHT):
    """Has `pretrain quick`, in this process, train by other recipes and for so many steps."""
    from bert_tf.pretraining.quick import run

    pretraining_recipes.SMALL, pretraining_recipes.SMALL_TAUGHT = small, taught
    run.TrainingPlan, _FixedPlan.total = _FixedPlan, steps


def _run():
    shrink()
    main.main(["pretrain_small", *sys.argv[1:]])


if __name__ == "__main__":
    _run()
