"""How far the inputs of a model's products go on examples: what products of integers are to cover."""

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.export.processors import Forward
from bert_tf.models.graph_forms import INT8_RANGES, graph_forms
from bert_tf.models.int8_ranges import found_ranges
from bert_tf.utils.files import read_lines

MOST_EXAMPLES = 512  # ranges hardly grow beyond
BATCH_SIZE = 32


def input_ranges(forward: Forward, batches: Iterable[Mapping[str, tf.Tensor]]) -> dict[str, np.ndarray]:
    """Returns {path of a kernel: greatest absolute value of each column of its input, float32 [in]}.

    Args:
        forward: {name: tensor} -> the outputs of a model in float32.
        batches: what it is given; padding does not count.

    Raises:
        ValueError: there are none.
    """

    def ranges_of(features):
        with graph_forms(INT8_RANGES):
            forward(features)
            return found_ranges()

    run, ranges = tf.function(ranges_of, reduce_retracing=True, autograph=False), {}
    for batch in batches:
        for path, most in run(batch).items():
            ranges[path] = np.maximum(ranges.get(path, 0), most.numpy())
    if not ranges:
        raise ValueError("Ranges of integers must be set by examples. Received none; leave the calibration out.")
    return ranges


def read_examples(path: str | os.PathLike, task: Any, text_inputs: Sequence[str]) -> list[list[str]]:
    """Returns the texts of the first examples of a file.

    Args:
        path: of the file, one example in a line; tabs stand between its texts, and between the texts of a list.
        task, text_inputs: as `ServedModel` takes them; only the last input may be a list.

    Raises:
        ValueError: the file holds none, or a line has more or fewer texts than an example.
    """
    assert set(task.list_inputs) <= {text_inputs[-1]}, text_inputs
    examples = [_texts(path, number, line, task, text_inputs) for number, line in _first_lines(path)]
    if not examples:
        raise ValueError(f"{os.fspath(path)} must hold texts, one example in a line. Received a file without any.")
    return examples


def batches_of_texts(examples: Iterable[list[str]], task: Any, tokenizer: Any, text_inputs: Sequence[str],
                     max_seq_length: int) -> Iterator[Mapping[str, tf.Tensor]]:  # fmt: skip
    """Yields what a served model is given for examples of `read_examples`.

    Args:
        examples: texts of each.
        task, tokenizer, text_inputs, max_seq_length: as `ServedModel` takes them.
    """
    singles = len(text_inputs) - len(task.list_inputs)
    for _, group in itertools.groupby(sorted(examples, key=len), key=len):
        alike = list(group)
        for start in range(0, len(alike), BATCH_SIZE):
            strings = tf.constant(alike[start : start + BATCH_SIZE])
            inputs = [strings[:, place] for place in range(singles)] + [strings[:, singles:] for _ in task.list_inputs]
            yield task.read(tokenizer, inputs, max_seq_length)[0]


def _first_lines(path):
    lines = ((number, line.rstrip("\r\n")) for number, line in enumerate(read_lines(path), 1) if line.strip())
    return itertools.islice(lines, MOST_EXAMPLES)


def _texts(path, number, line, task, text_inputs):
    texts, fewest = line.split("\t"), len(text_inputs) + len(task.list_inputs)  # of a list there are two at least
    if len(texts) < fewest or (len(texts) > fewest and not task.list_inputs):
        names = [*text_inputs, *text_inputs[-1:] * len(task.list_inputs), *["..."] * len(task.list_inputs)]
        raise ValueError(
            f"{os.fspath(path)}:{number}: the line must be what the model takes, {' <TAB> '.join(names)}. "
            f"Received {len(texts)} texts; a tab parts one from the next, so write other tabs as spaces."
        )
    return texts
