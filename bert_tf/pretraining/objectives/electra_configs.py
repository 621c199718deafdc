"""The two networks of replaced-token detection: the size of the generator, and how both are written."""

import dataclasses

from bert_tf.models import family_registry
from bert_tf.models.config import EncoderConfig

_FAMILY = "electra"  # the family that both networks are written as


def to_electra_config(config: EncoderConfig) -> EncoderConfig:
    """Returns the configuration to write for either network: an ELECTRA configuration, if possible.

    This is possible if rows and tokens have the same width, and all settings have a name in ELECTRA; otherwise the
    family is unchanged. Tools that support ELECTRA can then read it, and classifiers use ELECTRA's head of two layers.
    """
    here, there = family_registry.family(config.model_type), family_registry.family(_FAMILY)
    alike = (here.tokenizer, here.template) == (there.tokenizer, there.template)
    config = dataclasses.replace(config, has_pooler=False)
    if "embedding_size" in here.restated and config.embedding_width != config.hidden_size:
        # A generator, narrower than its embeddings, which the family has no key for: BERT's has one for all of it.
        return dataclasses.replace(config, model_type=family_registry.DEFAULT, extra={})
    if not alike or config.task_type_vocab_size or config.num_hidden_groups:
        return config
    return dataclasses.replace(config, model_type=_FAMILY, embedding_size=config.embedding_width, **there.fixed)


def make_generator_config(config: EncoderConfig, generator_size: float) -> EncoderConfig:
    """Returns the generator's configuration for a discriminator's.

    Args:
        config: configuration of the discriminator.
        generator_size: the generator's width, heads and intermediate width relative to it; the number of layers is the
            same.

    Raises:
        ValueError: the generator would not be smaller than the discriminator.
    """
    generator = _shrink(config, generator_size)
    if _count_weights(generator) >= _count_weights(config):
        raise ValueError(
            "The generator must be smaller than the discriminator, otherwise the discriminator's task is too hard: a "
            f"quarter to half as wide; got `generator_size={generator_size}`: {_count_weights(generator):,} "
            f"weights in its layers, and {_count_weights(config):,} in the discriminator's; make it smaller."
        )
    return generator


def _shrink(config, share):
    if not 0 < share <= 1:
        raise ValueError(
            f"`generator_size` must be a fraction of the discriminator's, above 0 and below 1; got {share}; try "
            "0.25."
        )
    hidden, heads = max(1, round(config.hidden_size * share)), max(1, round(config.num_attention_heads * share))
    heads = next(number for number in range(heads, 0, -1) if hidden % number == 0)
    return dataclasses.replace(
        config,
        hidden_size=hidden,
        num_attention_heads=heads,
        intermediate_size=max(1, round(config.intermediate_size * share)),
        embedding_size=config.embedding_width,
        maps_embeddings=family_registry.family(config.model_type).fixed.get("maps_embeddings", False),
        has_pooler=False,
        pruned_heads=None,
    )


def _count_weights(config):
    """Returns the number of weights in the matrices of all layers, which determines the amount of computation."""
    layer = config.hidden_size * (4 * config.hidden_size + 2 * config.intermediate_size)
    return config.num_hidden_layers * layer
