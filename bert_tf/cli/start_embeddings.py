"""What the embeddings of a new model begin as, where that is not random: of words, vectors from the records'
neighbours; of positions, sines and cosines."""

import itertools

from absl import logging

from bert_tf.training.word_rate import WORDS, WordRate

_MOST = 20_000_000  # places of rows that are looked at: some 80 MB of ids, a minute of one core
_ROWS = 8  # at a time; a rest is left out
_POSITIONS = "bert/embeddings/position_embeddings"
_BIASES = ("cls/predictions/output_bias", "generator/cls/predictions/output_bias")
_LONGEST_WAVE = 10_000.0  # positions for a radian of the slowest wave (Vaswani et al. 2017, section 3.5)


def check(settings):
    """Raises ValueError where a model that is not new would begin so."""
    for name in ("start_embeddings", "start_positions"):
        value = getattr(settings, name)
        if value != "random" and settings.init_checkpoint:
            raise ValueError(
                f"`{name}={value}` must come without `init_checkpoint`, whose embeddings mean something already. "
                "Received both; leave one of them out."
            )


def word_rate(settings) -> WordRate | None:
    """Returns how fast the word embeddings move; None: as all else.

    Raises:
        ValueError: they would stay what they are, but are random.
    """
    factor = settings.embedding_lr_factor
    if not factor and not settings.init_checkpoint and settings.start_embeddings == "random":
        raise ValueError(
            "`embedding_lr_factor=0` must come with `start_embeddings=neighbours` or with `init_checkpoint`. Received "
            "neither, so that the word embeddings would stay random."
        )
    return None if factor == 1 else WordRate(factor)


def first_weights(settings, records, model):
    """Returns the function that gives {variable path: array} to begin with in place of random weights; None: none.

    Args:
        settings: with `start_embeddings`, `start_positions`, `init_checkpoint` and `seed`.
        records: the `Records` to train on.
        model: the `model_files.Description` of what is pretrained.

    Raises:
        ValueError: as `check`.
    """
    check(settings)
    makers = []
    if settings.start_embeddings != "random":
        makers.append(lambda: _of_neighbours(records, model, settings.seed))
    if settings.start_positions != "random":
        makers.append(lambda: {_POSITIONS: sinusoids(model.config)})
    return (lambda: {path: array for make in makers for path, array in make().items()}) if makers else None


def sinusoids(config):
    """Returns sines, then cosines, of positions: float32 [P, E], as large as the random ones.

    From two places of a row a linear map can tell how far apart they are, so that a layer need not learn first which
    positions are neighbours.
    """
    import numpy as np

    half = (config.embedding_width + 1) // 2
    waves = _LONGEST_WAVE ** -(np.arange(half) / half)
    angles = np.arange(config.max_position_embeddings)[:, np.newaxis] * waves
    table = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)[:, : config.embedding_width]
    return (table * np.sqrt(2) * config.initializer_range).astype(np.float32)


def _of_neighbours(records, model, seed):
    """Returns {path: array}: word embeddings, and the masked-LM head's bias, the logarithm of how common pieces are."""
    import numpy as np

    from bert_tf.tokenization.learning.neighbours import Neighbours, frequent_of

    config, names = model.config, set(model.tokenizer.special_tokens.values())
    special = [number for number, piece in enumerate(model.tokenizer.vocab) if piece in names]
    rows = np.concatenate(_rows(records))
    counts = np.bincount(rows.reshape(-1), minlength=config.vocab_size)
    counts[special] = 0
    neighbours = Neighbours(config.vocab_size, frequent_of(counts, special))
    for part in np.array_split(rows, max(1, rows.size // 1_000_000)):
        neighbours.add(part)
    found = neighbours.vectors(config.embedding_width, seed)
    known = (np.abs(found).sum(1) > 0) & (np.bincount(special, minlength=config.vocab_size) == 0)
    logging.info("%d of %d word embeddings start from their neighbours in %d places of the records.",
                 known.sum(), config.vocab_size, rows.size)  # fmt: skip
    random = np.random.default_rng(seed).normal(size=found.shape).astype(np.float32)
    bias = np.log((counts + 1) / (counts + 1).sum()).astype(np.float32)
    words = np.where(known[:, np.newaxis], found, random) * np.float32(config.initializer_range)
    return {WORDS: words} | dict.fromkeys(_BIASES, bias)


def _rows(records):
    """Returns the rows' ids, int32 [_ROWS, S] each, of one length: as many as are looked at."""
    most = _MOST // (_ROWS * records.max_seq_length)
    rows = [batch["input_ids"].numpy() for batch in itertools.islice(records.in_order(_ROWS), most)]
    if not rows:
        raise ValueError(
            f"`start_embeddings=neighbours` must come with {_ROWS} rows at least. Received fewer in "
            f"{', '.join(records.paths[:3])}; give more text."
        )
    return rows
