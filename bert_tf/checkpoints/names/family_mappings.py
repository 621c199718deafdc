"""The weight mapping of each family in Hugging Face's files, as a model of it is built or saved."""

from collections.abc import Iterable

from bert_tf.checkpoints.names.albert import ALBERT_NAMES
from bert_tf.checkpoints.names.bert import BERT_NAMES
from bert_tf.checkpoints.names.deberta import DEBERTA_NAMES
from bert_tf.checkpoints.names.distilbert import DISTILBERT_NAMES
from bert_tf.checkpoints.names.electra import ELECTRA_NAMES
from bert_tf.checkpoints.names.ernie import ERNIE_NAMES
from bert_tf.checkpoints.names.modernbert import MODERNBERT_NAMES
from bert_tf.checkpoints.names.mpnet import MPNET_NAMES
from bert_tf.checkpoints.names.new import NEW_NAMES
from bert_tf.checkpoints.names.nomic_bert import NOMIC_BERT_NAMES
from bert_tf.checkpoints.names.roberta import ROBERTA_NAMES
from bert_tf.checkpoints.names.roberta_prelayernorm import ROBERTA_PRELAYERNORM_NAMES
from bert_tf.checkpoints.names.rows import WORDS
from bert_tf.checkpoints.names.weight_mapping import WeightMapping
from bert_tf.models import family_registry
from bert_tf.models.config_files import INPUT_POSITIONS

WEIGHT_MAPPINGS: dict[str, WeightMapping] = {
    "albert": ALBERT_NAMES,
    "bert": BERT_NAMES,
    "deberta-v2": DEBERTA_NAMES,
    "distilbert": DISTILBERT_NAMES,
    "electra": ELECTRA_NAMES,
    "ernie": ERNIE_NAMES,
    "modernbert": MODERNBERT_NAMES,
    "mpnet": MPNET_NAMES,
    "new": NEW_NAMES,
    "nomic_bert": NOMIC_BERT_NAMES,
    "roberta": ROBERTA_NAMES,
    "roberta-prelayernorm": ROBERTA_PRELAYERNORM_NAMES,
}


def hugging_face(
    model_type: str = family_registry.DEFAULT,
    tied: bool = True,
    classes: Iterable[str] = (),
    positions: str | None = INPUT_POSITIONS,
) -> WeightMapping:
    """Returns the Hugging Face weight mapping of a family, a key of `family_registry.FAMILIES`.

    Args:
        model_type: the family.
        tied: `EncoderConfig.tie_word_embeddings`.
        classes: `architectures` of config.json, or suffixes of class names.
        positions: our path of the table of absolute positions, as from `config_files.positions_in`.

    Raises:
        ValueError: the family is not supported.
    """
    weight_mapping = WEIGHT_MAPPINGS[family_registry.family(model_type).weight_mapping].for_class(classes)
    if positions is None:
        weight_mapping = weight_mapping.leaving_out(INPUT_POSITIONS)
    elif positions != INPUT_POSITIONS:
        weight_mapping = weight_mapping.moving(INPUT_POSITIONS, positions)
    return weight_mapping if tied else weight_mapping.without_ties()


def prefixes(but: WeightMapping) -> set[str]:
    """Returns the prefixes of other families' encoders in Hugging Face's files whose names are otherwise those of one
    map."""

    def words(weight_mapping):
        return weight_mapping.from_ours(WORDS).removeprefix(weight_mapping.prefix)

    return {each.prefix for each in WEIGHT_MAPPINGS.values() if words(each) == words(but)} - {but.prefix, ""}
