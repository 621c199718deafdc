"""Parts put together: the output file, or its shards."""

import os

from bert_tf.inference.batch_prediction.formats import Slice
from bert_tf.inference.batch_prediction.parts import PartWriter
from bert_tf.utils.progress import Countdown


def join(writer: PartWriter, count: int, size: int, outputs: list[str]):
    """Writes the output files into the work folder, and then renames them.

    Args:
        writer: of the parts, all of which are there.
        count: of rows.
        size: rows of a part.
        outputs: each gets its share of the rows, in order.
    """
    bounds = [count * n // len(outputs) for n in range(len(outputs) + 1)]
    aside = [os.path.join(writer.folder, f"shard-{n:05d}") for n in range(len(outputs))]
    with Countdown("Putting together", "rows", count) as progress:
        for path, first, last in zip(aside, bounds, bounds[1:], strict=False):
            writer.form.join(path, slices(writer, size, first, last))
            progress.advance(last - first)
    for path, output in zip(aside, outputs, strict=True):
        os.replace(path, os.path.realpath(output))


def slices(writer: PartWriter, size: int, first: int, last: int) -> list[Slice]:
    """Returns which rows of which parts are the rows `first` to `last` (exclusive) of the table."""
    return [
        Slice(writer.path(number), max(first - number * size, 0), min(last - number * size, size))
        for number in range(first // size, -(-last // size))
    ]
