"""Record files as tests read them."""

import tensorflow as tf

from bert_tf.data import tfrecords


def read_records(paths: list, names=None, expect=None, batch_size: int = 256) -> tf.data.Dataset:
    """Returns the batches of record files, one after the other; arguments as of `tfrecords.build_parser`."""
    parse = tfrecords.build_parser(paths, names, expect)
    return tfrecords.read_serialized(paths).batch(batch_size).map(parse)
