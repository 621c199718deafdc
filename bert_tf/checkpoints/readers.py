"""One face for every checkpoint that is read: `open_checkpoint(path)`, then arrays by our variables' paths."""

import os

import numpy as np
from absl import logging

from bert_tf.checkpoints import names
from bert_tf.checkpoints.formats import OPENERS, check_finite
from bert_tf.checkpoints.locate import locate
from bert_tf.models import config_files, families
from bert_tf.models import lora as adapters

_EMBEDDINGS = "bert/embeddings/word_embeddings"
_MOST_NAMES, _LONGEST_NAME = 50_000, 1000


class Checkpoint:
    """Weights in a file, under the names of our variables.

    Attributes:
        path: the file, index file or TF1 prefix that is read.
        format: a key of formats.OPENERS: "safetensors", "torch_bin", "sharded ...", "tf1", "keras_hub".
        names: our path -> the file's name.
        left_out: names of what is no weight (a buffer, a counter, an optimizer's state), or second names of weights.
        twins: those of left_out that are second names: the file's name -> names.table.Twin.
        unknown: names that the table of names does not know.

    Args:
        path, form, name_map: what is read, and how.
        lora: of the adapters that lie there: `get` adds each to its kernel, and `names` has none. None: they are
            weights like all others.
    """

    def __init__(self, path: str, form: str, name_map: names.NameMap, lora: adapters.Lora | None = None):
        self.path, self.format = path, form
        self._file, self._map = OPENERS[form](path), name_map
        _check_names(path, self._file.shapes)
        try:
            groups = name_map.sort(self._file.shapes, names.prefixes(but=name_map))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        self.names, self.twins, self.unknown = groups.known, groups.twins, groups.unknown
        self.left_out = groups.left_out + list(groups.twins)
        self._lora, self._adapters = lora, {}
        if lora:
            self._adapters = {path: name for path, name in self.names.items() if adapters.is_adapter(path)}
            self.names = {path: name for path, name in self.names.items() if path not in self._adapters}

    def shape(self, path: str) -> tuple[int, ...]:
        """Returns the shape of the weight at our `path`, in our orientation, without reading it."""
        return self._map.transform(path).shape(self._file.shapes[self.names[path]])

    def get(self, path: str) -> np.ndarray:
        """Reads the weight at our `path`: float32 (whatever floating type the file has), in our orientation.

        Raises:
            KeyError: the file has no such weight; `names` says what it has.
            ValueError: the file is damaged, or what it holds under this name is no floating-point number, or NaN or
                infinite.
        """
        array = _widened(self.stored(path))
        if array.dtype != np.float32:
            raise ValueError(
                f"The weights in {self.path} must be floating-point numbers. Received: {self.names[path]} of "
                f"{array.dtype}; take the checkpoint as it was before it was quantized."
            )
        return array

    def stored(self, path: str) -> np.ndarray:
        """Reads the weight at our `path` in the type that the file has, in our orientation; raises as `get`.

        A kernel that an adapter is added to is float32.
        """
        read = self._map.transform(path).to_ours(self._file.read(self.names[path]))
        array = np.asarray(read, order="C")  # np.ascontiguousarray would give a lone number an axis
        check_finite(array, self.names[path], self.path)
        pair = [f"{path.rpartition('/')[0]}/{name}" for name in adapters.NAMES]
        if not path.endswith("/kernel") or not self._adapters.keys() & set(pair):
            return array
        shapes = [self._file.shapes.get(self._adapters.get(part)) for part in pair]
        if shapes != [(array.shape[0], self._lora.rank), (self._lora.rank, array.shape[1])]:
            raise ValueError(
                f"{self.path} must hold whole adapters of the rank in the configuration beside it, {self._lora.rank}. "
                f"Received for {path}, {array.shape}: {shapes}."
            )
        a, b = (_widened(self._file.read(self._adapters[part])) for part in pair)
        for part, adapter in zip(pair, (a, b), strict=True):
            check_finite(adapter, self._adapters[part], self.path)
        return merged(_widened(array), a, b, self._lora.scale)

    def read_left_out(self, name: str) -> np.ndarray:
        """Reads what is no weight, one of `left_out`, such as an optimizer's moments."""
        return self._file.read(name)

    def check_twins(self, loaded):
        """Checks second names of tied weights against the first, as far as the paths `loaded` use them.

        Raises:
            ValueError: they differ, so that the model is not the one that we would build.
        """
        for name, twin in self.twins.items():
            if twin.needed_by in loaded and not np.array_equal(_widened(self._file.read(name)), self.get(twin.of)):
                raise ValueError(
                    f"{name} in {self.path} must be equal to {self.names[twin.of]}, to which the model ties it. "
                    "Received: other values; a model with an output layer of its own says so in config.json: "
                    '"tie_word_embeddings": false.'
                )


def _widened(array):
    # kind "V" is how NumPy calls the types that ml_dtypes adds: bfloat16, and the 8-bit floats.
    return array.astype(np.float32, copy=False) if array.dtype.kind in "fV" else array


def _check_names(path, names):
    """A name is printed, and held against a hundred patterns."""
    longest = max(map(len, names), default=0)
    if len(names) > _MOST_NAMES or longest > _LONGEST_NAME:
        raise ValueError(
            f"A checkpoint must hold at most {_MOST_NAMES:,} weights with names of at most {_LONGEST_NAME:,} "
            f"characters. Received {path} with {len(names):,} and a name of {longest:,}: is it one of a BERT?"
        )


def merged(kernel: np.ndarray, a: np.ndarray, b: np.ndarray, scale: float) -> np.ndarray:
    """Returns float32 [in, out]: the kernel plus its adapter, `scale` times [in, r] [r, out]; rounded once."""
    return (kernel + scale * (a.astype(np.float64) @ b)).astype(np.float32)


def open_checkpoint(path: str | os.PathLike, family: str | None = None, merge: bool = True) -> Checkpoint:
    """Opens a Hugging Face or sentence-transformers directory, a KerasHub preset, a file of one, or a TF1 checkpoint.

    Args:
        path: a directory; a .safetensors or .bin file or the .index.json of a sharded one; a TF1 prefix such as
            bert_model.ckpt; a directory with TF1 checkpoints means the one that its file `checkpoint` names, else
            bert_model.ckpt, else the model.ckpt-N with the highest N.
        family: whose names the file has, `model_type` of the configuration; None: of the one that lies beside the file,
            else BERT's.
        merge: adapters that were trained (LoRA) are in the kernels, and not beside them.

    Raises:
        ValueError: there are no weights, or they are cut short, damaged or unsafe to read; or there is no such family.
    """
    form, place = locate(path)
    lora = config_files.lora_in(os.path.dirname(place) or ".") if merge else None
    return Checkpoint(place, form, _name_map(form, place, family), lora)


def read_arrays(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Returns our path -> array of every weight of an encoder and its heads; what is no weight is named in the log.

    Args:
        path: as `open_checkpoint` takes it.

    Raises:
        ValueError: as `open_checkpoint`, or the file has weights that the table of names does not know.
    """
    checkpoint = open_checkpoint(path)
    if checkpoint.unknown or _EMBEDDINGS not in checkpoint.names:
        raise ValueError(
            f"{checkpoint.path} must hold the weights of an encoder and of heads that are known. Received "
            f"{checkpoint.unknown[:5] or 'none of the word embeddings'}; `bert-tf convert` with its leave_out leaves "
            "behind what is not wanted."
        )
    checkpoint.check_twins(list(checkpoint.names))
    if checkpoint.left_out:
        logging.info("Not taken over, because it is no weight: %s.", ", ".join(checkpoint.left_out[:4]))
    return {path: checkpoint.get(path) for path in checkpoint.names}


def _name_map(form, path, family):
    if form == "tf1":
        return names.TF1
    folder = os.path.dirname(path) or "."
    model_type = family or config_files.model_type_in(folder) or families.DEFAULT
    if form == "keras_hub":
        return names.of_keras_hub(model_type)
    return names.hugging_face(model_type, config_files.tied_in(folder))
