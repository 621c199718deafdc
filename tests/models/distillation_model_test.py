"""What a student shows of itself: every weight that is trained has a gradient, wherever the norms stand."""

import pytest
import tensorflow as tf

from bert_tf.data.features import ENCODER_INPUTS
from bert_tf.models.distillation_model import DistillationModel
from tests import tiny
from tests.fake_batches import fake_batch

SHOWN = ("queries", "keys", "values")


@pytest.mark.parametrize("norm_first", [False, True])
def test_relations_move_all_that_is_trained(norm_first):
    config = tiny.config(num_hidden_layers=2, norm_first=norm_first)
    model = DistillationModel(config, SHOWN)
    batch = fake_batch(ENCODER_INPUTS, vocab_size=config.vocab_size)
    with tf.GradientTape() as tape:
        outputs = model({name: batch[name] for name in ENCODER_INPUTS})
        loss = tf.add_n([tf.reduce_sum(outputs[name] ** 2) for name in SHOWN])
    variables = [variable.value for variable in model.trainable_variables]
    assert all(gradient is not None for gradient in tape.gradient(loss, variables))
    attention = model.encoder.blocks[1].attention
    below = model.encoder({name: batch[name] for name in ENCODER_INPUTS})["encoder_outputs"][0]
    read = attention.norm(below) if norm_first else below
    tf.debugging.assert_near(outputs["queries"], attention.query(read), atol=1e-6)
