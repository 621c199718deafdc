"""What the word embeddings of a new model begin as, where that is not random: vectors from the records' neighbours."""

import itertools

from absl import logging

_MOST = 20_000_000  # places of rows that are looked at: some 80 MB of ids, a minute of one core
_ROWS = 8  # at a time; a rest is left out
_WORDS = "bert/embeddings/word_embeddings"


def check(settings):
    """Raises ValueError where a model that is not new would begin so."""
    if settings.start_embeddings != "random" and settings.init_checkpoint:
        raise ValueError(
            f"`start_embeddings={settings.start_embeddings}` must come without `init_checkpoint`, whose embeddings "
            f"mean something already. Received both; leave one of them out."
        )


def first_weights(settings, records, model):
    """Returns the function that gives {variable path: array} to begin with in place of random weights; None: none.

    Args:
        settings: with `start_embeddings`, `init_checkpoint` and `seed`.
        records: the `Records` to train on.
        model: the `model_files.Description` of what is pretrained.

    Raises:
        ValueError: as `check`.
    """
    check(settings)
    if settings.start_embeddings == "random":
        return None
    return lambda: {_WORDS: _embeddings(records, model, settings.seed)}


def _embeddings(records, model, seed):
    import numpy as np

    from bert_tf.vocabulary.neighbours import Neighbours, frequent_of

    config, special = model.config, model.tokenizer.special_tokens.values()
    special = [number for number, piece in enumerate(model.tokenizer.vocab) if piece in set(special)]
    rows = np.concatenate(_rows(records))
    counts = np.bincount(rows.reshape(-1), minlength=config.vocab_size)
    neighbours = Neighbours(config.vocab_size, frequent_of(counts, special))
    for part in np.array_split(rows, max(1, rows.size // 1_000_000)):
        neighbours.add(part)
    found = neighbours.vectors(config.embedding_width, seed)
    known = (np.abs(found).sum(1) > 0) & (np.bincount(special, minlength=config.vocab_size) == 0)
    logging.info("%d of %d word embeddings start from their neighbours in %d places of the records.",
                 known.sum(), config.vocab_size, rows.size)  # fmt: skip
    random = np.random.default_rng(seed).normal(size=found.shape).astype(np.float32)
    return np.where(known[:, np.newaxis], found, random) * np.float32(config.initializer_range)


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
