"""What fine-tuning starts from: what it warns of before it trains."""

from bert_tf.checkpoints.label_rows import LabelRows
from bert_tf.runs.fine_tuning_start import warn_of_few_steps


def test_few_steps_for_a_new_label_among_trained_ones_are_warned_of(caplog):
    several = LabelRows("out/v1", ("a", "b"), ("a", "b", "c"), (0, 1, None), {})
    warn_of_few_steps(several, 99)
    assert len(caplog.records) == 1
    assert caplog.messages[0].startswith("99 training steps are few for the new label c, whose weights in the head")
    warn_of_few_steps(several, 100)
    warn_of_few_steps(None, 1)
    warn_of_few_steps(several.without_rows("it was trained for tagging"), 1)  # all labels begin alike
    warn_of_few_steps(LabelRows("out/v1", ("a", "b"), ("b", "a"), (1, 0), {}), 1)
    assert len(caplog.records) == 1
