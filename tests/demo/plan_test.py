"""How the demo trains on machines of several speeds."""

import pytest

from bert_tf.demo import data, plan


@pytest.mark.parametrize(
    ("speed", "bfloat16", "chosen"),
    [
        (10_000, False, ("float32", 2.0)),
        (10_000, True, ("mixed_bfloat16", 2.0)),
        (240, False, ("float32", 1.75)),
        (172, False, ("float32", 1.25)),
        (172, True, ("mixed_bfloat16", 1.75)),
        (100, False, ("float32", 1.0)),
        (1, True, ("mixed_bfloat16", 1.0)),
    ],
)
def test_a_slower_machine_trains_for_less(speed, bfloat16, chosen):
    made = plan.choose(speed, bfloat16)
    assert (made.precision, made.epochs) == chosen
    assert plan.seconds(made, speed) <= 150 or made.epochs == plan.LEAST


def test_what_is_given_is_kept():
    assert plan.choose(1.0, True, "float32", 3.0) == plan.Plan("float32", 3.0)
    assert plan.choose(1.0, True, None, 3.0) == plan.Plan("mixed_bfloat16", 3.0)
    assert plan.choose(10_000.0, True, "float32", None) == plan.Plan("float32", 2.0)


def test_one_line_says_what_and_why():
    told = plan.tell(plan.choose(172.4, False), 172.4, False)
    assert told == (
        "Plan: float32, 1.25 passes over 8,058 sentences, about 2:28 minutes of training: "
        "the processor has no use for bfloat16 and multiplies matrices at 172 GFLOP/s now."
    )
    assert ": the processor computes in bfloat16 and " in plan.tell(plan.choose(172.4, True), 172.4, True)


def test_the_speed_is_measured():
    assert plan.matrix_speed() > 0


def test_the_number_of_sentences_is_that_of_the_data():
    examples = [(str(number), "positive") for number in range(10072)]
    assert len(data.split(examples)[0]) == plan.SENTENCES
