"""Dynamic masking: records without masks are masked when they are read, differently in each epoch, in tf.data."""

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.data.features import FEATURES
from bert_tf.pretraining.masking import Masking, check_phrases, mask
from bert_tf.pretraining.masking_vocabulary import MaskingVocabulary
from bert_tf.pretraining.phrases import read_phrases

_SAMPLE = 1000  # rows to search for phrases
_MASKED = ("input_ids", "masked_lm_positions", "masked_lm_ids", "masked_lm_weights")


def masker(masks: Masking, vocabulary: MaskingVocabulary, seed: int) -> Callable:
    """Returns the function that masks batches of records created with dynamic masking.

    The masks of a batch are a function of `seed`, its number and its rows: they differ between epochs, and a resumed
    run gets the same ones as an uninterrupted run. A packed row is masked as one example.

    Args:
        masks: the masking options.
        vocabulary: the vocabulary of the records; ids outside it cause a TensorFlow error.
        seed: seed of the masks, 0 or more.

    Returns:
        A function for tf.data.Dataset.map, from (number, batch) to the batch with masks: number is an int64 scalar from
        0, and the batch is {name: [B, ...]} with input_ids int32 [B, S]. See `masking.mask` for the features it adds.

    Raises:
        ValueError: the vocabulary has no [MASK].
    """

    def draw(number, ids):
        features = mask(ids, masks, vocabulary, np.random.default_rng([seed, int(number)]))
        return [features[name] for name in _MASKED]

    draw(0, np.full([1, 1], vocabulary.pad_id))  # raises errors here rather than in tf.data

    def masked(number, batch):
        ids = batch["input_ids"]
        types = [FEATURES[name].dtype for name in _MASKED]
        tensors = tf.numpy_function(draw, [number, ids], types, stateful=False)
        widths = [ids.shape[1] if name == "input_ids" else masks.max_predictions for name in _MASKED]
        shaped = [tf.ensure_shape(v, [ids.shape[0], width]) for v, width in zip(tensors, widths, strict=True)]
        return batch | dict(zip(_MASKED, shaped, strict=True))

    return masked


def masks_for(masking: Masking, phrase_file: str | None, tokenizer, several: list, shortest: int) -> Callable:
    """Returns a function from (`Records`, seed) to their masker, or to None if they are already masked.

    Args:
        masking: the options for sequences of length `shortest`; longer ones have proportionally more predictions.
        phrase_file: the list of phrases, for the kind "phrase".
        tokenizer: the model's tokenizer.
        several: all `Records` of the run, of which some have no masks.
        shortest: the length of the shortest sequences that are trained on.

    Raises:
        ValueError: `masking` and `phrase_file` do not match.
    """
    check_phrases(masking.kind, phrase_file)
    vocabulary = MaskingVocabulary.of_tokenizer(tokenizer, phrase_file)
    if vocabulary.phrases is not None:
        _look_for_phrases(next(each for each in several if not each.masked), vocabulary, phrase_file)

    def masks(records, seed):
        if records.masked:
            return None
        most = max(1, masking.max_predictions * records.max_seq_length // shortest)
        return masker(dataclasses.replace(masking, max_predictions=most), vocabulary, seed)

    return masks


def masks_identity(masking: Masking, phrase_file: str | None) -> dict:
    """Returns the options that determine the masks, as JSON values."""
    identity = {
        "masking": masking.kind,
        "masked_lm_prob": masking.prob,
        "max_predictions_per_seq": masking.max_predictions,
        "mask_token_prob": masking.mask_token_prob,
        "random_token_prob": masking.random_token_prob,
    }
    if phrase_file is not None:
        phrases = "\n".join(read_phrases(phrase_file)).encode()
        identity["phrases"] = hashlib.sha256(phrases).hexdigest()[:16]
    return identity


def _look_for_phrases(records, vocabulary, phrase_file):
    """Logs how many phrases occur in the first rows of some `Records`."""
    rows, counts = np.concatenate([batch["input_ids"] for batch in records.in_order(1, _SAMPLE)]), Counter()
    mask(rows, Masking("phrase"), vocabulary, np.random.default_rng(0), counts)
    logging.info(
        "Phrases: %d; %d more contain tokens that the vocabulary lacks. The first %d sequences contain %d.",
        *(vocabulary.phrases.number, vocabulary.phrases.unknown, len(rows), counts["found"]),
    )
    if not counts["found"]:
        logging.warning(
            "No phrase of %s occurs in the first %d sequences of %s. Make sure that the list and the text are in the "
            "same language.",
            *(phrase_file, len(rows), records.paths[0]),
        )
