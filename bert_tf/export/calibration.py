"""Ranges of int8 products, from examples."""

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

MOST_EXAMPLES = 512  # ranges hardly grow beyond
BATCH_SIZE = 32


def input_ranges(model: keras.Model, batches: Iterable[Mapping[str, tf.Tensor]]) -> Ranges:
    """Returns {product: greatest absolute value of each column of its input, float32 [in]} of a model's encoder.

    Args:
        model: functional, in float32.
        batches: what it is given; padding does not count.

    Raises:
        ValueError: there are none.
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
        raise ValueError("Static quantization requires calibration examples; there are none. Add some, or remove it.")
    return ranges


def read_calibration_texts(path: str | os.PathLike, task: Any, text_inputs: Sequence[str]) -> list[list[str]]:
    """Returns the texts of the first examples of a file.

    Args:
        path: of the file, one example in a line; tabs stand between its texts, and between the texts of a list.
        task, text_inputs: as `ServingModule` takes them; only the last input may be a list.

    Raises:
        ValueError: the file holds none, or a line has more or fewer texts than an example.
    """
    assert set(task.list_inputs) <= {text_inputs[-1]}, text_inputs
    lines = ((number, line.rstrip("\r\n")) for number, line in enumerate(read_lines(path), 1) if line.strip())
    first = itertools.islice(lines, MOST_EXAMPLES)
    examples = [_split_line(path, number, line, task, text_inputs) for number, line in first]
    if not examples:
        raise ValueError(f"{os.fspath(path)} must hold texts, one example in a line. Received a file without any.")
    return examples


def batches_of_texts(examples: Iterable[list[str]], task: Any, tokenizer: Any, text_inputs: Sequence[str],
                     max_seq_length: int) -> Iterator[Mapping[str, tf.Tensor]]:  # fmt: skip
    """Yields what a served model is given for examples of `read_calibration_texts`.

    Args:
        examples: texts of each.
        task, tokenizer, text_inputs, max_seq_length: as `ServingModule` takes them.
    """
    singles = len(text_inputs) - len(task.list_inputs)
    for _, group in itertools.groupby(sorted(examples, key=len), key=len):
        alike = list(group)
        for start in range(0, len(alike), BATCH_SIZE):
            strings = tf.constant(alike[start : start + BATCH_SIZE])
            inputs = [strings[:, n] for n in range(singles)] + [strings[:, singles:] for _ in task.list_inputs]
            yield task.read(tokenizer, inputs, max_seq_length)[0]


def _split_line(path, number, line, task, text_inputs):
    texts, fewest = line.split("\t"), len(text_inputs) + len(task.list_inputs)  # of a list there are two at least
    if len(texts) < fewest or (len(texts) > fewest and not task.list_inputs):
        names = [*text_inputs, *text_inputs[-1:] * len(task.list_inputs), *["..."] * len(task.list_inputs)]
        raise ValueError(
            f"{os.fspath(path)}:{number}: the line must be what the model takes, {' <TAB> '.join(names)}. "
            f"Received {len(texts)} texts; a tab parts one from the next, so write other tabs as spaces."
        )
    return texts
