"""The number of an encoder's parameters, counted from its configuration."""

import pytest

from bert_tf.models.encoder import Encoder
from bert_tf.models.parameter_count import encoder_parameters
from tests import tiny


@pytest.mark.parametrize(
    "changes",
    [
        {"num_hidden_layers": 2, "norm_first": True},
        {"embedding_size": 8, "num_hidden_layers": 4, "num_hidden_groups": 2},
        {"task_type_vocab_size": 3, "type_vocab_size": 0, "has_pooler": False},
        {"pos_att_type": ("c2p",), "position_buckets": 4, "position_biased_input": False, "conv_kernel_size": 3},
        {"relative_attention_num_buckets": 6, "num_hidden_layers": 2},
    ],
)
def test_the_numbers_of_an_encoder_are_counted_without_building_it(changes):
    encoder = Encoder(tiny.config(**changes))
    encoder.build()
    assert encoder_parameters(encoder.config) == encoder.count_params()
