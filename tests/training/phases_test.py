"""Plans of several phases: read, and which phase is a step in."""

import pytest

from bert_tf.training import phases
from bert_tf.training.phases import Phase

PLAN = phases.parse("128x900,512x100@8", [["a", "b"], ["c"]], 32)


def test_a_plan_is_read():
    assert PLAN.phases == (Phase(("a", "b"), 128, 32, 900), Phase(("c",), 512, 8, 100))
    assert PLAN.num_train_steps == 1000 and PLAN.starts == (0, 900)


def test_percentages_are_of_the_run_and_lose_no_step():
    plan = phases.parse("128x90%, 512x10%@4", [["a"]], 8, 1005)
    assert [(p.max_seq_length, p.num_steps, p.batch_size, p.files) for p in plan.phases] == [
        (128, 904, 8, ("a",)), (512, 101, 4, ("a",))]  # fmt: skip
    thirds = phases.parse("16x33.3%,32x33.3%,64x33.4%", [["a"]], 8, 10)
    assert [p.num_steps for p in thirds.phases] == [3, 4, 3]


def test_which_phase_a_step_is_in():
    assert [PLAN.index_at(step) for step in (0, 1, 900, 901, 1000, 1001)] == [0, 0, 0, 1, 1, 1]


def test_what_is_left_after_some_steps():
    first, second = PLAN.phases
    assert PLAN.left(0) == [(first, 0), (second, 0)]
    assert PLAN.left(899) == [(first, 899), (second, 0)]
    assert PLAN.left(900) == [(second, 0)]
    assert PLAN.left(950) == [(second, 50)]
    assert PLAN.left(1000) == []


@pytest.mark.parametrize("plan, files, steps, message", [
    ("128x", 1, None, r"--phases must list LENGTHxSTEPS, separated by commas, such as .*\. Received: '128x'\."),
    ("128x900,", 1, None, r"must list LENGTHxSTEPS.*Received: '128x900,'\."),
    ("128x900,512x100", 3, None, r"Received 2 phases \(128x900,512x100\) and 3 entries\."),
    ("128x900,512x100", 1, 999, r"add up to --num_train_steps\. Received 128x900,512x100, which are 1000, and 999;"),
    ("128x90%,512x20%", 1, 100, r"add up to 100\. Received 128x90%,512x20%, and --num_train_steps 100\."),
    ("128x90%,512x10", 1, 100, r"stand in every phase.*Received 128x90%,512x10, "),
    ("128x90%,512x10%", 1, None, r"Received 128x90%,512x10%, and --num_train_steps None\."),
    ("128x99%,512x1%", 1, 10, r"The num_steps of every phase must be at least 1\. Received: 0;"),
    ("128x5@0", 1, None, r"The batch_size of every phase must be at least 1\. Received: 0;"),
])  # fmt: skip
def test_a_plan_that_cannot_be_is_refused(plan, files, steps, message):
    with pytest.raises(ValueError, match=message):
        phases.parse(plan, [["a"]] * files, 8, steps)
