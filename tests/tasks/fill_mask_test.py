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


def test_only_the_first_position_is_computed_where_it_is_served():
    config = tiny.config()
    task = FillMaskTask(config, [f"piece{i}" for i in range(config.vocab_size)])
    model = task.build_model()
    features = {"input_ids": tf.constant([[2, 3, 4, 5], [6, 7, 8, 9]])}
    features["masked_lm_positions"] = tf.constant([[3, 1, 2], [0, 0, 0]])
    features |= {"input_mask": tf.ones([2, 4], tf.int32), "segment_ids": tf.zeros([2, 4], tf.int32)}
    served, whole = task.for_serving(model)(features), model(features)
    assert served["mlm_logits"].shape == (2, 1, config.vocab_size) and whole["mlm_logits"].shape[1] == 3
    np.testing.assert_allclose(served["mlm_logits"], whole["mlm_logits"][:, :1], atol=1e-5)
    assert served["masked_lm_positions"].numpy().tolist() == [[3], [0]]
    assert [each.path for each in task.for_serving(model).variables] == [each.path for each in model.variables]


def test_what_is_served_is_of_the_first_position():
    task = FillMaskTask(tiny.config(vocab_size=2), ["a", "b"], top_k=9)  # more than there are: all
    outputs = _outputs(np.log([[[0.75, 0.25], [0.5, 0.5]]]), [[1, 2]])
    assert task.postprocess(outputs)["token"].numpy().tolist() == [[b"a", b"b"]]
    served = task.example_answer(outputs)
    assert served["classes"].numpy().tolist() == [[b"a", b"b"]]
    np.testing.assert_allclose(served["scores"], [[0.75, 0.25]], rtol=1e-6)
