"""Records without masks are masked as they are read for training: anew in each epoch, inside tf.data."""

import hashlib
from collections import Counter
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.data.features import FEATURES
from bert_tf.pretraining.records.masking import Masking, check_phrases, mask
from bert_tf.pretraining.records.phrases import read_phrases
from bert_tf.pretraining.records.pieces import Pieces
from bert_tf.utils.settings import Settings

_OF_MASKS = ("masking", "masked_lm_prob", "phrase_file", "mask_token_prob", "random_token_prob")
_SAMPLE = 1000  # rows in which phrases are looked for
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


def masks_for(settings: Settings, tokenizer, several: list) -> Callable:
    """Returns the function from (`Records`, seed) to what masks their batches, or to None: they are masked.

    Args:
        settings: `masking`, `phrase_file`, `masked_lm_prob`, `mask_token_prob`, `random_token_prob`, and
            `max_predictions_per_seq`, which is for the shortest rows; longer ones have more.
        tokenizer: of the model.
        several: all `Records` of the run.

    Raises:
        ValueError: the settings are for records without masks, and there are none; or they do not fit each other.
    """
    unmasked = [each for each in several if not each.masked]
    if not unmasked:
        if given := sorted(set(_OF_MASKS) & settings.given):
            raise ValueError(
                f"`{given[0]}` must come with records without masks. Received records that are masked already, such as "
                f"{several[0].paths[0]}; make them by create_pretraining_data with `dynamic_masking`."
            )
        return lambda *_: None
    check_phrases(settings.masking, settings.phrase_file)
    pieces = Pieces.of_tokenizer(tokenizer, settings.phrase_file)
    shortest = min(each.max_seq_length for each in several)
    if pieces.phrases is not None:
        _look_for_phrases(unmasked[0], pieces, settings.phrase_file)

    def masks(its, seed):
        if its.masked:
            return None
        most = settings.max_predictions_per_seq * its.max_seq_length // shortest
        shares = settings.mask_token_prob, settings.random_token_prob
        return masker(Masking(settings.masking, settings.masked_lm_prob, most, *shares), pieces, seed)

    return masks


def masks_identity(settings: Settings) -> dict:
    """Returns what of the settings decides which masks are drawn, as JSON values; they are those of `masks_for`.

    What runs of earlier versions do not know is left out where it has its default, so that these can be continued.
    """
    identity = {name: settings.get(name) for name in ("masking", "masked_lm_prob", "max_predictions_per_seq")}
    for name in ("mask_token_prob", "random_token_prob"):
        if settings.get(name) != getattr(Masking, name):
            identity[name] = settings.get(name)
    if settings.phrase_file is not None:
        phrases = "\n".join(read_phrases(settings.phrase_file)).encode()
        identity["phrases"] = hashlib.sha256(phrases).hexdigest()[:16]
    return identity


def _look_for_phrases(records, pieces, phrase_file):
    """Says how many phrases stand in the first rows of some `Records`."""
    rows, counts = np.concatenate([batch["input_ids"] for batch in records.in_order(1, _SAMPLE)]), Counter()
    mask(rows, Masking("phrase"), pieces, np.random.default_rng(0), counts)
    logging.info(
        "Phrases: %d; %d more hold pieces that the vocabulary lacks. The first %d rows hold %d.",
        *(pieces.phrases.number, pieces.phrases.unknown, len(rows), counts["found"]),
    )
    if not counts["found"]:
        logging.warning(
            "No phrase of %s stands in the first %d rows of %s. Are list and text of one language?",
            *(phrase_file, len(rows), records.paths[0]),
        )
