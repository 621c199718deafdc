"""The name map of each family in Hugging Face's files, as a model of it is built or saved."""

from collections.abc import Iterable

from bert_tf.checkpoints.names.albert import ALBERT_NAMES
from bert_tf.checkpoints.names.bert import BERT_NAMES
from bert_tf.checkpoints.names.deberta import DEBERTA_NAMES
from bert_tf.checkpoints.names.distilbert import DISTILBERT_NAMES
from bert_tf.checkpoints.names.electra import ELECTRA_NAMES
from bert_tf.checkpoints.names.ernie import ERNIE_NAMES
from bert_tf.checkpoints.names.modernbert import MODERNBERT_NAMES
from bert_tf.checkpoints.names.name_map import NameMap
from bert_tf.checkpoints.names.roberta import ROBERTA_NAMES
from bert_tf.checkpoints.names.roberta_prelayernorm import ROBERTA_PRELAYERNORM_NAMES
from bert_tf.checkpoints.names.rows import WORDS
from bert_tf.models import families
from bert_tf.models.config_files import INPUT_POSITIONS

NAME_MAPS: dict[str, NameMap] = {
    "albert": ALBERT_NAMES,
    "bert": BERT_NAMES,
    "deberta-v2": DEBERTA_NAMES,
    "distilbert": DISTILBERT_NAMES,
    "electra": ELECTRA_NAMES,
    "ernie": ERNIE_NAMES,
    "modernbert": MODERNBERT_NAMES,
    "roberta": ROBERTA_NAMES,
    "roberta-prelayernorm": ROBERTA_PRELAYERNORM_NAMES,
}


def hugging_face(
    model_type: str = families.DEFAULT,
    tied: bool = True,
    classes: Iterable[str] = (),
    positions: str | None = INPUT_POSITIONS,
) -> NameMap:
    """Returns the Hugging Face name map of a family, a key of `families.FAMILIES`.

    Args:
        model_type: the family.
        tied: `EncoderConfig.tie_word_embeddings`.
        classes: `architectures` of config.json, or suffixes of class names.
        positions: our path of the table of absolute positions, as from `config_files.positions_in`.

    Raises:
        ValueError: the family is not supported.
    """
    name_map = NAME_MAPS[families.family(model_type).name_map].for_class(classes)
    if positions is None:
        name_map = name_map.leaving_out(INPUT_POSITIONS)
    elif positions != INPUT_POSITIONS:
        name_map = name_map.moving(INPUT_POSITIONS, positions)
    return name_map if tied else name_map.without_ties()


def prefixes(but: NameMap) -> set[str]:
    """Returns the prefixes of other families' encoders in Hugging Face's files whose names are otherwise those of one
    map."""

    def words(name_map):
        return name_map.from_ours(WORDS).removeprefix(name_map.prefix)

    return {each.prefix for each in NAME_MAPS.values() if words(each) == words(but)} - {but.prefix, ""}
