"""Output as Parquet: a vector is a list of numbers; one row group per part."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_tf.data.ragged import Ragged
from bert_tf.inference.batch_prediction.column_values import EntityLists, Labeled, Partial, same_labels
from bert_tf.utils.files import atomic_open
from bert_tf.utils.json_files import json_text


@dataclasses.dataclass(frozen=True)
class Parquet:
    """Parquet files for pyarrow, pandas, DuckDB and Spark. The labels of a `Labeled` column are in the metadata.

    Attributes:
        types: {column: its Arrow type}; the others have the type of their values.
    """

    types: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    holds_null = True

    def write(self, path, columns):
        import pyarrow as pa
        from pyarrow import parquet

        arrays = {name: _arrow_array(values, self.types.get(name)) for name, values in columns.items()}
        plain = [values.values if isinstance(values, Partial) else values for values in columns.values()]
        labels = [json_text(each.labels) for each in plain if isinstance(each, Labeled)]
        with atomic_open(path, "wb") as file:
            parquet.write_table(pa.table(arrays, metadata={"labels": labels[0]} if labels else None), file)

    def join(self, path, slices):
        import pyarrow as pa
        from pyarrow import parquet

        # A column that is empty in one part and has numbers in the next, or is wider there, gets the wider type.
        schemas = [parquet.read_schema(each.path) for each in slices]
        metadata = same_labels([schema.metadata for schema in schemas])
        different = sorted({schema.remove_metadata() for schema in schemas}, key=str)
        schema = pa.unify_schemas(different, promote_options="permissive").with_metadata(metadata)
        with atomic_open(path, "wb") as file, parquet.ParquetWriter(file, schema) as writer:
            for part, first, last in slices:
                table = parquet.ParquetFile(part).read()
                writer.write_table(table.slice(first, last - first).cast(schema))

    def numbers(self, path, name):
        from pyarrow import parquet

        return parquet.read_table(path, columns=[name]).column(name).to_numpy()


def _arrow_array(values, type=None):
    """Converts a column to Arrow; the dimensions of an array after the first become lists.

    `type` is of a list of values.
    """
    import pyarrow as pa

    if isinstance(values, Partial):
        indices = pa.array(np.arange(len(values.missing)), mask=values.missing)
        return _arrow_array(values.values).take(indices)
    if isinstance(values, Ragged):
        return pa.ListArray.from_arrays(pa.array(values.splits, pa.int32()), _arrow_array(values.flat))
    if isinstance(values, Labeled):
        values = values.values
    if isinstance(values, EntityLists):  # also known if there are none
        numbers = [("start", pa.int64()), ("end", pa.int64()), ("score", pa.float32())]
        type = pa.list_(pa.struct([("text", pa.string()), ("type", pa.string()), *numbers]))
    if not isinstance(values, np.ndarray):
        return pa.array([value.tolist() if hasattr(value, "tolist") else value for value in values], type)
    inner = pa.array(values.reshape(-1))
    for n in range(values.ndim - 1, 0, -1):
        ends = np.arange(0, int(np.prod(values.shape[:n], dtype=np.int64)) + 1) * values.shape[n]
        inner = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), inner)
    return inner
