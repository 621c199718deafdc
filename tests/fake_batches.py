"""Random batches with the features that models and records have."""

import numpy as np

from bert_tf.data.features import FEATURES


def fake_batch(
    names, batch_size=4, seq_length=16, vocab_size=100, num_labels=2, seed=0, max_predictions=3, max_sentences=1
):
    """Returns a valid random batch {name: np.ndarray} each row half to wholly filled.

    A row has 1 to max_predictions predictions, each of another token, then padding; and, where max_sentences allows,
    two packed examples, those that `sentence_ids` tells apart.
    """
    rng = np.random.default_rng(seed)
    lengths = rng.integers((seq_length + 1) // 2, seq_length + 1, batch_size)
    place = np.arange(seq_length)
    mask = place < lengths[:, None]
    values = {
        "input_ids": rng.integers(0, vocab_size, mask.shape) * mask,
        "input_mask": mask,
        "segment_ids": (place >= lengths[:, None] // 2) * mask,
        "sentence_ids": (1 + (place >= lengths[:, None] // 2)) * mask,
        "context_mask": (place >= lengths[:, None] // 2) & (place < lengths[:, None] - 1),
        "label_ids": rng.integers(0, num_labels, batch_size),
        "tag_ids": np.where(mask, rng.integers(-1, num_labels, mask.shape), -1),
        "label_values": rng.normal(size=batch_size),
        "start_positions": lengths // 2,
        "end_positions": np.maximum(lengths // 2, lengths - 2),
        "is_real_example": np.ones(batch_size),
    }
    values |= _fake_predictions(rng, lengths, max_predictions, vocab_size)
    values |= _fake_next_sentences(rng, lengths, max_sentences)
    values |= _fake_replacements(rng, values)
    return {n: np.asarray(values[n]).astype(FEATURES[n].dtype) for n in names}


def _fake_predictions(rng, lengths, max_predictions, vocab_size):
    """Masked pieces for rows of these lengths, int [n]."""
    shape = len(lengths), max_predictions
    positions = np.full(shape, lengths.max())  # padding: behind all others until it becomes 0
    for row, (length, number) in enumerate(
        zip(lengths, rng.integers(1, max_predictions + 1, len(lengths)), strict=True)
    ):
        chosen = np.sort(rng.permutation(length)[:number])
        positions[row, : len(chosen)] = chosen
    weights = positions < lengths[:, None]
    return {
        "masked_lm_positions": positions * weights,
        "masked_lm_ids": rng.integers(0, vocab_size, shape) * weights,
        "masked_lm_weights": weights,
    }


def _fake_replacements(rng, values):
    """What stood in the masked places, and the numbers by which replacements are drawn."""
    unmasked, real = values["input_ids"].copy(), values["masked_lm_weights"] > 0
    rows = real.nonzero()[0]
    unmasked[rows, values["masked_lm_positions"][real]] = values["masked_lm_ids"][real]
    return {"unmasked_ids": unmasked, "sampling_draws": rng.random(real.shape)}


def _fake_next_sentences(rng, lengths, max_sentences):
    """One or two packed examples in each row of these lengths, int [n]."""
    place = np.arange(max_sentences)
    weights = np.broadcast_to(place < 2, (len(lengths), max_sentences))
    return {
        "next_sentence_labels": rng.integers(0, 2, weights.shape) * weights,
        "next_sentence_positions": (lengths[:, None] // 2) * (place == 1),
        "next_sentence_weights": weights,
    }
