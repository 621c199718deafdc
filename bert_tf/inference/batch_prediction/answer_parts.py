"""Answers for parts of a table: a file for each, in a folder next to the output until they are joined."""

import contextlib
import dataclasses
import json
import os
import re
import shutil
from typing import Any

import numpy as np
from absl import logging

import bert_tf
from bert_tf.data.features import Ragged
from bert_tf.inference.batch_prediction.input_table import TableRows
from bert_tf.inference.batch_prediction.output_formats import Format, Partial, Slice
from bert_tf.utils.files import is_temporary, write_text
from bert_tf.utils.folder_lock import alone_in
from bert_tf.utils.manifest import check_same, read_manifest
from bert_tf.utils.names import number_of
from bert_tf.utils.progress import Countdown

# === Work folder ===
# The folder next to an output file in which the parts of an unfinished job wait.


_MANIFEST = "manifest.json"
_REMEDY = (
    "Give the command that began it again, with the same rows in `input_file`, or `overwrite=true` to throw its "
    "unfinished work away."
)


class WorkFolder:
    """The folder of a `with` block, new or found again; removed at its end, unless an error leaves parts in it.

    Args:
        output_file: the folder's name is this with ".parts" at the end.
        manifest: what decides the bytes of a part; JSON values.
        overwrite: throw away the parts of another manifest.

    Attributes:
        path: the folder.
    """

    def __init__(self, output_file: str, manifest: dict, overwrite: bool = False):
        self.path = f"{os.path.realpath(output_file)}.parts"
        self._manifest = json.loads(json.dumps({"version": bert_tf.__version__, **manifest}))
        self._overwrite = overwrite

    def __enter__(self):
        """Raises ValueError if the folder is that of another job, in use, or none of ours."""
        os.makedirs(self.path, exist_ok=True)
        with contextlib.ExitStack() as stack:
            stack.enter_context(alone_in(self.path, "output_file"))
            try:
                self._begin()
            except BaseException:
                if not self._strangers():
                    shutil.rmtree(self.path)
                raise
            self._lock = stack.pop_all()
        return self

    def __exit__(self, error, *more):
        parts = self._parts()
        if error is None or not parts:
            self._clear()
            shutil.rmtree(self.path)
        else:
            logging.warning("%d finished part(s) are kept in %s. Run the same command again to resume.",
                            *(len(parts), self.path))  # fmt: skip
        self._lock.close()

    def _begin(self):
        path = os.path.join(self.path, _MANIFEST)
        if not os.path.exists(path):
            if strangers := self._strangers():
                raise ValueError(
                    f"{self.path} must be free for the parts of this job. Received a folder that holds "
                    f"{min(strangers)} and no {_MANIFEST}; name another `output_file`."
                )
        else:
            before = read_manifest(path, "name another `output_file`")
            if self._parts() and not self._overwrite:
                check_same(path, before, self._manifest, _REMEDY)
            elif before != self._manifest:
                self._clear()
        for name in os.listdir(self.path):
            if is_temporary(name) or name.startswith("shard-"):  # half-made when the last run was killed
                os.remove(os.path.join(self.path, name))
        write_text(path, json.dumps(self._manifest, indent=1))

    def _strangers(self):
        """Returns the names that a run killed before it had a manifest cannot have left there."""
        return [name for name in os.listdir(self.path) if not is_temporary(name, _MANIFEST)]

    def _parts(self):
        return [name for name in os.listdir(self.path) if name.startswith("part-")]

    def _clear(self):
        """Takes the manifest away last: without it nobody would know whose the rest is."""
        names = sorted(os.listdir(self.path), key=lambda name: name == _MANIFEST)
        for name in names:
            os.remove(os.path.join(self.path, name))


# === Parts ===
# The answers for one part of a table, as a file of the work folder.


_NAMES = ("id", "linex_index")  # columns that say which row it is, also where it has no answer
_NAME = re.compile(r"part-(\d{8})")


@dataclasses.dataclass
class PartWriter:
    """Answers and writes; can be pickled until it is `ready`.

    Attributes:
        maker: of the function that answers.
        output_format: of the files.
        folder: where they go.
    """

    maker: Any
    output_format: Format
    folder: str

    def ready(self) -> "PartWriter":
        """Has the function made that answers, and returns itself."""
        self._answer = self.maker()
        return self

    def path(self, number: int) -> str:
        """Returns the path of a part."""
        return os.path.join(self.folder, f"part-{number:08d}")

    def there(self) -> set[int]:
        """Returns the numbers of the parts that are written."""
        return {int(match[1]) for match in map(_NAME.fullmatch, os.listdir(self.folder)) if match}

    def write(self, number: int, rows: TableRows) -> int:
        """Answers for the rows of a part, writes what came, and returns how many there are."""
        answers = self._answer(rows)
        _warn_of_not_finite(number, answers)
        columns = _join_columns(rows.kept, answers)
        for name, values in columns.items():
            found = len(values.lengths) if isinstance(values, Ragged) else len(values)
            assert found == len(rows.ids), (name, found, len(rows.ids))
        if rows.missing:
            missing = np.array(rows.missing)
            answers = columns.keys() - {*_NAMES, *rows.kept}
            columns |= {name: Partial(columns[name], missing) for name in answers}
        self.output_format.write(self.path(number), columns)
        return len(rows.ids)


def _warn_of_not_finite(number, answers):
    """Says how many numbers of a part are none, which files of text have no word for."""
    for name, values in answers.items():
        array = values.flat if isinstance(values, Ragged) else values
        if isinstance(array, np.ndarray) and array.dtype.kind == "f" and not (finite := np.isfinite(array)).all():
            logging.warning(
                "Part %d: %s of %s of %r are NaN or infinite; is the precision that the model computes in too narrow?",
                *(number, f"{np.count_nonzero(~finite):,}", number_of(array.size, "number"), name),
            )


def _join_columns(kept, answers):
    """Returns the answers with what is passed on between the ids, where there are some, and the rest."""
    twice = sorted(kept.keys() & answers.keys())
    if twice:
        raise ValueError(
            f"`keep_columns` must name other columns than the answers, which are {', '.join(answers)}. Received "
            f"{', '.join(twice)}; name such a column by its number."
        )
    ids = {name: answers[name] for name in ("id",) if name in answers}
    return ids | kept | answers


# === Joining ===
# Parts put together: the output file, or its shards.


def join_parts(writer: PartWriter, count: int, size: int, outputs: list[str]):
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
