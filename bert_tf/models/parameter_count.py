"""Counts the parameters of an encoder from its configuration."""

from bert_tf.models.config import EncoderConfig


def encoder_parameters(config: EncoderConfig) -> int:
    """Returns the number of parameters of an encoder, without building it."""
    c, H, E = config, config.hidden_size, config.embedding_width
    positions = c.max_position_embeddings if c.has_position_table else 0
    tables = c.vocab_size + positions + c.type_vocab_size + c.task_type_vocab_size
    norm = 1 + c.norm_bias  # numbers for each of H
    attention = 4 * _linear(H, H, c.attention_bias) + norm * H
    inner = c.intermediate_size * (1 + c.gated_mlp)
    maps = _linear(H, inner, c.mlp_bias and c.mlp_input_bias) + _linear(c.intermediate_size, H, c.mlp_bias)
    feed_forward = maps + norm * H
    projection = _linear(E, H) if c.has_embedding_map else 0
    relative = (2 * c.relative_span + norm) * H if c.pos_att_type else 0
    relative += (c.relative_attention_num_buckets or 0) * c.num_attention_heads
    convolution = _linear(c.conv_kernel_size * H, H) + norm * H if c.conv_kernel_size else 0
    pooler = _linear(H, H) if c.has_pooler else 0
    norms = (norm * H if c.norm_first else 0) - (0 if c.first_attention_norm else norm * H)
    layers = c.num_blocks * (attention + feed_forward) + norms + convolution
    return (tables + norm) * E + relative + projection + layers + pooler


def _linear(inputs, outputs, use_bias=True):
    return (inputs + use_bias) * outputs
