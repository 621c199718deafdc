"""The tokenizer as a Keras layer: models read raw text and store their vocabulary."""

import json
import os
import tempfile
from typing import Any

import keras
import tensorflow as tf

from bert_tf.checkpoints.hub_models import resolve_model
from bert_tf.checkpoints.loading import load_description
from bert_tf.data.features import ENCODER_INPUTS
from bert_tf.export.hub.layer_files import Files, find_remembered, remember
from bert_tf.tokenization.base_tokenizer import BaseTokenizer
from bert_tf.tokenization.registry import TOKENIZERS
from bert_tf.tokenization.table_registry import describe_tables, restore_tables
from bert_tf.utils.text_inputs import text_list


@keras.saving.register_keras_serializable("bert_tf")
class TokenizerLayer(keras.layers.Layer):
    """Keras layer that tokenizes strings into the inputs of `Encoder`.

        text = keras.Input((), dtype="string")
        vector = bert.encoder(bert_tf.TokenizerLayer(bert.tokenizer)(text))["pooled_output"]
        model = keras.Model(text, keras.layers.Dense(2)(vector))

    `model.save` writes the vocabulary into the .keras file.

    Input: strings [n], or an input of `text_inputs.text_list`; or two tensors, in a list or tuple, for pairs.
    Output: a dict of `input_ids`, `input_mask` and `segment_ids`, int32 [n, S], where S is the longest sequence of the
        batch.

    Args:
        tokenizer: a `BaseTokenizer`, such as `bert_tf.load(path).tokenizer`; or a model's directory, or its name on the
            Hugging Face Hub.
        max_seq_length: maximum sequence length, including special tokens; longer texts are truncated.
        fixed_length: whether S is max_seq_length.

    Raises:
        ValueError: the directory contains no model, or its tokenizer cannot be part of a graph; in a call: the input is
            not strings [n], once or twice; max_seq_length leaves no room for the special tokens, or the model does not
            support pairs.
    """

    def __init__(
        self,
        tokenizer: BaseTokenizer | str | os.PathLike,
        max_seq_length: int = 128,
        fixed_length: bool = False,
        **kwargs: Any,
    ) -> None:
        self._begin(max_seq_length, fixed_length, **kwargs)
        if not isinstance(tokenizer, BaseTokenizer):
            tokenizer = load_description([resolve_model(tokenizer, "tokenizer", weights=False)]).tokenizer
        tokenizer.check_exportable("A Keras layer")
        self.tokenizer = tokenizer
        with tempfile.TemporaryDirectory(prefix="bert_tf-") as folder:
            tokenizer.save(folder)
            self._description = describe_tables(tokenizer) | {"fingerprint": _files_in(folder).fingerprint}
        remember(_key(self._description), tokenizer)

    def _begin(self, max_seq_length, fixed_length, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.max_seq_length, self.fixed_length = max_seq_length, fixed_length
        self.supports_jit = False  # XLA does not support strings
        self.built = True

    def __call__(self, texts: Any, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(_columns(texts), *args, **kwargs)

    def call(self, texts):
        if self.tokenizer is None:
            raise ValueError(
                f"The layer {self.name!r} was called without its vocabulary, which is in its model's .keras file. "
                "Load that file, or create the layer from a tokenizer."
            )
        ids = [self.tokenizer.tokenize(each) for each in texts]
        packed = self.tokenizer.pack(*ids, max_seq_length=self.max_seq_length)
        return self.tokenizer.pad(packed, self.max_seq_length if self.fixed_length else None)

    def compute_output_spec(self, texts):
        shape = (texts[0].shape[0], self.max_seq_length if self.fixed_length else None)
        return {name: keras.KerasTensor(shape, "int32") for name in ENCODER_INPUTS}

    def get_config(self):
        return super().get_config() | {
            "tokenizer": self._description,
            "max_seq_length": self.max_seq_length,
            "fixed_length": self.fixed_length,
        }

    @classmethod
    def from_config(cls, config):
        """Creates the layer that `get_config` described.

        It gets its vocabulary at once if this process has the same tokenizer, otherwise from `load_assets`.
        """
        options = dict(config)
        description = options.pop("tokenizer")
        layer = cls.__new__(cls)
        layer._begin(**options)
        layer._description, layer.tokenizer = description, find_remembered(_key(description))
        return layer

    def save_assets(self, dir_path):
        """Writes the vocabulary; Keras calls it."""
        self.tokenizer.save(dir_path)

    def load_assets(self, dir_path):
        """Reads the files of `save_assets`; Keras calls it.

        Raises:
            ValueError: there is no vocabulary, or it belongs to another layer.
        """
        if self.tokenizer is not None:
            return
        files = _files_in(dir_path) if dir_path else None
        if files is None or files.fingerprint != self._description["fingerprint"]:
            raise ValueError(
                f"The vocabulary of the layer {self.name!r} must be the one that it was saved with; the file has "
                f"{'none' if files is None else 'another'}; save the model again."
            )
        self._files = files.copy()  # kept, because an export of the model includes the vocabulary as a file
        self.tokenizer = restore_tables(self._description, self._files.folder, TOKENIZERS)
        remember(_key(self._description), self.tokenizer)


def _columns(texts):
    """Returns a list with the tensor of texts, or with both tensors of pairs."""
    columns = [texts] if _is_tensor(texts) else texts
    if not isinstance(columns, list | tuple) or not any(map(_is_tensor, columns)):
        columns = [tf.constant(text_list(texts), tf.string)]
    columns = [each if _is_tensor(each) else tf.constant(text_list(each), tf.string) for each in columns]
    if len(columns) > 2:
        raise ValueError(
            f"`texts` must be a tensor of strings [n], or two of them for pairs; got {len(columns)}. Join those that "
            "form one text, for example with keras.ops or tf.strings.join."
        )
    for each in columns:
        if keras.backend.standardize_dtype(each.dtype) != "string" or len(each.shape) != 1:
            raise ValueError(
                f"`texts` must be strings [n]; got {keras.backend.standardize_dtype(each.dtype)} of shape "
                f'{tuple(each.shape)}; create the input with keras.Input((), dtype="string").'
            )
    return columns


def _is_tensor(texts):
    return tf.is_tensor(texts) or isinstance(texts, keras.KerasTensor)


def _files_in(folder):
    return Files(folder, os.listdir(folder))


def _key(description):
    """Returns the identity of a tokenizer; lists count as tuples."""
    return json.dumps(description, sort_keys=True)
