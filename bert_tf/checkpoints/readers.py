"""Opens checkpoints of any format and reads their weights under our variable names: `open_checkpoint(path)`."""

import hashlib
import json
import os

import numpy as np
from absl import logging

from bert_tf.checkpoints import peft_files
from bert_tf.checkpoints.joined_weights import JoinedWeights
from bert_tf.checkpoints.keras_hub_names import keras_hub_name_map
from bert_tf.checkpoints.locate import locate
from bert_tf.checkpoints.names import family_mappings
from bert_tf.checkpoints.names.tf1 import TF1
from bert_tf.checkpoints.names.weight_mapping import WeightMapping
from bert_tf.checkpoints.weight_files import OPENERS, check_finite, file_beside, read_weight_map
from bert_tf.models import config_files, family_registry
from bert_tf.models import lora as adapters
from bert_tf.utils.files import sha256

_EMBEDDINGS = "bert/embeddings/word_embeddings"
_MOST_NAMES, _LONGEST_NAME = 50_000, 1000


class Checkpoint:
    """An open checkpoint: weights in a file, under our variable names.

    Attributes:
        path: the file, index file or TF1 prefix that is read.
        format: a key of OPENERS: "safetensors", "torch_bin", "sharded ...", "tf1", "keras_hub", "keras_hub_object".
        names: our path -> the file's name.
        left_out: names of entries that are not weights (buffers, counters, optimizer state), or second names.
        twins: those of left_out that are second names: the file's name -> `rows.Twin`.
        unknown: names that the weight mapping does not know.

    Args:
        path, form, weight_mapping: what to read, and how; for the form "keras_hub_object", `path` is the object itself.
        lora: adapters in the checkpoint: `get` merges each into its kernel, and `names` omits them. If None, they are
            weights like all others.
        other_act: hidden_act, if the masked-LM head has another activation; reading that head is then an error.
        peft: adapters of PEFT in other files: `get` merges them, and returns their heads in place of the file's.

    Raises:
        ValueError: the file is damaged, or `peft` does not match it.
    """

    def __init__(
        self,
        path: str,
        form: str,
        weight_mapping: WeightMapping,
        lora: adapters.Lora | None = None,
        other_act: str | None = None,
        peft: peft_files.PeftAdapters | None = None,
    ):
        self.path, self.format = str(path), form
        self._file, self._map = JoinedWeights(OPENERS[form](path), weight_mapping.joined), weight_mapping
        _check_names(path, self._file.shapes)
        try:
            groups = weight_mapping.sort(self._file.shapes, family_mappings.prefixes(but=weight_mapping))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        self.names, self.twins, self.unknown = groups.known, groups.twins, groups.unknown
        self.left_out = groups.left_out + list(groups.twins)
        self._lora, self._adapters, self._other_act = lora, {}, other_act
        if lora:
            self._adapters = {path: name for path, name in self.names.items() if adapters.is_adapter(path)}
            self.names = {path: name for path, name in self.names.items() if path not in self._adapters}
        self._peft = peft
        if peft:
            peft.check({path: self.shape(path) for path in self.names}, self.path)
            self.names = {**self.names, **dict.fromkeys(peft.others, peft.path)}

    def shape(self, path: str) -> tuple[int, ...]:
        """Returns the shape of the weight at our `path`, in our orientation, without reading it."""
        if self._peft and path in self._peft.others:
            return self._peft.others[path].shape
        return self._map.transform(path).shape(self._file.shapes[self.names[path]])

    def get(self, path: str) -> np.ndarray:
        """Reads the weight at our `path`: float32 (whatever floating type the file has), in our orientation.

        Raises:
            KeyError: the file has no such weight; see `names`.
            ValueError: the file is damaged, or the entry is not floating-point, or is NaN or infinite.
        """
        array = _widened(self.stored(path))
        if array.dtype != np.float32:
            raise ValueError(
                f"The weights in {self.path} must be floating-point numbers; got {self.names[path]} of "
                f"{array.dtype}; use the checkpoint before quantization."
            )
        return array

    def stored(self, path: str) -> np.ndarray:
        """Reads the weight at our `path` in the file's dtype, in our orientation; raises as `get`.

        A kernel with a merged adapter is float32.
        """
        if self._peft and path in self._peft.others:
            return self._peft.others[path]
        array = self._own(path)
        return self._peft.merge_into(path, _widened(array)) if self._peft and path in self._peft.pairs else array

    def _own(self, path):
        if self._other_act and path.startswith("cls/predictions/transform/"):
            raise ValueError(
                f"The masked-LM head in {self.path} cannot be read: in Transformers, it always uses gelu, whereas in "
                f"bert_tf it would use the configuration's hidden_act, {self._other_act}. Use bert-tf convert with "
                "`leave_out=cls/.*` to make a copy without the head."
            )
        read = self._map.transform(path).to_ours(self._file.read(self.names[path]))
        array = np.asarray(read, order="C")  # np.ascontiguousarray would give a lone number an axis
        check_finite(array, self.names[path], self.path)
        pair = [f"{path.rpartition('/')[0]}/{name}" for name in adapters.NAMES]
        if not path.endswith("/kernel") or not self._adapters.keys() & set(pair):
            return array
        shapes = [self._file.shapes.get(self._adapters.get(part)) for part in pair]
        if shapes != [(array.shape[0], self._lora.rank), (self._lora.rank, array.shape[1])]:
            raise ValueError(
                f"{self.path} must contain complete adapters of the rank in the configuration next to it, "
                f"{self._lora.rank}; got for {path}, {array.shape}: {shapes}."
            )
        a, b = (_widened(self._file.read(self._adapters[part])) for part in pair)
        for part, adapter in zip(pair, (a, b), strict=True):
            check_finite(adapter, self._adapters[part], self.path)
        return peft_files.merged(_widened(array), a, b, self._lora.scale)

    def read_left_out(self, name: str) -> np.ndarray:
        """Reads an entry that is not a weight, one of `left_out`, such as an optimizer's moments."""
        return self._file.read(name)

    def check_twins(self, loaded):
        """Checks second names of tied weights against the first, for those used by the paths `loaded`.

        Raises:
            ValueError: they differ, so the model is not the one that would be built.
        """
        for name, twin in self.twins.items():
            if twin.needed_by in loaded and not np.array_equal(_widened(self._file.read(name)), self.get(twin.of)):
                raise ValueError(
                    f"{name} in {self.path} must be equal to {self.names[twin.of]}, because the model ties them, but "
                    "differs. If the model has its own output layer, set this in config.json: "
                    '"tie_word_embeddings": false.'
                )


def _widened(array):
    # kind "V" is how NumPy calls the types that ml_dtypes adds: bfloat16, and the 8-bit floats.
    return array.astype(np.float32, copy=False) if array.dtype.kind in "fV" else array


def _check_names(path, names):
    """Limits number and length of names, which are printed and matched against a hundred patterns."""
    longest = max(map(len, names), default=0)
    if len(names) > _MOST_NAMES or longest > _LONGEST_NAME:
        raise ValueError(
            f"A checkpoint must have at most {_MOST_NAMES:,} weights with names of at most {_LONGEST_NAME:,} "
            f"characters; got {path} with {len(names):,} and a name of {longest:,}; pass the checkpoint of a BERT-like "
            "model."
        )


def open_checkpoint(path: str | os.PathLike, family: str | None = None, merge: bool = True) -> Checkpoint:
    """Opens a Hugging Face, sentence-transformers or KerasHub directory, a file of one, or a TF1 checkpoint.

    Args:
        path: a directory; a .safetensors, .bin or .ckpt file or the .index.json of a sharded one; a TF1 prefix such as
            bert_model.ckpt. For a directory with TF1 checkpoints, the one named in its file `checkpoint` is used, or
            bert_model.ckpt, or the model.ckpt-N with the highest N.
        family: the family whose names the file has, a `model_type`. If None, that of the configuration next to the
            file, or BERT's.
        merge: whether LoRA adapters are merged into the kernels instead of being weights of their own. Those of PEFT,
            in adapter_model.safetensors of the directory `path`, always are.

    Raises:
        ValueError: there are no weights, or they are truncated, damaged or unsafe to read; or the family is not
            supported; or the directory has adapters of another model, or of a kind that is not supported.
    """
    form, found = locate(path)
    lora = config_files.lora_in(os.path.dirname(found) or ".") if merge else None
    own = form in ("tf1", "keras_hub")  # whose heads have the activation that they have here
    other_act = None if own else config_files.other_masked_lm_act_in(os.path.dirname(found) or ".")
    peft = _read_peft(path, found, family)
    return Checkpoint(found, form, _name_map(form, found, family), lora, other_act, peft)


def _read_peft(path, found, family):
    """Returns the adapters of PEFT in the directory `path`, or None if there are none."""
    adapter = peft_files.adapter_beside(path)
    if adapter is None:
        return None
    peft_files.check_base(adapter, found)
    folder = os.path.dirname(found) or "."
    model_type = family or config_files.model_type_in(folder) or family_registry.DEFAULT
    peft = peft_files.read_peft(adapter, model_type, config_files.tied_in(folder))
    logging.info("Merging %d adapters from %s; it has %d other weights.", len(peft.pairs), peft.path, len(peft.others))
    return peft


def hash_weights(path: str | os.PathLike) -> str:
    """Returns a SHA-256 of all weights of a checkpoint; `path` and errors as in `locate`, and as in `Shards`.

    The index of a TF1 checkpoint represents its data, because it contains a checksum of every tensor. That of shards
    contains only names, so the shards themselves are hashed.
    """
    form, file = locate(path)
    adapter = peft_files.adapter_beside(path)
    if adapter:
        hashes = [hash_weights(file), *(sha256(each) for each in peft_files.files_of(adapter))]
        return hashlib.sha256(json.dumps(hashes).encode()).hexdigest()
    if form == "tf1":
        return sha256(f"{file}.index")
    if not form.startswith("sharded "):
        return sha256(file)
    weight_map = read_weight_map(file)
    hashes = {name: sha256(file_beside(file, name)) for name in set(weight_map.values())}
    return hashlib.sha256(json.dumps([weight_map, hashes], sort_keys=True).encode()).hexdigest()


def read_arrays(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Reads all weights of an encoder and its heads as {our path: array}; other entries are logged.

    Args:
        path: as for `open_checkpoint`.

    Raises:
        ValueError: as `open_checkpoint`, or the file has unknown weights.
    """
    checkpoint = open_checkpoint(path)
    if checkpoint.unknown or _EMBEDDINGS not in checkpoint.names:
        raise ValueError(
            f"{checkpoint.path} must contain the weights of an encoder and of known heads, and nothing else. It "
            f"contains {checkpoint.unknown[:5] or 'no word embeddings'}; use `bert-tf convert` with its leave_out to "
            "drop unwanted weights."
        )
    checkpoint.check_twins(list(checkpoint.names))
    if checkpoint.left_out:
        logging.info("Skipped entries that are not weights: %s.", ", ".join(checkpoint.left_out[:4]))
    return {path: checkpoint.get(path) for path in checkpoint.names}


def _name_map(form, path, family):
    if form == "tf1":
        return TF1
    folder = os.path.dirname(path) or "."
    model_type = family or config_files.model_type_in(folder) or family_registry.DEFAULT
    if form == "keras_hub":
        return keras_hub_name_map(model_type, config_files.is_projected_in(folder))
    settings = config_files.tied_in(folder), config_files.classes_in(folder), config_files.positions_in(folder)
    return family_mappings.hugging_face(model_type, *settings)
