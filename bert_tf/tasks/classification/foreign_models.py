"""The problem of a classifier trained with other software, according to its Transformers configuration."""

from collections.abc import Sequence

from bert_tf.models.config import EncoderConfig
from bert_tf.tasks.classification.problems import PROBLEMS
from bert_tf.tasks.foreign_models import names_class
from bert_tf.utils.files import brief

_PROBLEM_TYPES = {
    "single_label_classification": "single_label",
    "multi_label_classification": "multi_label",
    "regression": "regression",
}


def declared_problem_type(config: EncoderConfig) -> str | None:
    """Returns the problem for the `problem_type` of a configuration, or None without one.

    Raises:
        ValueError: it is unknown.
    """
    said = config.extra.get("problem_type")
    if said is not None and (not isinstance(said, str) or said not in _PROBLEM_TYPES):
        raise ValueError(
            f"problem_type must be one of {', '.join(_PROBLEM_TYPES)}; got {brief(said)}."
        )
    return said and _PROBLEM_TYPES[said]


def problem_of(config: EncoderConfig, labels: Sequence[str] | None) -> str | None:
    """Returns the problem of a text classifier, interpreting its configuration like Transformers.

    Without `problem_type`, one output means regression, several mean single-label (transformers#38219).

    Args:
        config: configuration with the keys of its file.
        labels: the names of the outputs, or None.

    Returns:
        "single_label", "multi_label" or "regression", or None if no Transformers class for this is named.

    Raises:
        ValueError: `problem_type` is not known, or a value has several outputs.
    """
    number = config.extra.get("num_labels", 2) if labels is None else len(labels)
    if not names_class(config, "ForSequenceClassification"):
        return None
    problem = declared_problem_type(config) or ("regression" if number == 1 else "single_label")
    if labels and len(labels) > 1 and not PROBLEMS[problem].has_labels:
        raise ValueError(
            f"A model with problem_type {problem} must have one output, but it has {len(labels)}: {brief(labels)}."
        )
    return problem
