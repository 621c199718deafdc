"""How the demo trains on machines of several speeds."""

import pytest

from bert_tf.experiments.demo import data, plan


@pytest.mark.parametrize(
    ("speed", "precision", "epochs"),
    [
        (10_000, "float32", 2.0),
        (10_000, "mixed_bfloat16", 2.0),
        (240, "float32", 1.75),
        (172, "float32", 1.25),
        (172, "mixed_bfloat16", 1.75),
        (100, "float32", 1.0),
        (1, "mixed_bfloat16", 1.0),
    ],
)
def test_a_slower_machine_trains_for_less(speed, precision, epochs):
    made = plan.choose_plan(speed, precision)
    assert (made.precision, made.epochs) == (precision, epochs)
    assert plan.seconds(made, speed) <= 150 or made.epochs == plan.LEAST


def test_what_is_given_is_kept():
    assert plan.choose_plan(1.0, "mixed_bfloat16", "float32", 3.0) == plan.DemoPlan("float32", 3.0)
    assert plan.choose_plan(1.0, "mixed_bfloat16", None, 3.0) == plan.DemoPlan("mixed_bfloat16", 3.0)
    assert plan.choose_plan(10_000.0, "mixed_bfloat16", "float32", None) == plan.DemoPlan("float32", 2.0)


def test_one_line_says_what_and_why():
    told = plan.tell(plan.choose_plan(172.4, "float32"), 172.4, "float32")
    assert told == (
        "Plan: float32, 1.25 passes over 8,058 sentences, about 2:28 minutes of training: "
        "the CPU has no bfloat16 instructions and currently multiplies matrices at 172 GFLOP/s."
    )
    made = plan.choose_plan(172.4, "mixed_bfloat16")
    assert ": the CPU supports bfloat16 and " in plan.tell(made, 172.4, "mixed_bfloat16")


def test_the_speed_is_measured():
    assert plan.matrix_speed() > 0


def test_the_number_of_sentences_is_that_of_the_data():
    examples = [(str(number), "positive") for number in range(10072)]
    assert len(data.split_ratings(examples)[0]) == plan.SENTENCES
