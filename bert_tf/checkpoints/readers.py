"""One face for every checkpoint that is read: `open_checkpoint(path)`, then arrays by our variables' paths."""

import os

import numpy as np

from bert_tf import config_files, families
from bert_tf.checkpoints import names
from bert_tf.checkpoints.formats import OPENERS
from bert_tf.checkpoints.locate import locate


class Checkpoint:
    """Weights in a file, under the names of our variables.

    Attributes:
        path: the file, index file or TF1 prefix that is read.
        format: a key of formats.OPENERS: "safetensors", "torch_bin", "sharded ...", "tf1".
        names: our path -> the file's name.
        left_out: names that mean no weight, or a weight's second name.
        twins: those of left_out that are second names: the file's name -> names.table.Twin.
        unknown: names that the table of names does not know.
    """

    def __init__(self, path: str, form: str, name_map: names.NameMap):
        self.path, self.format = path, form
        self._file, self._map = OPENERS[form](path), name_map
        try:
            groups = name_map.sort(self._file.shapes, names.prefixes(but=name_map))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        self.names, self.twins, self.unknown = groups.known, groups.twins, groups.unknown
        self.left_out = groups.left_out + list(groups.twins)

    def shape(self, path: str) -> tuple[int, ...]:
        """Returns the shape of the weight at our `path`, in our orientation, without reading it."""
        shape = self._file.shapes[self.names[path]]
        return shape[::-1] if self._map.transposed(path) else shape

    def get(self, path: str) -> np.ndarray:
        """Reads the weight at our `path`: float32 (whatever floating type the file has), in our orientation.

        Raises:
            KeyError: the file has no such weight; `names` says what it has.
            ValueError: the file is damaged.
        """
        array = self._read(self.names[path])
        return np.ascontiguousarray(array.T) if self._map.transposed(path) else array

    def check_twins(self, loaded):
        """Checks second names of tied weights against the first, as far as the paths `loaded` use them.

        Raises:
            ValueError: they differ, so that the model is not the one that we would build.
        """
        for name, twin in self.twins.items():
            if twin.needed_by in loaded and not np.array_equal(self._read(name), self.get(twin.of)):
                raise ValueError(
                    f"{name} in {self.path} must be equal to {self.names[twin.of]}, to which the model ties it. "
                    "Received: other values; a model with an output layer of its own says so in config.json: "
                    '"tie_word_embeddings": false.'
                )

    def _read(self, name):
        array = self._file.read(name)
        # kind "V" is how NumPy calls the types that ml_dtypes adds: bfloat16, and the 8-bit floats.
        return array.astype(np.float32, copy=False) if array.dtype.kind in "fV" else array


def open_checkpoint(path: str | os.PathLike, family: str | None = None) -> Checkpoint:
    """Opens a Hugging Face or sentence-transformers directory, a file of one, or a TF1 checkpoint.

    Args:
        path: a directory; a .safetensors or .bin file or the .index.json of a sharded one; a TF1 prefix such as
            bert_model.ckpt; a directory with TF1 checkpoints means the one that its file `checkpoint` names, else
            bert_model.ckpt, else the model.ckpt-N with the highest N.
        family: whose names the file has, `model_type` of the configuration; None: of the one that lies beside the file,
            else BERT's.

    Raises:
        ValueError: there are no weights, or they are cut short, damaged or unsafe to read; or there is no such family.
    """
    form, place = locate(path)
    return Checkpoint(place, form, _name_map(form, place, family))


def _name_map(form, path, family):
    if form == "tf1":
        return names.TF1
    folder = os.path.dirname(path) or "."
    model_type = family or config_files.model_type_in(folder) or families.DEFAULT
    return names.hugging_face(model_type, config_files.tied_in(folder))
