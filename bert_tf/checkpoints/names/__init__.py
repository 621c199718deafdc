"""The names of weights in files: one map for TF1 checkpoints, and for each family one of Hugging Face's names."""

from bert_tf import families
from bert_tf.checkpoints.names import albert, bert, distilbert, electra, ernie, roberta, tf1
from bert_tf.checkpoints.names.table import NameMap

TF1 = tf1.NAMES  # for every family
NAME_MAPS: dict[str, NameMap] = {
    "albert": albert.NAMES,
    "bert": bert.NAMES,
    "distilbert": distilbert.NAMES,
    "electra": electra.NAMES,
    "ernie": ernie.NAMES,
    "roberta": roberta.NAMES,
}


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
