"""Common parts of the checkpoint writers: the model as arrays, its architecture's name, its description."""

import dataclasses
import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from bert_tf.models.config import EncoderConfig
from bert_tf.models.sentence_transformers_files import PoolingConfig
from bert_tf.utils.files import write_text

# === Contents ===
# What is written: a model as arrays, and all that belongs to it.


@dataclasses.dataclass(frozen=True)
class ModelArrays:
    """A model with its weights as arrays.

    Attributes:
        config: configuration of the encoder.
        arrays: our path -> array, in our orientation: encoder, pooler, heads.
        tokenizer: has `save(directory)`, `vocab`, `do_lower_case`, `special_tokens`, `added_tokens`, `pad_id` and
            `vocab_file`.
        labels: labels of the classifier, in the order of its outputs. If None, they have no names.
        architectures: class names, as for `architecture_of`.
        optimizer: name in a TF1 checkpoint -> array: optimizer state saved with the weights, to be written too.
        source_dir: the model's original directory, from which some formats copy files. If None, there is none.
        recipe: the pooling settings of a sentence encoder. If None, they are unknown.
        remarks: remarks on how the arrays were made, for readers of the files.
    """

    config: EncoderConfig
    arrays: Mapping[str, np.ndarray]
    tokenizer: Any
    labels: list[str] | None = None
    architectures: tuple[str, ...] = ()
    optimizer: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    source_dir: str | None = None
    recipe: PoolingConfig | None = None
    remarks: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Written:
    """The result of a writer.

    Attributes:
        weights: the weight files, relative to the directory.
        not_held: our paths of weights that the format's class does not have, and that were not written.
        remarks: remarks for readers of the files.
    """

    weights: tuple[str, ...]
    not_held: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


# === Architectures ===
# The Transformers class with the heads of a model, which determines the weights in its file.


POOLER = "bert/pooler/dense/"
_TRANSFORM = "classifier/dense/kernel"
_HEADS = (
    "classifier", "cls/predictions", "cls/replaced_tokens", "cls/seq_relationship", "cls/squad", "recurrent", "tagger",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Architecture:
    """A kind of Transformers class.

    Attributes:
        ending: suffix of its name, after the family's: BertForMaskedLM.
        heads: path prefixes of its heads.
        reads_pooler: whether it has a pooler, if the family has one.
        own_names: (prefix in the table, prefix in the class), if its head is named differently.
    """

    ending: str
    heads: tuple[str, ...]
    reads_pooler: bool = False
    own_names: tuple[tuple[str, str], ...] = ()

    def name(self, theirs: str) -> str:
        """Returns the class's name of a weight that is called `theirs` in the name table."""
        for old, new in self.own_names:
            if theirs.startswith(old):
                return new + theirs.removeprefix(old)
        return theirs

    def holds(self, path: str, paths: Iterable[str]) -> bool:
        """Returns whether the class has the weight at our `path`, in a model with these `paths`."""
        if path.startswith(POOLER):
            return self.reads_pooler and _TRANSFORM not in paths
        return path.startswith(("bert/", *(f"{head}/" for head in self.heads)))


# ElectraForMultipleChoice's layer before the last one.
_SUMMARY = (("classifier.dense.", "sequence_summary.summary."), ("classifier.out_proj.", "classifier."))

# In the order used if a model does not state its class: text classification precedes token classification.
ARCHITECTURES = (
    Architecture("Model", (), True),
    Architecture("ForPreTraining", ("cls/predictions", "cls/seq_relationship"), True),
    Architecture("ForPreTraining", ("cls/replaced_tokens",)),
    Architecture("ForMaskedLM", ("cls/predictions",)),
    Architecture("LMHeadModel", ("cls/predictions",)),
    Architecture("ForCausalLM", ("cls/predictions",)),
    Architecture("ForNextSentencePrediction", ("cls/seq_relationship",), True),
    Architecture("ForSequenceClassification", ("classifier",), True),
    Architecture("ForTokenClassification", ("classifier",)),
    Architecture("ForMultipleChoice", ("classifier",), True, _SUMMARY),
    Architecture("ForQuestionAnswering", ("cls/squad",)),
)


def architecture_of(paths: Iterable[str], names: Iterable[str] = ()) -> Architecture:
    """Returns the Transformers class for a model.

    Args:
        paths: our paths of its weights.
        names: class names, such as "BertForTokenClassification" or "ForTokenClassification": the first one with the
            model's heads is used. Weights do not distinguish text classifiers from token classifiers.

    Raises:
        ValueError: no class has all of its heads.
    """
    there = heads_in(paths)
    fitting = [each for each in ARCHITECTURES if set(each.heads) == there]
    if not fitting:
        raise ValueError(
            f"The heads of a model must belong to one class: {_classes()}. Received {' and '.join(sorted(there))}; "
            "drop some of them with `leave_out`, such as `leave_out=cls/.*`."
        )
    named = (each for name in names for each in fitting if name.endswith(each.ending))
    return next(named, fitting[0])


def heads_in(paths: Iterable[str]) -> set[str]:
    """Returns the path prefixes of a model's heads."""
    return {head for path in paths for head in _HEADS if re.match(f"{head}/", path)}


def _classes():
    return ", ".join(f"{each.ending} ({' and '.join(each.heads) or 'no head'})" for each in ARCHITECTURES)


# === Description ===
# The small files next to the weights: configuration, tokenizer, labels.


LABELS_FILE = "labels.txt"
HEAD_CLASS = "head_class"  # the key of bert_config.json that states what a classifier classifies; Google's has none


def write_json(path: str, values):
    """Writes values as human-readable JSON."""
    write_text(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def check_label_names(labels: list[str]):
    """Raises ValueError if a label could not be read back, because labels.txt has one per line."""
    if broken := [label for label in labels if {"\n", "\r"} & set(label)]:
        raise ValueError(
            f"The name of a label must be one line of text. Received {broken[0]!r}; write it without line breaks."
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
