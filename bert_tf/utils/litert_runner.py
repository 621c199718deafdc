"""Runs .tflite files exported by bert_tf with LiteRT, TensorFlow's runtime for small devices.

With the package ai-edge-litert, TensorFlow is not imported.
"""

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np

WHOLE = "ids"  # the signature of the longest sequences; for shorter ones their length is appended, as in ids_16


def interpreter_class() -> Callable:
    """Returns LiteRT's interpreter class, or TensorFlow's older one if the package ai-edge-litert is missing."""
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        import tensorflow as tf

        # It warns each time that it is deprecated; the results are the same.
        warnings.filterwarnings("ignore", r"\s*Warning: tf\.lite\.Interpreter is deprecated")
        return tf.lite.Interpreter
    return Interpreter


class ForeignLitertError(ValueError):
    """Error for a .tflite file that bert_tf did not export."""


@dataclasses.dataclass(frozen=True)
class ArraySpec:
    """The shape and dtype of an input or output; axes whose size depends on the batch are None."""

    shape: tuple[int | None, ...]
    dtype: np.dtype


class LitertRunner:
    """Runs batches of sequences, one sequence at a time, with the shortest signature that fits.

    It must only be used by one thread at a time.

    Attributes:
        inputs, outputs: {name: ArraySpec}.
        lengths: sequence lengths of the signatures, in ascending order.
    """

    def __init__(self, data: bytes, threads: int):
        """Loads the bytes of a .tflite file made by `export.litert`, for this many threads.

        Raises:
            ForeignLitertError: bert_tf did not export the file.
            ValueError: the bytes are not such a file.
        """
        # Both stay: the interpreter reads the bytes, and what runs a signature reads the interpreter.
        self._data, self._interpreter = data, interpreter_class()(model_content=data, num_threads=threads)
        signatures = self._interpreter.get_signature_list()
        if "input_ids" not in signatures.get(WHOLE, {"inputs": ()})["inputs"]:
            raise ForeignLitertError(
                "The .tflite file must have been exported by bert_tf with `export_for` litert, with a signature "
                f"{WHOLE} of `input_ids`. It has the signatures {sorted(signatures)}."
            )
        names = [name for name in signatures if name == WHOLE or name.startswith(f"{WHOLE}_")]
        runners = [self._interpreter.get_signature_runner(name) for name in names]
        self._by_length = {int(each.get_input_details()["input_ids"]["shape"][1]): each for each in runners}
        self.lengths = sorted(self._by_length)
        in_order = [self._by_length[length] for length in self.lengths]
        self.inputs = _specs([each.get_input_details() for each in in_order])
        self.outputs = _specs([each.get_output_details() for each in in_order])

    def __call__(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Computes {output: array [n, ...]} from {input: array [n, ...]}, for sequences up to the longest length.

        Sequences are padded to a signature's length, and the padding is removed from the outputs.

        Raises:
            ValueError: the sequences are longer, or an array has another number of axes.
            RuntimeError: LiteRT rejects a value, such as an id outside the vocabulary. The interpreter
                repeats this reason in all its later errors.
        """
        count, width = features["input_ids"].shape
        length = length_for(self.lengths, width)
        run = self._by_length[length]
        # Padding does not matter where `input_mask` is 0.
        padded = {
            name: _pad(array, length) if self.inputs[name].shape[1] is None else array
            for name, array in features.items()
        }
        answers = [run(**{name: array[i : i + 1] for name, array in padded.items()}) for i in range(count)]
        return {name: self._join([each[name] for each in answers], spec, width) for name, spec in self.outputs.items()}

    @staticmethod
    def _join(arrays, spec, width):
        if not arrays:
            sizes = [width if size is None else size for size in spec.shape[1:]]
            return np.zeros([0, *sizes], spec.dtype)
        cut = tuple(slice(width if axis and size is None else None) for axis, size in enumerate(spec.shape))
        return (np.concatenate(arrays) if len(arrays) > 1 else arrays[0])[cut]


def _pad(array, length):
    """Returns an array [n, S] with zeros at the end of each row; a tenth of the time of np.pad."""
    padded = np.zeros([len(array), length], array.dtype)
    padded[:, : array.shape[1]] = array
    return padded


def length_for(lengths: Sequence[int], width: int) -> int:
    """Returns the smallest of the ascending lengths that fits `width` tokens; raises ValueError if none does."""
    for length in lengths:
        if length >= width:
            return length
    raise ValueError(f"A sequence must have at most {lengths[-1]} tokens. Received {width}; shorten it.")


def _specs(details):
    """Returns {name: ArraySpec}: the batch axis and axes that differ between lengths have no size."""
    specs = {}
    for name, first in details[0].items():
        sizes = zip(*(each[name]["shape"].tolist() for each in details), strict=True)
        shape = tuple(None if axis == 0 or len(set(each)) > 1 else each[0] for axis, each in enumerate(sizes))
        specs[name] = ArraySpec(shape, np.dtype(first["dtype"]))
    return specs
