"""Records without masks are masked as they are read for training: anew in each epoch, inside tf.data."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from bert_tf.data.features import FEATURES
from bert_tf.data.pretraining.masking import Masking, mask
from bert_tf.data.pretraining.pieces import Pieces
from bert_tf.settings import Settings

_MASKED = ("input_ids", "masked_lm_positions", "masked_lm_ids", "masked_lm_weights")


def masker(masks: Masking, pieces: Pieces, seed: int) -> Callable:
    """Returns what masks batches of records that were written with --dynamic_masking.

    Which masks a batch gets is a function of `seed`, its number and its rows: those of another epoch are others, and a
    run that is resumed gets the ones it would have got. A packed row is masked as one example.

    Args:
        masks: how to mask.
        pieces: of the vocabulary that the records were made with; ids beyond it end in an error of TensorFlow's.
        seed: of the masks, 0 or more.

    Returns:
        A function to map a tf.data.Dataset with, from (number, batch) to the batch with masks: number is int64 [] from
        0, and the batch {name: [B, ...]} with input_ids int32 [B, S]. See `masking.mask` for what it gains.

    Raises:
        ValueError: the vocabulary has no [MASK].
    """

    def draw(number, ids):
        features = mask(ids, masks, pieces, np.random.default_rng([seed, int(number)]))
        return [features[name] for name in _MASKED]

    draw(0, np.full([1, 1], pieces.pad_id))  # raises here what would otherwise be raised inside tf.data

    def masked(number, batch):
        ids = batch["input_ids"]
        types = [FEATURES[name].dtype for name in _MASKED]
        tensors = tf.numpy_function(draw, [number, ids], types, stateful=False)
        widths = [ids.shape[1] if name == "input_ids" else masks.max_predictions for name in _MASKED]
        shaped = [tf.ensure_shape(v, [ids.shape[0], width]) for v, width in zip(tensors, widths, strict=True)]
        return batch | dict(zip(_MASKED, shaped, strict=True))

    return masked


def masks_for(settings: Settings, vocab: list[str], several: list) -> Callable:
    """Returns the function from (`Records`, seed) to what masks their batches, or to None: they are masked.

    Args:
        settings: `masking`, `masked_lm_prob` and `max_predictions_per_seq`, which is for the shortest rows; longer ones
            have more.
        vocab: the pieces, in the order of their ids.
        several: all `Records` of the run.

    Raises:
        ValueError: the settings are for records without masks, and there are none.
    """
    if all(records.masked for records in several) and {"masking", "masked_lm_prob"} & settings.given:
        raise ValueError(
            "`masking` and `masked_lm_prob` must come with records without masks. Received records that are "
            f"masked already, such as {several[0].paths[0]}; make them by create_pretraining_data with "
            "`dynamic_masking`."
        )
    shortest = min(records.max_seq_length for records in several)
    pieces = None if all(records.masked for records in several) else Pieces.of(vocab)

    def masks(records, seed):
        if records.masked:
            return None
        most = settings.max_predictions_per_seq * records.max_seq_length // shortest
        return masker(Masking(settings.masking, settings.masked_lm_prob, most), pieces, seed)

    return masks
