"""The tags of a tagger trained with other software, and their scheme."""

from collections.abc import Sequence

from bert_tf.evaluation import entities
from bert_tf.models.config import EncoderConfig
from bert_tf.tasks.foreign_models import names_class


def tags_of_others(config: EncoderConfig, labels: Sequence[str] | None) -> tuple[list[str], str] | None:
    """Returns the tags of a tagger trained elsewhere, and their scheme: "iob1", "iob2" or "bioes".

    Args:
        config: configuration with the keys of its file.
        labels: the names of the outputs.

    Returns:
        The tags and the scheme, or None if no Transformers class for this is named or the outputs have no names.

    Raises:
        ValueError: the names are not entity tags.
    """
    if labels is None or not names_class(config, "ForTokenClassification"):
        return None
    tags = [_foreign_tag(label) for label in labels]
    if {"E", "S"} & {prefix for prefix, _ in tags}:
        return list(labels), "bioes"
    inside, begun = ({kind for prefix, kind in tags if prefix == wanted} for wanted in "IB")
    return list(labels), "iob2" if inside <= begun else "iob1"


def _foreign_tag(label):
    """Returns (prefix, type) of a label of a tagger trained elsewhere; ValueError if it is not a tag."""
    try:
        return entities.split_tag(label)
    except ValueError as error:
        raise ValueError(
            f"id2label of the model must map its outputs to tags. {error} If it is a type without a prefix, change "
            f"it to {'I-' + label!r} in id2label of the model's config.json, do the same for its other types, and "
            "name the output for words outside entities O."
        ) from error
