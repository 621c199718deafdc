"""What is written: a model as arrays, and all that belongs to it."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_tf.models.config import EncoderConfig
from bert_tf.models.sentence_files import Recipe


@dataclasses.dataclass(frozen=True)
class Model:
    """A model, its weights as arrays.

    Attributes:
        config: of the encoder.
        arrays: our path -> array, in our orientation: encoder, pooler, heads.
        tokenizer: has `save(directory)`, `vocab`, `do_lower_case`, `special_tokens`, `added_tokens`, `pad_id` and
            `vocab_file`.
        labels: of the classifier, in the order of its outputs; None: they have no names.
        architectures: names of classes, as `architectures.architecture_of` takes them.
        optimizer: name in a TF1 checkpoint -> array: what was saved beside the weights, and shall be written too.
        beside: the directory that the model comes from, of which some formats take files over; None: there is none.
        recipe: how the model makes a vector of a text, where it was trained to; None: that is not said.
        remarks: what a reader of the files should know of how the arrays were made.
    """

    config: EncoderConfig
    arrays: Mapping[str, np.ndarray]
    tokenizer: Any
    labels: list[str] | None = None
    architectures: tuple[str, ...] = ()
    optimizer: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    beside: str | None = None
    recipe: Recipe | None = None
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
