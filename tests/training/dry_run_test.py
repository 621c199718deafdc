"""What a dry run prints of a training that was tried, of one that would not fit, and of one that is over."""

from bert_tf.training.dry_run import DryRun
from bert_tf.training.memory import StepShape
from tests import tiny

STEP = StepShape(tiny.config(), 40_000, batch_size=8, max_seq_length=16, trainable=10_000, rows_per_example=3)
GB = 2**30


def _lines(trial, available=64 * GB):
    return dict((line[:26].strip(), line[26:]) for line in trial.lines(available).splitlines())


def test_time_is_told_beside_memory():
    lines = _lines(DryRun(STEP, 10, 110, warm_up=3.21, timed=20, expected=75.0))
    assert lines["fits in memory"] == "yes" and lines["tokens per step"] == "384: 24 rows of 16"
    assert lines["micro-batch that fits"] == "24 rows: `gradient_accumulation_steps=1`"
    assert lines["steps"] == "100, after 10 completed"
    assert lines["time per step"] == "0.75 s on average, over 20 timed steps"
    assert lines["training time"] == "1:15, excluding evaluation and saving"


def test_what_does_not_fit_is_not_tried():
    lines = _lines(DryRun(STEP, 0, 110), GB // 2)
    assert lines["fits in memory"].startswith("no") and lines["steps"] == "110"
    assert lines["training time"] == "not measured, because a step would not fit"


def test_a_training_that_is_over_has_no_time():
    lines = _lines(DryRun(STEP, 110, 110))
    assert lines["steps"] == "0, after 110 completed" and "training time" not in lines
    assert _lines(DryRun(STEP, 0, 2, warm_up=1.0))["training time"] == "too few steps to estimate"
