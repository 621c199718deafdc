"""What a configuration of Transformers says of a head that others trained: its class, its problem, its tags."""

from collections.abc import Sequence

from bert_tf.evaluation.entities import split_tag
from bert_tf.models.config import EncoderConfig
from bert_tf.tasks.classification_outputs import PROBLEMS
from bert_tf.utils.files import brief

_PROBLEMS = {"single_label_classification": "single_label", "multi_label_classification": "multi_label",
             "regression": "regression"}  # fmt: skip
_OF_TEXTS, _OF_TOKENS = "ForSequenceClassification", "ForTokenClassification"


def is_for(config: EncoderConfig, ending: str) -> bool:
    """Says whether the class that a configuration names ends so: "ForTokenClassification"."""
    named = config.extra.get("architectures")
    names = [*(named if isinstance(named, list) else []), config.extra.get("head_class")]
    return any(isinstance(name, str) and name.endswith(ending) for name in names)


def said_problem(config: EncoderConfig) -> str | None:
    """Returns the problem that `problem_type` of a configuration names, in our names; None: it names none.

    Raises:
        ValueError: it names one that is not known.
    """
    said = config.extra.get("problem_type")
    if said is not None and (not isinstance(said, str) or said not in _PROBLEMS):
        raise ValueError(f"problem_type must be one of {', '.join(_PROBLEMS)}. Received: {brief(said)}; correct it.")
    return said and _PROBLEMS[said]


def problem_of(config: EncoderConfig, labels: Sequence[str] | None) -> str | None:
    """Returns what the outputs of a classifier of texts stand for, as Transformers reads its configuration.

    Without `problem_type` one output is a value, and several are labels of which one holds (transformers#38219).

    Args:
        config: with the keys of its file.
        labels: the names of the outputs, or None.

    Returns:
        "single_label", "multi_label" or "regression"; None: no class of Transformers for this is named.

    Raises:
        ValueError: `problem_type` is not known, or a value has several outputs.
    """
    number = config.extra.get("num_labels", 2) if labels is None else len(labels)
    if not is_for(config, _OF_TEXTS):
        return None
    problem = said_problem(config) or ("regression" if number == 1 else "single_label")
    if labels and len(labels) > 1 and not PROBLEMS[problem].has_labels:
        raise ValueError(
            f"A model with problem_type {problem} must have one output. Received {len(labels)}: {brief(labels)}; take "
            "another model."
        )
    return problem


def tags_of_others(config: EncoderConfig, labels: Sequence[str] | None) -> tuple[list[str], str] | None:
    """Returns the tags of a tagger that others trained, and their scheme: "iob1", "iob2" or "bioes".

    Args:
        config: with the keys of its file.
        labels: the names of the outputs.

    Returns:
        None: no class of Transformers for this is named, or the outputs have no names.

    Raises:
        ValueError: the names are no tags of entities.
    """
    if labels is None or not is_for(config, _OF_TOKENS):
        return None
    try:
        tags = [split_tag(label) for label in labels]
    except ValueError as error:
        raise ValueError(f"id2label of the model must give its outputs the names of tags. {error}") from error
    if {"E", "S"} & {prefix for prefix, _ in tags}:
        return list(labels), "bioes"
    inside, begun = ({kind for prefix, kind in tags if prefix == wanted} for wanted in "IB")
    return list(labels), "iob2" if inside <= begun else "iob1"
