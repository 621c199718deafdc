"""Export of a checkpoint of any kind as TF Hub's pair of SavedModels, preprocessor and encoder."""

import os

import tensorflow as tf
from absl import logging

from bert_tf.checkpoints import heads, loading
from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.export.hub.encoder import HubEncoder
from bert_tf.export.hub.preprocessor import Preprocessor
from bert_tf.export.quiet_logs import quiet
from bert_tf.models.pretraining_heads import MaskedLMHead, build_in_cls
from bert_tf.utils.files import check_free, whole_directory

PREPROCESSOR, ENCODER = "preprocessor", "encoder"  # the directories of an export
_USUAL_LENGTH = 128
_HEAD = "cls/predictions/"


def export_hub(
    path: str | os.PathLike, export_dir: str | os.PathLike, default_seq_length: int | None = None
) -> tuple[str, str]:
    """Exports a model for TF Hub's text API: writes `preprocessor` and `encoder`, and returns their paths.

    Args:
        path: a checkpoint, as in `bert_tf.load`; of a fine-tuned model, the encoder is exported.
        export_dir: output directory; must not exist or must be empty.
        default_seq_length: sequence length of the preprocessor; if None, 128, or fewer if the model has fewer
            positions.

    Raises:
        ValueError: there is no such checkpoint, sequences would be longer than the model's positions, `export_dir`
            is not empty, or it cannot be written.
    """
    check_free(export_dir, parameter="export_dir")
    bert = loading.load(path)
    bert.tokenizer.check_exportable("An export for TF Hub")
    length = _checked_length(default_seq_length, bert.config.max_length, bert.tokenizer.template)
    models = {
        PREPROCESSOR: Preprocessor(bert.tokenizer, length),
        ENCODER: HubEncoder(bert.encoder, bert.tokenizer, _masked_lm_head(bert.path or path, bert)),
    }
    try:
        with whole_directory(export_dir) as folder, quiet():
            for name, model in models.items():
                tf.saved_model.save(model, os.path.join(folder, name), signatures={})
    except (tf.errors.OpError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"Could not write the export to {export_dir}: {reason}. Nothing was kept."
        ) from error
    return os.path.join(export_dir, PREPROCESSOR), os.path.join(export_dir, ENCODER)


def _checked_length(length, most, template):
    length = min(_USUAL_LENGTH, most) if length is None else length
    if not template.special(2) <= length <= most:
        raise ValueError(
            f"`default_seq_length` must be from {template.special(2)} (the special tokens of a pair) to {most} (the "
            f"model's positions); got {length}."
        )
    return length


def _masked_lm_head(path, bert):
    """Returns the masked-LM head with the checkpoint's weights; None if it has none."""
    if not any(name.startswith(_HEAD) for name in bert.others):
        return None
    c = bert.config
    if c.is_decoder:
        logging.warning("%s is a causal model without a masked-LM head: exporting without `mlm`.", path)
        return None
    head = build_in_cls(MaskedLMHead.of(c), c.hidden_size)
    assign_weights(open_checkpoint(path), head.variables, allow_unmatched=("bert/.*", *heads.others((f"{_HEAD}.*",))))
    return head
