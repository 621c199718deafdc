"""From a checkpoint of any kind to TF Hub's pair of SavedModels."""

import os

import tensorflow as tf
from absl import logging

from bert_tf.checkpoints import convert, heads, model_files
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.export.hub.encoder import HubEncoder
from bert_tf.export.hub.preprocessor import Preprocessor
from bert_tf.export.quiet import quiet
from bert_tf.models.pretraining_heads import MaskedLMHead, build_in_cls
from bert_tf.utils.files import check_free, whole_directory

PREPROCESSOR, ENCODER = "preprocessor", "encoder"  # the folders of an export
_USUAL_LENGTH = 128
_HEAD = "cls/predictions/"


def export_hub(
    path: str | os.PathLike, export_dir: str | os.PathLike, default_seq_length: int | None = None
) -> tuple[str, str]:
    """Writes `export_dir`/preprocessor and `export_dir`/encoder, both or none, and returns the two paths.

    Args:
        path: a checkpoint, as `bert_tf.load` takes it; of a trained model the encoder is exported.
        export_dir: a directory that is not there yet, or empty.
        default_seq_length: pieces in a row that the preprocessor makes; None: 128, or as many as the model has
            positions.

    Raises:
        ValueError: there is no such checkpoint, rows would be longer than the model's positions, something is at
            `export_dir`, or it cannot be written.
    """
    check_free(export_dir, parameter="export_dir")
    bert = model_files.load(path)
    length = _checked_length(default_seq_length, bert.config.max_length, bert.tokenizer.template)
    models = {
        PREPROCESSOR: Preprocessor(bert.tokenizer, length),
        ENCODER: HubEncoder(bert.encoder, bert.tokenizer, _masked_lm_head(path, bert)),
    }
    try:
        with whole_directory(export_dir) as folder, quiet():
            for name, model in models.items():
                tf.saved_model.save(model, os.path.join(folder, name), signatures={})
    except (tf.errors.OpError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"The export must be written whole to {export_dir}. Received: {reason}; nothing of it was kept."
        ) from error
    return tuple(os.path.join(export_dir, name) for name in models)


def _checked_length(length, most, template):
    length = min(_USUAL_LENGTH, most) if length is None else length
    if not template.special(2) <= length <= most:
        raise ValueError(
            f"`default_seq_length` must be from {template.special(2)}, the special pieces of a pair, to {most}, the "
            f"positions of the model. Received: {length}."
        )
    return length


def _masked_lm_head(path, bert):
    """Returns the head of masked language modelling with the checkpoint's weights; None: it has none of that."""
    if not any(name.startswith(_HEAD) for name in bert.others):
        return None
    c = bert.config
    if c.is_decoder:
        logging.warning("%s learned left to right, and has no head for masked language modelling: no `mlm`.", path)
        return None
    numbers = (c.vocab_size, c.hidden_act, c.initializer_range, c.layer_norm_eps, c.embedding_size)
    head = MaskedLMHead(*numbers, c.tie_word_embeddings)
    build_in_cls(head, c.hidden_size)
    convert.load(open_checkpoint(path), head.variables, excuse=("bert/.*", *heads.others((f"{_HEAD}.*",))))
    return head
