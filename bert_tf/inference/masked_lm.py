"""A pretrained model with its masked-LM head, opened for those who ask it."""

import keras
import numpy as np
from absl import logging

from bert_tf.checkpoints import convert, heads, shapes
from bert_tf.checkpoints.model_files import Description, load_description
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.tokenization.base import BaseTokenizer

_HEAD = "cls/predictions/output_bias"


def open_masked_lm(path, vocab_file: str | None = None, do_lower_case: bool | None = None) -> tuple:
    """Returns a checkpoint that has the head, to be read by `with_weights`, and the `Description` beside it.

    Args:
        path: a Hugging Face or bert_tf directory, or a TF1 checkpoint's prefix.
        vocab_file, do_lower_case: None: what lies beside the checkpoint.

    Raises:
        ValueError: there is no such checkpoint, it has no such head, or its files do not fit together.
    """
    checkpoint = open_checkpoint(path)
    if _HEAD not in checkpoint.names:
        raise ValueError(
            f"The model must have a masked-LM head: {_HEAD}, in Hugging Face's names of BERT cls.predictions.bias. "
            f"{checkpoint.path} has none; it is an encoder, or was trained for another task."
        )
    return checkpoint, load_description([path], None, vocab_file, do_lower_case)


def with_weights(task, checkpoint, dtype: str = "float32") -> keras.Model:
    """Returns a task's model with the checkpoint's weights, which must be of its configuration (else ValueError)."""
    shapes.check(checkpoint, task.config)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(dtype)
    try:
        model = task.build_model()
    finally:
        keras.config.set_dtype_policy(before)
    logging.info("%s", convert.load(checkpoint, model.variables, heads.unused(task)))
    return model


def longest_row(description: Description, max_seq_length: int | None) -> int:
    """Returns the longest row in pieces: `max_seq_length`, which must fit (else ValueError); None: the model's."""
    description.check_length(max_seq_length or description.config.max_length)
    return max_seq_length or description.config.max_length


def warn_of_unknown(ids: np.ndarray, texts: int, tokenizer: BaseTokenizer):
    """Says how many of the pieces in rows of `texts` texts are unknown: a wrong letter case makes such."""
    unknown = int((ids == tokenizer.unk_id).sum())
    if unknown:
        logging.warning(
            "%d of %d word pieces are %s, not in the vocabulary. Is `do_lower_case`, %s here, as in training?",
            *(unknown, len(ids) - tokenizer.template.special(1) * texts),
            *(tokenizer.vocab[tokenizer.unk_id], str(tokenizer.do_lower_case).lower()),
        )
