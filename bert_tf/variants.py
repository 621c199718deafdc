"""The tables: what BERT's family members are called and what sets each apart. Code tests numbers, never names."""

from bert_tf.config import EncoderConfig

# Devlin et al. 2018 (base, large) and Turc et al. 2019, "Well-Read Students Learn Better", table 1 (the small ones).
SIZES = {
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
    "large": (24, 1024),
}
# The 24 small releases: every depth with every width, 64 numbers a head, a feed-forward layer four times as wide.
GRID = [(layers, hidden) for layers in (2, 4, 6, 8, 10, 12) for hidden in (128, 256, 512, 768)]
_BY_NAME = {f"bert-{name}": size for name, size in SIZES.items()} | {f"bert-L{n}-H{h}": (n, h) for n, h in GRID}

# The vocabularies of Google's releases; uncased is the default of all the small ones.
UNCASED_VOCAB_SIZE = 30522


def names() -> list[str]:
    """Returns every published size that `config_for` knows: "bert-tiny" to "bert-large", and "bert-L4-H256"."""
    return list(_BY_NAME)


def config_for(name: str, vocab_size: int = UNCASED_VOCAB_SIZE) -> EncoderConfig:
    """Returns the configuration published under `name`.

    Raises:
        ValueError: no release has that name.
    """
    if name not in _BY_NAME:
        raise ValueError(f"The name of a published size must be one of {names()}. Received: {name!r}.")
    layers, hidden = _BY_NAME[name]
    return EncoderConfig(
        vocab_size=vocab_size,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        intermediate_size=4 * hidden,
    )
