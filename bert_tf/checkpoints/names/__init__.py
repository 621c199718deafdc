"""The names of weights in files: of TF1 checkpoints, of each family in Hugging Face's and in KerasHub's."""

from bert_tf.checkpoints.names import (
    albert,
    bert,
    distilbert,
    electra,
    ernie,
    keras_hub,
    roberta,
    roberta_prelayernorm,
    tf1,
)
from bert_tf.checkpoints.names.table import NameMap
from bert_tf.models import families

TF1 = tf1.NAMES  # for every family
NAME_MAPS: dict[str, NameMap] = {
    "albert": albert.NAMES,
    "bert": bert.NAMES,
    "distilbert": distilbert.NAMES,
    "electra": electra.NAMES,
    "ernie": ernie.NAMES,
    "roberta": roberta.NAMES,
    "roberta-prelayernorm": roberta_prelayernorm.NAMES,
}
KERAS_HUB_MAPS: dict[str, NameMap] = {"bert": keras_hub.BERT, "distilbert": keras_hub.DISTILBERT}


def hugging_face(model_type: str = families.DEFAULT, tied: bool = True) -> NameMap:
    """Returns the map of a family, a key of `families.FAMILIES`.

    Args:
        model_type: the family.
        tied: `EncoderConfig.tie_word_embeddings`.

    Raises:
        ValueError: there is no such family.
    """
    name_map = NAME_MAPS[families.family(model_type).name_map]
    return name_map if tied else name_map.without_ties()


def prefixes(but: NameMap) -> set[str]:
    """Returns the prefixes of the encoders' names in Hugging Face's files, without that of one map."""
    return {name_map.prefix for name_map in NAME_MAPS.values()} - {but.prefix, ""}


def of_keras_hub(model_type: str) -> NameMap:
    """Returns the map of a family's names in KerasHub.

    Raises:
        ValueError: there is no such family, or none of its models can be a preset.
    """
    if families.family(model_type).keras_hub is None:
        there = sorted(name for name, row in families.FAMILIES.items() if row.keras_hub)
        raise ValueError(
            f"A KerasHub preset must be of a family that KerasHub computes as its own code does: one of {there}. "
            f"Received: {model_type!r}; take another format."
        )
    return KERAS_HUB_MAPS[families.family(model_type).name_map]
