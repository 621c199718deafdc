"""The two networks of replaced-token detection: how large the generator is, and as what both are written."""

import dataclasses

from bert_tf.models import families
from bert_tf.models.config import EncoderConfig
from bert_tf.utils.settings import Settings

_FAMILY = "electra"  # as which both networks are written
# The generator reads the discriminator's tables.
_SHARED = ("vocab_size", "max_position_embeddings", "type_vocab_size", "task_type_vocab_size", "first_position")


def as_electra(config: EncoderConfig) -> EncoderConfig:
    """Returns the configuration with which either network is written: that of an ELECTRA, where it can be one.

    It can where rows and pieces are the same, and no setting is another that ELECTRA has no name for; else the family
    stays. Tools that know ELECTRA then read it, and classifiers on it have ELECTRA's head of two layers.
    """
    here, there = families.family(config.model_type), families.family(_FAMILY)
    alike = (here.tokenizer, here.template) == (there.tokenizer, there.template)
    config = dataclasses.replace(config, has_pooler=False)
    if not alike or config.task_type_vocab_size or config.num_hidden_groups:
        return config
    return dataclasses.replace(config, model_type=_FAMILY, embedding_size=config.embedding_width, **there.fixed)


def generator_of(config: EncoderConfig, settings: Settings) -> EncoderConfig:
    """Returns the generator's configuration, of a discriminator's.

    Args:
        config: of the discriminator.
        settings: `generator_config_file`, or `generator_size`: its share of width, heads and intermediate width, with
            as many layers.

    Raises:
        ValueError: it is as large as the discriminator or larger, or its tables are others.
    """
    if settings.generator_config_file and "generator_size" in settings.given:
        raise ValueError(
            "`generator_config_file` must come without `generator_size`. Received both: "
            f"{settings.generator_config_file} and {settings.generator_size}; leave one of them out."
        )
    if settings.generator_config_file:
        generator = _read(settings.generator_config_file, config)
        origin = f"`generator_config_file={settings.generator_config_file}`"
    else:
        generator, origin = _shrunk(config, settings.generator_size), f"`generator_size={settings.generator_size}`"
    if _weights(generator) >= _weights(config):
        raise ValueError(
            "The generator must be smaller than the discriminator, whose task would be too hard beside an equal: a "
            f"quarter to a half as wide. Received {origin}: {_weights(generator):,} weights in its layers, and "
            f"{_weights(config):,} in the discriminator's; make it smaller."
        )
    return generator


def _shrunk(config, share):
    if not 0 < share <= 1:
        raise ValueError(
            f"`generator_size` must be a share of the discriminator's, above 0 and below 1. Received: {share}; try "
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
        has_pooler=False,
        pruned_heads=None,
    )


def _read(path, config):
    generator = EncoderConfig.load(path)
    other = [name for name in _SHARED if getattr(generator, name) != getattr(config, name)]
    if other:
        there, here = getattr(generator, other[0]), getattr(config, other[0])
        raise ValueError(
            f"{path} must describe a generator that reads the discriminator's tables: {', '.join(_SHARED)} must be "
            f"equal. Received {other[0]} {there}, and {here} of the discriminator; make them equal."
        )
    shared = {"embedding_size": config.embedding_width, "has_pooler": False, "lora": None}
    return dataclasses.replace(generator, model_type=config.model_type, **shared)


def _weights(config):
    """Returns how many numbers the matrices of all layers have: what decides how much is computed."""
    layer = config.hidden_size * (4 * config.hidden_size + 2 * config.intermediate_size)
    return config.num_hidden_layers * layer
