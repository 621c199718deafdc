"""Calibration: ranges of int8 matrix products, measured on examples."""

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.export.cpu.encoder import FastEncoder
from bert_tf.export.cpu.int8_ranges import Ranges, RecordingFloats
from bert_tf.models.encoder_replacement import replace_encoder
from bert_tf.utils.files import read_lines

MOST_EXAMPLES = 512  # ranges hardly grow with more
BATCH_SIZE = 32


def input_ranges(model: keras.Model, batches: Iterable[Mapping[str, tf.Tensor]]) -> Ranges:
    """Returns {product: maximum absolute value of each column of its input, float32 [in]} of a model's encoder.

    Args:
        model: functional, in float32.
        batches: inputs of the model; padding is ignored.

    Raises:
        ValueError: there are no batches.
    """
    recording = RecordingFloats()
    recorder = replace_encoder(model, lambda encoder: FastEncoder(encoder, recording))

    def ranges_of(features):
        recorder(features, training=False)
        return recording.found

    run, ranges = tf.function(ranges_of, reduce_retracing=True, autograph=False), {}
    for batch in batches:
        for product, most in run(batch).items():
            ranges[product] = np.maximum(ranges.get(product, 0), most.numpy())
    if not ranges:
        raise ValueError(
            "Static quantization requires calibration examples; got none. Add some to `calibration_file`, or omit it."
        )
    return ranges


def read_calibration_texts(path: str | os.PathLike, task: Any, text_inputs: Sequence[str]) -> list[list[str]]:
    """Returns the texts of the first examples of a file.

    Args:
        path: a file with one example per line; tabs separate its texts, and the texts of a list.
        task, text_inputs: as in `ServingModule`; only the last input may be a list.

    Raises:
        ValueError: the file has no texts, or a line has more or fewer texts than an example.
    """
    assert set(task.list_inputs) <= {text_inputs[-1]}, text_inputs
    lines = ((number, line.rstrip("\r\n")) for number, line in enumerate(read_lines(path), 1) if line.strip())
    first = itertools.islice(lines, MOST_EXAMPLES)
    examples = [_split_line(path, number, line, task, text_inputs) for number, line in first]
    if not examples:
        raise ValueError(f"{os.fspath(path)} has no calibration examples. Write one example per line.")
    return examples


def batches_of_texts(examples: Iterable[list[str]], task: Any, tokenizer: Any, text_inputs: Sequence[str],
                     max_seq_length: int) -> Iterator[Mapping[str, tf.Tensor]]:  # fmt: skip
    """Yields batches of model inputs for the examples of `read_calibration_texts`.

    Args:
        examples: the texts of each example.
        task, tokenizer, text_inputs, max_seq_length: as in `ServingModule`.
    """
    singles = len(text_inputs) - len(task.list_inputs)
    for _, group in itertools.groupby(sorted(examples, key=len), key=len):
        alike = list(group)
        for start in range(0, len(alike), BATCH_SIZE):
            strings = tf.constant(alike[start : start + BATCH_SIZE])
            inputs = [strings[:, n] for n in range(singles)] + [strings[:, singles:] for _ in task.list_inputs]
            yield task.preprocess(tokenizer, inputs, max_seq_length)[0]


def _split_line(path, number, line, task, text_inputs):
    texts = line.split("\t")
    if len(texts) < len(text_inputs) or (len(texts) > len(text_inputs) and not task.list_inputs):
        names = [*text_inputs, *["..."] * len(task.list_inputs)]
        raise ValueError(
            f"{os.fspath(path)}:{number}: a line must contain the model's input, {' <TAB> '.join(names)}; got "
            f"{len(texts)} texts. Tabs separate texts, so replace all other tabs with spaces."
        )
    return texts
