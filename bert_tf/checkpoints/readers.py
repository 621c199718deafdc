"""Opens checkpoints of any format and reads their weights under our variable names: `open_checkpoint(path)`."""

import hashlib
import json
import os

import ml_dtypes  # noqa: F401  (registers bfloat16 with NumPy, which safetensors needs)
import numpy as np
from absl import logging
from safetensors import SafetensorError, safe_open

from bert_tf.checkpoints import keras_hub, keras_hub_objects, name_maps, tf1
from bert_tf.checkpoints.keras_hub_names import keras_hub_name_map
from bert_tf.checkpoints.locate import locate
from bert_tf.checkpoints.name_map import NameMap
from bert_tf.checkpoints.torch_bin import TorchBin
from bert_tf.models import config_files, families
from bert_tf.models import lora as adapters
from bert_tf.utils.files import brief, sha256
from bert_tf.utils.json_files import read_object

# === Formats ===
# The file formats of weights, each with `shapes` (name in the file -> shape) and `read(name)`.
#
# Opening reads names and shapes only; an array is read on demand, in the dtype and orientation of the file.


_REMEDY = "download or copy it again"
_LONGEST_HEADER = 16 * 2**20  # bytes; that of BERT-large has 40,000
# The types of safetensors that NumPy has. Numbers of 8 bits and less stand for weights only together with scales.
_DTYPES = ("F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL")


def check_finite(array: np.ndarray, name: str, path: str):
    """Checks that a weight is finite, because NaN or infinity would make all outputs of the model NaN.

    Args:
        array: of any type; non-floating-point arrays pass.
        name: name of the weight in the file.
        path: path of the file.

    Raises:
        ValueError: a number of it is not finite.
    """
    if array.dtype.kind not in "fV" or (finite := np.isfinite(array)).all():
        return
    index = np.unravel_index(int(np.argmin(finite)), finite.shape)
    raise ValueError(
        f"The weights in {path} are not finite: {array[index]} in {name} at {[int(i) for i in index]}, one of "
        f"{np.count_nonzero(~finite):,} in its {array.size:,} numbers. The training that wrote it diverged, or the "
        "file is damaged; use an earlier checkpoint, or download it again."
    )


class SafetensorsFile:
    """A .safetensors file.

    Raises:
        ValueError: the file is truncated or not a safetensors file.
    """

    def __init__(self, path: str):
        self._path = path
        try:
            _check_header(path)
            self._file = safe_open(path, framework="np")
            names = self._file.keys()
            self.shapes = {name: tuple(self._file.get_slice(name).get_shape()) for name in names}
        except (SafetensorError, OSError, ValueError) as error:
            raise self._refusal(error) from error

    def read(self, name: str) -> np.ndarray:
        try:
            dtype = self._file.get_slice(name).get_dtype()
            if dtype not in _DTYPES:
                raise ValueError(f"numbers of type {dtype}, which are not supported")
            return self._file.get_tensor(name)
        except (SafetensorError, OSError, ValueError) as error:
            raise self._refusal(f"{name:.200}: {error}") from error

    def _refusal(self, why):
        return ValueError(f"{self._path} is not a complete safetensors file: {str(why):.1000}; {_REMEDY}.")


def _check_header(path):
    """Rejects headers that are longer than weights need; safetensors' own reader accepts 100 MB."""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
    if size > _LONGEST_HEADER:
        raise ValueError(f"a header of {size} bytes")


class TorchBinFile:
    """A pytorch_model.bin file, read without torch (see torch_bin.py).

    Raises:
        ValueError: the file is truncated, is not a torch file, or tries to run code.
    """

    def __init__(self, path: str):
        self._file = TorchBin(path)
        self.shapes = {name: tensor.shape for name, tensor in self._file.tensors.items()}
        self.read = self._file.read


class Shards:
    """Several files listed in an index file: {"weight_map": {name: file next to the index}}.

    Raises:
        ValueError: the index is not such a file, or a file or weight that it lists is missing.
    """

    def __init__(self, path: str, open_one):
        self._files = _read_weight_map(path)
        self._shards = {file: open_one(_beside(path, file)) for file in sorted(set(self._files.values()))}
        missing = [name for name, file in self._files.items() if name not in self._shards[file].shapes]
        if missing:
            raise ValueError(
                f"The files listed in {path} do not hold all of its weights: {brief(missing)} are missing; {_REMEDY}."
            )
        self.shapes = {name: self._shards[file].shapes[name] for name, file in self._files.items()}

    def read(self, name: str) -> np.ndarray:
        return self._shards[self._files[name]].read(name)


def _read_weight_map(path):
    files = read_object(path, 'JSON with a "weight_map"', _REMEDY).get("weight_map")
    if not isinstance(files, dict) or not all(isinstance(file, str) for file in files.values()):
        raise ValueError(
            f'{path} must be JSON with a "weight_map" of names and files. Received: {brief(files)}; {_REMEDY}.'
        )
    return files


def _beside(path, name):
    folder = os.path.dirname(path)
    if os.path.basename(name) != name or not os.path.isfile(os.path.join(folder, name)):
        raise ValueError(f"A file listed in {path} is missing next to it: {brief(name)}; {_REMEDY}.")
    return os.path.join(folder, name)


def hash_weights(path: str | os.PathLike) -> str:
    """Returns a SHA-256 of all weights of a checkpoint; `path` and errors as in `locate`, and as in `Shards`.

    The index of a TF1 checkpoint represents its data, because it holds a checksum of every tensor. That of shards holds
    only names, so the shards themselves are hashed.
    """
    form, file = locate(path)
    if form == "tf1":
        return sha256(f"{file}.index")
    if not form.startswith("sharded "):
        return sha256(file)
    weight_map = _read_weight_map(file)
    hashes = {name: sha256(_beside(file, name)) for name in set(weight_map.values())}
    return hashlib.sha256(json.dumps([weight_map, hashes], sort_keys=True).encode()).hexdigest()


OPENERS = {
    "safetensors": SafetensorsFile,
    "torch_bin": TorchBinFile,
    "sharded safetensors": lambda path: Shards(path, SafetensorsFile),
    "sharded torch_bin": lambda path: Shards(path, TorchBinFile),
    "tf1": tf1.Tf1File,
    "keras_hub": keras_hub.Preset,
    "keras_hub_object": keras_hub_objects.LiveWeights,
}


# === Readers ===


_EMBEDDINGS = "bert/embeddings/word_embeddings"
_MOST_NAMES, _LONGEST_NAME = 50_000, 1000


class Checkpoint:
    """An open checkpoint: weights in a file, under our variable names.

    Attributes:
        path: the file, index file or TF1 prefix that is read.
        format: a key of OPENERS: "safetensors", "torch_bin", "sharded ...", "tf1", "keras_hub", "keras_hub_object".
        names: our path -> the file's name.
        left_out: names of entries that are not weights (buffers, counters, optimizer state), or second names.
        twins: those of left_out that are second names: the file's name -> `name_map.Twin`.
        unknown: names that the name map does not know.

    Args:
        path, form, name_map: what to read, and how; for the form "keras_hub_object", `path` is the object itself.
        lora: adapters in the checkpoint: `get` merges each into its kernel, and `names` omits them. If None, they are
            weights like all others.
        other_act: hidden_act, if the masked-LM head has another activation; reading that head is then an error.
    """

    def __init__(
        self,
        path: str,
        form: str,
        name_map: NameMap,
        lora: adapters.Lora | None = None,
        other_act: str | None = None,
    ):
        self.path, self.format = str(path), form
        self._file, self._map = OPENERS[form](path), name_map
        _check_names(path, self._file.shapes)
        try:
            groups = name_map.sort(self._file.shapes, name_maps.prefixes(but=name_map))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        self.names, self.twins, self.unknown = groups.known, groups.twins, groups.unknown
        self.left_out = groups.left_out + list(groups.twins)
        self._lora, self._adapters, self._other_act = lora, {}, other_act
        if lora:
            self._adapters = {path: name for path, name in self.names.items() if adapters.is_adapter(path)}
            self.names = {path: name for path, name in self.names.items() if path not in self._adapters}

    def shape(self, path: str) -> tuple[int, ...]:
        """Returns the shape of the weight at our `path`, in our orientation, without reading it."""
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
                f"The weights in {self.path} must be floating-point numbers. Received: {self.names[path]} of "
                f"{array.dtype}; use the checkpoint before quantization."
            )
        return array

    def stored(self, path: str) -> np.ndarray:
        """Reads the weight at our `path` in the file's dtype, in our orientation; raises as `get`.

        A kernel with a merged adapter is float32.
        """
        if self._other_act and path.startswith("cls/predictions/transform/"):
            raise ValueError(
                f"The masked-LM head in {self.path} cannot be read: in Transformers, it always uses gelu, whereas "
                f"here it would use the configuration's hidden_act, {self._other_act}. Use bert-tf convert with "
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
                f"{self.path} must hold complete adapters of the rank in the configuration next to it, "
                f"{self._lora.rank}. Received for {path}, {array.shape}: {shapes}."
            )
        a, b = (_widened(self._file.read(self._adapters[part])) for part in pair)
        for part, adapter in zip(pair, (a, b), strict=True):
            check_finite(adapter, self._adapters[part], self.path)
        return merged(_widened(array), a, b, self._lora.scale)

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
            f"A checkpoint must hold at most {_MOST_NAMES:,} weights with names of at most {_LONGEST_NAME:,} "
            f"characters. Received {path} with {len(names):,} and a name of {longest:,}: is it a BERT checkpoint?"
        )


def merged(kernel: np.ndarray, a: np.ndarray, b: np.ndarray, scale: float) -> np.ndarray:
    """Returns the kernel with its adapter merged, kernel + scale * a b: float32 [in, out], rounded once."""
    return (kernel + scale * (a.astype(np.float64) @ b)).astype(np.float32)


def open_checkpoint(path: str | os.PathLike, family: str | None = None, merge: bool = True) -> Checkpoint:
    """Opens a Hugging Face, sentence-transformers or KerasHub directory, a file of one, or a TF1 checkpoint.

    Args:
        path: a directory; a .safetensors or .bin file or the .index.json of a sharded one; a TF1 prefix such as
            bert_model.ckpt. For a directory with TF1 checkpoints, the one named in its file `checkpoint` is used, or
            bert_model.ckpt, or the model.ckpt-N with the highest N.
        family: the family whose names the file has, a `model_type`. If None, that of the configuration next to the
            file, or BERT's.
        merge: whether LoRA adapters are merged into the kernels instead of being weights of their own.

    Raises:
        ValueError: there are no weights, or they are truncated, damaged or unsafe to read; or the family is not
            supported.
    """
    form, found = locate(path)
    lora = config_files.lora_in(os.path.dirname(found) or ".") if merge else None
    own = form in ("tf1", "keras_hub")  # whose heads have the activation that they have here
    other_act = None if own else config_files.other_masked_lm_act_in(os.path.dirname(found) or ".")
    return Checkpoint(found, form, _name_map(form, found, family), lora, other_act)


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
            f"{checkpoint.path} must hold the weights of an encoder and of known heads. It holds "
            f"{checkpoint.unknown[:5] or 'no word embeddings'}; use `bert-tf convert` with its leave_out to drop "
            "unwanted weights."
        )
    checkpoint.check_twins(list(checkpoint.names))
    if checkpoint.left_out:
        logging.info("Skipped entries that are not weights: %s.", ", ".join(checkpoint.left_out[:4]))
    return {path: checkpoint.get(path) for path in checkpoint.names}


def _name_map(form, path, family):
    if form == "tf1":
        return name_maps.TF1
    folder = os.path.dirname(path) or "."
    model_type = family or config_files.model_type_in(folder) or families.DEFAULT
    if form == "keras_hub":
        return keras_hub_name_map(model_type, config_files.is_projected_in(folder))
    settings = config_files.tied_in(folder), config_files.classes_in(folder), config_files.positions_in(folder)
    return name_maps.hugging_face(model_type, *settings)
