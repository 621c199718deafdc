"""The small files next to the weights: configuration, labels, and the class of the head."""

import json
import os

from bert_tf.checkpoints.architectures import architecture_of
from bert_tf.checkpoints.model_arrays import ModelArrays
from bert_tf.utils.files import write_text

LABELS_FILE = "labels.txt"
HEAD_CLASS = "head_class"  # the key of bert_config.json that states what a classifier classifies; Google's has none


def write_json(path: str, values):
    """Writes values as human-readable JSON."""
    write_text(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def check_label_names(labels: list[str]):
    """Raises ValueError if a label could not be read back, because labels.txt has one per line."""
    if broken := [label for label in labels if {"\n", "\r"} & set(label)]:
        raise ValueError(
            f"The name of a label must be one line of text; got {broken[0]!r}; write it without line breaks."
        )


def write_labels(directory: str, labels: list[str] | None):
    """Writes labels.txt, if there are labels; raises as `check_label_names`."""
    if labels is not None:
        check_label_names(labels)
        write_text(os.path.join(directory, LABELS_FILE), "".join(f"{label}\n" for label in labels))


def with_head_class(values: dict, model: ModelArrays) -> dict:
    """Returns a configuration's values with the class of the head, if only that distinguishes it."""
    values = {name: value for name, value in values.items() if name != HEAD_CLASS}
    if "architectures" in values or not any(path.startswith("classifier/") for path in model.arrays):
        return values
    return values | {HEAD_CLASS: architecture_of(model.arrays, model.architectures).ending}
