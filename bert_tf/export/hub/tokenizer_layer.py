"""The tokenizer as a layer of Keras: a model reads text itself and takes its vocabulary along."""

import dataclasses
import hashlib
import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable

import keras
import tensorflow as tf

from bert_tf.checkpoints.loading import load_description
from bert_tf.data.features import ENCODER_INPUTS
from bert_tf.models.families import InputTemplate
from bert_tf.tokenization.base_tokenizer import BaseTokenizer
from bert_tf.tokenization.registry import TOKENIZERS
from bert_tf.utils.text_lists import text_list

# === Files ===
# What no configuration of a layer can hold: graphs and vocabularies, in the folders from which layers have them.
#
# Keras rebuilds a layer from its configuration, and gives it the files that were saved with it later, if at all: a copy
# made in memory, as by `keras.models.clone_model`, gets none. So a configuration names its files by their fingerprint,
# and what this process has read already is found again.


_KNOWN: weakref.WeakValueDictionary = weakref.WeakValueDictionary()  # fingerprint -> what was read


class Files:
    """Some files of a folder, as they were when this was made.

    Attributes:
        folder: its path.
        names: paths in it, sorted.
        fingerprint: hexadecimal; the same for the same names and contents.

    Raises:
        ValueError: something of that name is no file.
    """

    def __init__(self, folder: str, names: Iterable[str]):
        self.folder, self.names = folder, sorted(names)
        self.fingerprint = self._digest()
        self._temporary = None

    def _digest(self):
        digest = hashlib.sha256()
        for name in self.names:
            path = os.path.join(self.folder, name)
            if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device may have no end
                raise ValueError(
                    f"The files of a saved layer must be files. Received {path}, which is none; take it away."
                )
            with open(path, "rb") as file:
                digest.update(f"{name}\n{os.fstat(file.fileno()).st_size}\n".encode())
                digest.update(file.read())
        return digest.hexdigest()

    def unchanged(self) -> bool:
        """Returns whether the files are there and as they were."""
        try:
            return self._digest() == self.fingerprint
        except (OSError, ValueError):
            return False

    def copy_to(self, folder: str):
        """Writes the files into a folder."""
        for name in self.names:
            target = os.path.join(folder, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(os.path.join(self.folder, name), target)

    def copy(self) -> "Files":
        """Returns copies in a temporary folder, which is removed when nothing refers to them any more."""
        temporary = tempfile.TemporaryDirectory(prefix="bert_tf-")
        self.copy_to(temporary.name)
        files = Files(temporary.name, self.names)
        files._temporary = temporary
        return files


def remember(fingerprint: str, value):
    """Has `find_remembered` find `value` as long as somebody else refers to it."""
    _KNOWN[fingerprint] = value


def find_remembered(fingerprint: str):
    """Returns what was remembered, None where it is gone."""
    return _KNOWN.get(fingerprint)


# === Tokenizer layer ===


@keras.saving.register_keras_serializable("bert_tf")
class TokenizerLayer(keras.layers.Layer):
    """Keras layer that tokenizes strings into the inputs of `Encoder`.

        text = keras.Input((), dtype="string")
        vector = bert.encoder(bert_tf.TokenizerLayer(bert.tokenizer)(text))["pooled_output"]
        model = keras.Model(text, keras.layers.Dense(2)(vector))

    `model.save` writes the vocabulary into the .keras file.

    Input: strings [n], or what `text_lists.text_list` takes; or two tensors, in a list or tuple, for pairs.
    Output: a dict of `input_ids`, `input_mask` and `segment_ids`, int32 [n, S], S being the batch's longest sequence.

    Args:
        tokenizer: a `BaseTokenizer`, such as `bert_tf.load(path).tokenizer`; or the directory of a model.
        max_seq_length: tokens of a sequence at most, special tokens included; what is longer is cut.
        fixed_length: whether S is max_seq_length.

    Raises:
        ValueError: the directory holds no model; in a call: what is given is no strings [n], once or twice;
            max_seq_length has no room for the special tokens, or the model knows no pairs.
    """

    def __init__(
        self,
        tokenizer: BaseTokenizer | str | os.PathLike,
        max_seq_length: int = 128,
        fixed_length: bool = False,
        **kwargs,
    ):
        self._begin(max_seq_length, fixed_length, **kwargs)
        if not isinstance(tokenizer, BaseTokenizer):
            tokenizer = load_description([os.fspath(tokenizer)]).tokenizer
        self.tokenizer = tokenizer
        with tempfile.TemporaryDirectory(prefix="bert_tf-") as folder:
            tokenizer.save(folder)
            self._description = {
                "kind": tokenizer.KIND,
                "template": dataclasses.asdict(tokenizer.template),
                "settings": tokenizer.settings,
                "fingerprint": _files_in(folder).fingerprint,
            }
        remember(_key(self._description), tokenizer)

    def _begin(self, max_seq_length, fixed_length, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.max_seq_length, self.fixed_length = max_seq_length, fixed_length
        self.supports_jit = False  # XLA knows no strings
        self.built = True

    def __call__(self, texts, *args, **kwargs):
        return super().__call__(_columns(texts), *args, **kwargs)

    def call(self, texts):
        if self.tokenizer is None:
            raise ValueError(
                f"The layer {self.name!r} must have its vocabulary, which lies in the .keras file of its model. "
                "Received a call without; load that file, or make the layer from a tokenizer."
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
        """Makes the layer that `get_config` described.

        It has its vocabulary at once where this process has the same tokenizer; else once `load_assets` brings it.
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
        """Reads what `save_assets` wrote; Keras calls it.

        Raises:
            ValueError: there is nothing, or it is another layer's.
        """
        if self.tokenizer is not None:
            return
        files = _files_in(dir_path) if dir_path else None
        if files is None or files.fingerprint != self._description["fingerprint"]:
            raise ValueError(
                f"The vocabulary of the layer {self.name!r} must be the one that it was saved with. Received "
                f"{'none' if files is None else 'another'}; save the model again."
            )
        self._files = files.copy()  # stays: an export of the model takes the vocabulary along as a file
        fields = {name: tuple(v) if isinstance(v, list) else v for name, v in self._description["template"].items()}
        kind = TOKENIZERS[self._description["kind"]]
        self.tokenizer = kind.from_saved(self._files.folder, InputTemplate(**fields), self._description["settings"])
        remember(_key(self._description), self.tokenizer)


def _columns(texts):
    """Returns one tensor of texts, or the two of pairs, in a list."""
    columns = [texts] if _is_tensor(texts) else texts
    if not isinstance(columns, list | tuple) or not any(map(_is_tensor, columns)):
        columns = [tf.constant(text_list(texts), tf.string)]
    columns = [each if _is_tensor(each) else tf.constant(text_list(each), tf.string) for each in columns]
    if len(columns) > 2:
        raise ValueError(
            f"`texts` must be strings [n], or two of them for pairs. Received {len(columns)}; join those that make one "
            "text, as with keras.ops or tf.strings.join."
        )
    for each in columns:
        if keras.backend.standardize_dtype(each.dtype) != "string" or len(each.shape) != 1:
            raise ValueError(
                f"`texts` must be strings [n]. Received {keras.backend.standardize_dtype(each.dtype)} of the shape "
                f'{tuple(each.shape)}; make the input with keras.Input((), dtype="string").'
            )
    return columns


def _is_tensor(texts):
    return tf.is_tensor(texts) or isinstance(texts, keras.KerasTensor)


def _files_in(folder):
    return Files(folder, os.listdir(folder))


def _key(description):
    """Returns what distinguishes one tokenizer from another; lists are as good as tuples."""
    return json.dumps(description, sort_keys=True)
