"""Answers as Parquet: a vector is a list of numbers; a row group for each part."""

import numpy as np

from bert_tf.data.ragged import Ragged
from bert_tf.inference.batch_prediction.formats import Partial
from bert_tf.utils.files import atomic_open


class Parquet:
    """One file that pyarrow, pandas, DuckDB and Spark read."""

    holds_null = True

    def write(self, path, columns):
        import pyarrow as pa
        from pyarrow import parquet

        with atomic_open(path, "wb") as file:
            parquet.write_table(pa.table({name: _array(values) for name, values in columns.items()}), file)

    def join(self, path, slices):
        import pyarrow as pa
        from pyarrow import parquet

        # A column that is empty in one part and has numbers in the next, or is wider there, is of the wider kind.
        schemas = {parquet.read_schema(each.path).remove_metadata() for each in slices}
        schema = pa.unify_schemas(sorted(schemas, key=str), promote_options="permissive")
        with atomic_open(path, "wb") as file, parquet.ParquetWriter(file, schema) as writer:
            for part, first, last in slices:
                table = parquet.ParquetFile(part).read()
                writer.write_table(table.slice(first, last - first).cast(schema))

    def numbers(self, path, name):
        from pyarrow import parquet

        return parquet.read_table(path, columns=[name]).column(name).to_numpy()


def _array(values):
    """Returns a column as Arrow has it; the dimensions of an array after the first are lists."""
    import pyarrow as pa

    if isinstance(values, Partial):
        places = pa.array(np.arange(len(values.missing)), mask=values.missing)
        return _array(values.values).take(places)
    if isinstance(values, Ragged):
        return pa.ListArray.from_arrays(pa.array(values.splits, pa.int32()), _array(values.flat))
    if not isinstance(values, np.ndarray):
        return pa.array([value.tolist() if hasattr(value, "tolist") else value for value in values])
    inner = pa.array(values.reshape(-1))
    for n in range(values.ndim - 1, 0, -1):
        ends = np.arange(0, int(np.prod(values.shape[:n], dtype=np.int64)) + 1) * values.shape[n]
        inner = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), inner)
    return inner
