"""What every writer of checkpoints needs: the model as arrays, its architecture's name, its description."""

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
    """A model, its weights as arrays.

    Attributes:
        config: of the encoder.
        arrays: our path -> array, in our orientation: encoder, pooler, heads.
        tokenizer: has `save(directory)`, `vocab`, `do_lower_case`, `special_tokens`, `added_tokens`, `pad_id` and
            `vocab_file`.
        labels: of the classifier, in the order of its outputs; None: they have no names.
        architectures: names of classes, as `architecture_of` takes them.
        optimizer: name in a TF1 checkpoint -> array: what was saved with the weights, and shall be written too.
        source_dir: the directory that the model comes from, of which some formats take files over; None: there is none.
        recipe: how the model makes a vector of a text, where it was trained to; None: that is not said.
        remarks: what a reader of the files should know of how the arrays were made.
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
    """What a writer did.

    Attributes:
        weights: the files of weights, relative to the directory.
        not_held: our paths of weights that the format's class does not read, and that were not written.
        remarks: what a reader of the files should know.
    """

    weights: tuple[str, ...]
    not_held: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


# === Architectures ===
# Which class of Transformers has the heads of a model, and so which weights its file may hold.


POOLER = "bert/pooler/dense/"
_TRANSFORM = "classifier/dense/kernel"
_HEADS = (
    "classifier", "cls/predictions", "cls/replaced_tokens", "cls/seq_relationship", "cls/squad", "recurrent", "tagger",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Architecture:
    """One kind of class.

    Attributes:
        ending: of its name, behind the family's own: BertForMaskedLM.
        heads: how the paths of its heads begin.
        reads_pooler: it has a pooler, where the family has one.
        own_names: (how the table's name begins, how the class has it), where its head is called otherwise.
    """

    ending: str
    heads: tuple[str, ...]
    reads_pooler: bool = False
    own_names: tuple[tuple[str, str], ...] = ()

    def name(self, theirs: str) -> str:
        """Returns what the class calls a weight that the table of names calls `theirs`."""
        for old, new in self.own_names:
            if theirs.startswith(old):
                return new + theirs.removeprefix(old)
        return theirs

    def holds(self, path: str, paths: Iterable[str]) -> bool:
        """Says whether the class has the weight at our `path`, in a model of these `paths`."""
        if path.startswith(POOLER):
            return self.reads_pooler and _TRANSFORM not in paths
        return path.startswith(("bert/", *(f"{head}/" for head in self.heads)))


# ElectraForMultipleChoice's layer before the last one.
_SUMMARY = (("classifier.dense.", "sequence_summary.summary."), ("classifier.out_proj.", "classifier."))

# In the order in which they are taken where a model says nothing: a text's label comes before that of each token.
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
    """Returns the class for a model.

    Args:
        paths: ours, of its weights.
        names: of classes, such as "BertForTokenClassification" or "ForTokenClassification": the first of them that has
            the model's heads is taken. Weights do not tell a text's classifier from that of each token.

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
    """Returns how the paths of the heads begin that a model has."""
    return {head for path in paths for head in _HEADS if re.match(f"{head}/", path)}


def _classes():
    return ", ".join(f"{each.ending} ({' and '.join(each.heads) or 'no head'})" for each in ARCHITECTURES)


# === Description ===
# The small files next to the weights: configuration, tokenizer, labels.


LABELS_FILE = "labels.txt"
HEAD_CLASS = "head_class"  # the key of bert_config.json that says what a classifier classifies: Google's has none


def write_json(path: str, values):
    """Writes values as JSON that people can read."""
    write_text(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def check_label_names(labels: list[str]):
    """Raises ValueError where a label could not be read again, since labels.txt has one a line."""
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
    """Returns a configuration's values with the class of the head, where only that tells what it is for."""
    values = {name: value for name, value in values.items() if name != HEAD_CLASS}
    if "architectures" in values or not any(path.startswith("classifier/") for path in model.arrays):
        return values
    return values | {HEAD_CLASS: architecture_of(model.arrays, model.architectures).ending}
