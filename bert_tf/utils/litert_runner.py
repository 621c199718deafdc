"""Runs .tflite files exported by bert_tf with LiteRT, TensorFlow's runtime for small devices.

With the package ai-edge-litert, TensorFlow is not imported.
"""

import dataclasses
import re
import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np

WHOLE = "ids"  # the signature of the longest sequences; for shorter ones their length is appended, as in ids_16
UP_TO = f"{WHOLE}_up_to_"  # followed by a length: the signature of sequences of any length up to that one
_NAMES = re.compile(rf"{WHOLE}(_\d+)?|{UP_TO}(\d+)")


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
        lengths: longest sequences of the signatures, in ascending order.
        takes_any_length: whether the only signature computes sequences of each length; otherwise they are padded.
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
        names = [name for name in signatures if _NAMES.fullmatch(name)]
        if not names or any("input_ids" not in signatures[name]["inputs"] for name in names):
            raise ForeignLitertError(
                "The .tflite file must have been exported by bert_tf with `export_for` litert, with a signature "
                f"{WHOLE} of `input_ids`. It has the signatures {sorted(signatures)}."
            )
        runners = {name: self._interpreter.get_signature_runner(name) for name in names}
        self.takes_any_length = names[0].startswith(UP_TO)
        self._by_length = {_longest(name, runner): runner for name, runner in runners.items()}
        self.lengths = sorted(self._by_length)
        in_order = [self._by_length[length] for length in self.lengths]
        self.inputs = _specs([each.get_input_details() for each in in_order])
        self.outputs = _specs([each.get_output_details() for each in in_order])

    def __call__(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Computes {output: array [n, ...]} from {input: array [n, ...]}, for sequences up to the longest length.

        Sequences are padded to a signature's length, if it is fixed, and the padding is removed from the outputs.

        Raises:
            ValueError: the sequences are longer, or an array has another number of axes.
            RuntimeError: LiteRT rejects a value, such as an id outside the vocabulary. The interpreter
                repeats this reason in all its later errors.
        """
        count, width = features["input_ids"].shape
        length = length_for(self.lengths, width)
        run = self._by_length[length]
        if self.takes_any_length:  # LiteRT computes new shapes if the length is not that of the last sequence
            length = width
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
    raise ValueError(f"A sequence must have at most {lengths[-1]} tokens; got {width}; shorten it.")


def _longest(name, runner):
    """Returns the number of tokens of the longest sequence of a signature."""
    if name.startswith(UP_TO):
        return int(name.removeprefix(UP_TO))
    return int(runner.get_input_details()["input_ids"]["shape"][1])


def _specs(details):
    """Returns {name: ArraySpec}: the batch axis and axes that vary, or differ between lengths, have no size."""
    specs = {}
    for name, first in details[0].items():
        sizes = list(zip(*(each[name]["shape_signature"].tolist() for each in details), strict=True))
        varies = [axis == 0 or len(set(each)) > 1 or each[0] < 0 for axis, each in enumerate(sizes)]
        shape = tuple(None if is_free else each[0] for is_free, each in zip(varies, sizes, strict=True))
        specs[name] = ArraySpec(shape, np.dtype(first["dtype"]))
    return specs
