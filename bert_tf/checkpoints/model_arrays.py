"""A model as arrays, with all that belongs to it, which is what the writers write."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_tf.models.config import EncoderConfig
from bert_tf.models.sentence_transformers_files import PoolingConfig


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
