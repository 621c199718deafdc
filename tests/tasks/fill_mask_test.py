"""What fill-mask answers, from logits."""

import numpy as np
import tensorflow as tf

from bert_tf.tasks.fill_mask import FillMaskTask
from tests import tiny


def _outputs(logits, positions):
    return {"mlm_logits": np.array(logits, np.float32), "masked_lm_positions": np.array(positions, np.int32)}


def test_the_likeliest_come_first_and_shares_are_of_the_whole_table():
    task = FillMaskTask(tiny.config(vocab_size=4), ["a", "b", "c"], top_k=2)  # a row more than pieces, and the best
    shares = np.array([0.1, 0.3, 0.2, 0.4])
    filled = task.fill(_outputs([[np.log(shares), np.log(shares)]], [[3, 0]]))
    assert filled["token"].numpy().tolist() == [[[b"b", b"c"], [b"", b""]]]
    np.testing.assert_allclose(filled["probability"], [[[0.3, 0.2], [0, 0]]], rtol=1e-6)
    assert filled["probability"].dtype == tf.float32


def test_what_is_served_is_of_the_first_position():
    task = FillMaskTask(tiny.config(vocab_size=2), ["a", "b"], top_k=9)  # more than there are: all
    outputs = _outputs(np.log([[[0.75, 0.25], [0.5, 0.5]]]), [[1, 2]])
    assert task.answer(outputs)["token"].numpy().tolist() == [[b"a", b"b"]]
    served = task.example_answer(outputs)
    assert served["classes"].numpy().tolist() == [[b"a", b"b"]]
    np.testing.assert_allclose(served["scores"], [[0.75, 0.25]], rtol=1e-6)
