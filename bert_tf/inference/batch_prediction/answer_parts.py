"""Parts of a batch prediction: one file per part, in a work directory next to the output until they are joined."""

import dataclasses
import os
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from bert_tf.data.ragged import Ragged
from bert_tf.inference.batch_prediction.column_values import EntityLists, Labeled, Partial, Slice
from bert_tf.inference.batch_prediction.input_table import TableRows
from bert_tf.inference.batch_prediction.output_formats import Format
from bert_tf.utils.counts import number_of
from bert_tf.utils.progress import Countdown
from bert_tf.utils.token_counts import TokenCountLog, TokenCounts
from bert_tf.utils.work_folder import WorkFolder

_INDEX = "linex_index"  # identifies a row, even without a prediction
_NAME = re.compile(r"part-(\d{8})")
_REMEDY = (
    "To resume it, run the same command with the same rows in `input_file`. To discard its "
    "unfinished work, pass `restart=true`."
)


def part_folder(output_file: str, manifest: dict, restart: bool = False) -> WorkFolder:
    """Returns the work directory of an output file, its path plus ".parts"; the arguments are those of `WorkFolder`."""
    is_part = lambda name: bool(_NAME.fullmatch(name))  # noqa: E731
    return WorkFolder(f"{os.path.realpath(output_file)}.parts", manifest, is_part, _REMEDY, restart)


@dataclasses.dataclass(frozen=True)
class CountedAnswers:
    """A prediction function that counts what the model does not read of its texts.

    Attributes:
        answer: {column: values} of `TableRows`.
        token_counts: the counts so far.
    """

    answer: Callable[[TableRows], dict[str, Any]]
    token_counts: TokenCountLog

    def __call__(self, rows: TableRows) -> dict[str, Any]:
        return self.answer(rows)


class WrittenPart(NamedTuple):
    """The number of rows of a part, and the counts of its texts, if they were counted."""

    rows: int
    counts: TokenCounts


@dataclasses.dataclass
class PartWriter:
    """Predicts and writes parts; can be pickled until it is `ready`.

    Attributes:
        maker: creates the prediction function.
        output_format: format of the files.
        folder: their directory.
    """

    maker: Any
    output_format: Format
    folder: str

    def ready(self, warns: bool = True) -> "PartWriter":
        """Creates the prediction function, and returns itself.

        Args:
            warns: whether the function warns of texts that the model does not read; false if the caller reports the
                counts of all parts.
        """
        self._answer = self.maker()
        if token_counts := getattr(self._answer, "token_counts", None):
            token_counts.warns = warns
        return self

    def path(self, number: int) -> str:
        """Returns the path of a part."""
        return os.path.join(self.folder, f"part-{number:08d}")

    def there(self) -> set[int]:
        """Returns the numbers of the parts that exist."""
        return {int(match[1]) for match in map(_NAME.fullmatch, os.listdir(self.folder)) if match}

    def write(self, number: int, rows: TableRows) -> WrittenPart:
        """Predicts and writes one part."""
        answers = self._answer(rows)
        token_counts = getattr(self._answer, "token_counts", None)
        if getattr(self.maker, "takes_kept", False):  # it has made columns of its own of them
            rows = rows._replace(kept={}, id_name="id")
        _warn_of_not_finite(number, answers)
        columns = _join_columns(rows, answers)
        for name, values in columns.items():
            found = len(values.lengths) if isinstance(values, Ragged) else len(values)
            assert found == len(rows.ids), (name, found, len(rows.ids))
        if rows.missing:
            missing = np.array(rows.missing)
            answers = columns.keys() - {rows.id_name, _INDEX, *rows.kept}
            columns |= {name: Partial(columns[name], missing) for name in answers}
        self.output_format.write(self.path(number), columns)
        return WrittenPart(len(rows.ids), token_counts.take() if token_counts else TokenCounts())


def _warn_of_not_finite(number, answers):
    """Logs how many values of a part are not finite, which text files cannot represent."""
    for name, values in answers.items():
        array = _numbers_of(values)
        if isinstance(array, np.ndarray) and array.dtype.kind == "f" and not (finite := np.isfinite(array)).all():
            logging.warning(
                "Part %d: %s of %s of %r are NaN or infinite. Check whether the model's precision is too narrow.",
                *(number, f"{np.count_nonzero(~finite):,}", number_of(array.size, "number"), name),
            )


def _numbers_of(values):
    """Returns the numbers of a column as an array, if it has some: also of entities, and of nested lists."""
    if isinstance(values, Ragged):
        return values.flat
    if isinstance(values, Labeled):
        return values.values
    if isinstance(values, EntityLists):
        values = [entity["score"] for row in values for entity in row]
    return np.array([*_floats_in(values)]) if isinstance(values, list) else values


def _floats_in(items):
    for item in items:
        if isinstance(item, list):
            yield from _floats_in(item)
        elif isinstance(item, float):
            yield item


def _join_columns(rows, answers):
    """Returns the ids, if any, under their name, then the kept columns and the predictions."""
    ids = {rows.id_name: answers["id"]} if "id" in answers else {}
    answers = {name: values for name, values in answers.items() if name != "id"}
    if rows.id_name in answers:
        raise ValueError(
            f"`id_column` must not have the name of a column of predictions ({', '.join(answers)}); got "
            f"{rows.id_name}. Rename the column."
        )
    twice = sorted(rows.kept.keys() & {*ids, *answers})
    if twice:
        raise ValueError(
            f"`keep_columns` must not repeat the columns of predictions ({', '.join([*ids, *answers])}); got "
            f"{', '.join(twice)}. Rename such a column, or select it by its number, which can be combined with *."
        )
    return ids | rows.kept | answers


def join_parts(writer: PartWriter, count: int, size: int, outputs: list[str]):
    """Writes the output files into the work directory, and then renames them.

    Args:
        writer: writer of the parts, all of which exist.
        count: number of rows.
        size: rows per part.
        outputs: each gets its share of the rows, in order.
    """
    bounds = [count * n // len(outputs) for n in range(len(outputs) + 1)]
    aside = [os.path.join(writer.folder, f"shard-{n:05d}") for n in range(len(outputs))]
    with Countdown("Joining", "rows", count) as progress:
        for path, first, last in zip(aside, bounds, bounds[1:], strict=False):
            writer.output_format.join(path, slices(writer, size, first, last))
            progress.advance(last - first)
    for path, output in zip(aside, outputs, strict=True):
        os.replace(path, os.path.realpath(output))


def slices(writer: PartWriter, size: int, first: int, last: int) -> list[Slice]:
    """Returns which rows of which parts are the rows `first` to `last` (exclusive) of the table."""
    return [
        Slice(writer.path(number), max(first - number * size, 0), min(last - number * size, size))
        for number in range(first // size, -(-last // size))
    ]
