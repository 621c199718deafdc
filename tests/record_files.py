"""Record files as tests read them."""

import tensorflow as tf

from bert_tf.data import records


def read_records(paths: list, names=None, expect=None, batch_size: int = 256) -> tf.data.Dataset:
    """Returns the batches of record files, one after the other; arguments as of `records.build_parser`."""
    parse = records.build_parser(paths, names, expect)
    return records.read_serialized(paths).batch(batch_size).map(parse)
