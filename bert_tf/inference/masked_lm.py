"""Opens a pretrained model with its masked-LM head."""

import numpy as np
from absl import logging

from bert_tf.checkpoints.loading import ModelDescription, load_description
from bert_tf.checkpoints.names.rows import MASKED_LM_HEAD
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.tokenization.base_tokenizer import BaseTokenizer

_DISCRIMINATOR_HEAD = "cls/replaced_tokens/output_bias"


def open_masked_lm(path, vocab_file: str | None = None, do_lower_case: bool | None = None) -> tuple:
    """Returns a checkpoint with the head, for `build_with_weights`, and its `ModelDescription`.

    Args:
        path: a Hugging Face or bert_tf directory, or a TF1 checkpoint's prefix.
        vocab_file, do_lower_case: if None, as found next to the checkpoint.

    Raises:
        ValueError: there is no such checkpoint, it has no such head, it is a discriminator, or its files do not match.
    """
    checkpoint = open_checkpoint(path)
    if MASKED_LM_HEAD not in checkpoint.names:
        raise ValueError(
            f"A masked-LM head is required ({MASKED_LM_HEAD}; in Hugging Face's BERT, "
            f"cls.predictions.transform.dense.weight). {checkpoint.path} has no such head: it is a bare encoder, or "
            "was trained for another task."
        )
    if _DISCRIMINATOR_HEAD in checkpoint.names:  # some releases also have a masked-LM head, of no use with it
        raise ValueError(
            f"A model trained to predict masked tokens is required. {checkpoint.path} is a discriminator: it has a "
            f"head for replaced tokens ({_DISCRIMINATOR_HEAD}; mask_predictions in Hugging Face's files), and its "
            "masked-LM head was not trained with its encoder. Use the generator published with it: save "
            "`pytorch_model.generator.bin` as described in docs/concepts/model_families.md."
        )
    return checkpoint, load_description([path], None, vocab_file, do_lower_case)


def longest_sequence(description: ModelDescription, max_seq_length: int | None) -> int:
    """Returns the maximum sequence length: `max_seq_length`, or the model's if None; ValueError if it is too long."""
    description.check_length(max_seq_length or description.config.max_length)
    return max_seq_length or description.config.max_length


def warn_of_unknown(ids: np.ndarray, texts: int, tokenizer: BaseTokenizer):
    """Warns about unknown tokens in the `ids` of `texts` texts, often caused by wrong casing."""
    unknown = int((ids == tokenizer.unk_id).sum())
    if unknown:
        logging.warning(
            "%d of %d tokens are %s, that is, not in the vocabulary. Check that `do_lower_case` (now %s) is as in "
            "training.",
            *(unknown, len(ids) - tokenizer.template.special(1) * texts),
            *(tokenizer.vocab[tokenizer.unk_id], str(tokenizer.do_lower_case).lower()),
        )
