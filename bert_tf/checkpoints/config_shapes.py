"""Compares a configuration with the shapes in a checkpoint before the model is built.

Building takes the memory that the configuration asks for. The comparison takes none, and can report which field is
wrong; `assign_weights` then compares every variable.
"""

import re

from bert_tf.checkpoints.readers import Checkpoint
from bert_tf.models.config import EncoderConfig
from bert_tf.utils.files import brief

_LAYER = re.compile(r"bert/encoder/layer_(\d+)/.*")
# Our path of a weight, its axis, and the field of `EncoderConfig` that says how long it is. Layers are all alike.
_SIZES = (
    ("bert/embeddings/word_embeddings", 0, "vocab_size"),
    ("bert/embeddings/word_embeddings", 1, "embedding_width"),
    ("bert/embeddings/position_embeddings", 0, "max_position_embeddings"),
    ("bert/embeddings/token_type_embeddings", 0, "type_vocab_size"),
    ("bert/embeddings/task_type_embeddings", 0, "task_type_vocab_size"),
    ("bert/encoder/layer_0/attention/self/query/kernel", 0, "hidden_size"),
    ("bert/encoder/layer_0/output/dense/kernel", 0, "intermediate_size"),
    ("bert/encoder/conv/kernel", 0, "conv_kernel_size"),
    ("bert/embeddings/relative_positions/attention_bias", 0, "relative_attention_num_buckets"),
)


def check_shapes(checkpoint: Checkpoint, config: EncoderConfig, new_layers: int = 0):
    """Checks the number of layers, table rows and widths of a configuration against a checkpoint.

    Args:
        checkpoint: open checkpoint of an encoder, optionally with heads.
        config: configuration of the model to build.
        new_layers: number of top layers that may be missing, because they are randomly initialized.

    Raises:
        ValueError: they differ; the message lists each field with its value and that of the weights.
    """
    layers = {int(match[1]) for name in checkpoint.names if (match := _LAYER.fullmatch(name))}
    wrong = []
    if not set(range(config.num_blocks - new_layers)) <= layers <= set(range(config.num_blocks)):
        field = "num_hidden_groups" if config.num_hidden_groups else "num_hidden_layers"
        wrong.append(f"{field} {config.num_blocks}, but layers {_numbers(layers)} in the weights")
    for path, axis, field in _SIZES:
        size, shape = getattr(config, field), checkpoint.shape(path) if path in checkpoint.names else None
        if field == "max_position_embeddings" and not config.has_position_table:
            continue
        if field == "embedding_width":
            field = "embedding_size" if config.embedding_size else "hidden_size"
        if shape is not None and shape[axis : axis + 1] != (size,):
            wrong.append(f"{field} {size}, but {path} of shape {brief(shape)}")
        elif shape is None and size and not axis and path.startswith(("bert/embeddings/", "bert/encoder/conv/")):
            wrong.append(f"{field} {size}, but no {path} among the weights")
    if wrong:
        unknown = f"; unknown names: {brief(checkpoint.unknown)}" if checkpoint.unknown else ""
        raise ValueError(
            f"The configuration does not match the weights in {checkpoint.path}: {'; '.join(wrong)}{unknown}. Use the "
            "configuration and the weights of one model."
        )


def _numbers(layers):
    """Returns "0 to 11", or the list of numbers if some are missing."""
    if not layers:
        return "without numbers"
    whole = layers == set(range(len(layers)))
    return f"0 to {max(layers)}" if whole and max(layers) else brief(sorted(layers))
