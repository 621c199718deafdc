"""How far the inputs of a model's products go on examples: what products of integers are to cover."""

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.export.processors import Forward
from bert_tf.files import read_lines
from bert_tf.modeling.graph_forms import INT8_RANGES, graph_forms, notes

MOST_EXAMPLES = 512  # ranges hardly grow beyond
_BATCH = 32


def input_ranges(forward: Forward, batches: Iterable[Mapping[str, tf.Tensor]]) -> dict[str, np.ndarray]:
    """Returns {path of a kernel: greatest absolute value of each column of its input, float32 [in]}.

    Args:
        forward: {name: tensor} -> the outputs of a model in float32.
        batches: what it is given.
    """

    def noting(features):
        with graph_forms(INT8_RANGES):
            forward(features)
            return dict(notes(INT8_RANGES))

    run, ranges = tf.function(noting, reduce_retracing=True, autograph=False), {}
    for batch in batches:
        for path, most in run(batch).items():
            ranges[path] = np.maximum(ranges.get(path, 0), most.numpy())
    return ranges


def batches_of_texts(path: str | os.PathLike, task: Any, tokenizer: Any, text_inputs: tuple[str, ...],
                     max_seq_length: int) -> Iterator[Mapping[str, tf.Tensor]]:  # fmt: skip
    """Yields what a served model is given for the first texts of a file, one example in a line.

    Args:
        path: of the file; tabs stand between the texts of an example.
        task, tokenizer, text_inputs, max_seq_length: as `ServedModel` takes them.

    Raises:
        ValueError: the file holds none, a line has more or fewer texts than an example, or the task reads lists.
    """
    if task.list_inputs:
        raise ValueError(
            "`calibration_file` must come with a model whose examples are single texts. Received one for "
            f"{task.name}, which reads lists of them; leave it out."
        )
    examples = [_texts(path, number, line, text_inputs) for number, line in _first_lines(path)]
    if not examples:
        raise ValueError(f"{os.fspath(path)} must hold texts, one example in a line. Received a file without any.")
    for start in range(0, len(examples), _BATCH):
        columns = zip(*examples[start : start + _BATCH], strict=True)
        yield task.read(tokenizer, [tf.constant(column) for column in columns], max_seq_length)[0]


def _first_lines(path):
    lines = ((number, line.rstrip("\r\n")) for number, line in enumerate(read_lines(path), 1) if line.strip())
    return itertools.islice(lines, MOST_EXAMPLES)


def _texts(path, number, line, text_inputs):
    texts = line.split("\t")
    if len(texts) != len(text_inputs):
        raise ValueError(
            f"{os.fspath(path)}:{number}: the line must be what the model takes, {' <TAB> '.join(text_inputs)}. "
            f"Received {len(texts)} texts; a tab parts one from the next, so write other tabs as spaces."
        )
    return texts
