"""tensorflow-text's SentencePiece operation on words, with a model that lives as long as the object that holds it."""

import uuid
import weakref

import tensorflow as tf
from tensorflow_text.python.ops.sentencepiece_tokenizer import gen_sentencepiece_tokenizer as operations


class SentencepieceWords(tf.saved_model.experimental.TrackableResource):
    """Splits words into the tokens of a model.

    `tensorflow_text.SentencepieceTokenizer` leaves its model to TensorFlow's cache of kernels. `tf.random.set_seed` and
    `keras.utils.set_random_seed` clear this cache, and each call fails from then on (tensorflow/text issue 570).
    """

    def __init__(self, model: bytes):
        """Reads a serialized SentencePiece `ModelProto`.

        Raises:
            tf.errors.OpError: it is none.
        """
        super().__init__()
        self._model = model
        _ = self.resource_handle  # reads the model

    def _create_resource(self):
        if not tf.executing_eagerly():  # in a SavedModel, which keeps its kernels
            return operations.sentencepiece_op(model=self._model)
        handle = operations.sentencepiece_op(model=self._model, shared_name=f"words_{uuid.uuid4()}")
        weakref.finalize(self, _free, handle).atexit = False  # not `_destroy_resource`: exports would store that too
        return handle

    def tokenize_with_offsets(self, words: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Returns ids, starts and ends of the tokens of words (strings [n]): int32 [n, (tokens)], spans in bytes."""
        ids, splits, *spans = operations.sentencepiece_tokenize_with_offsets_op(
            self.resource_handle, words, nbest_size=0, alpha=1.0, add_bos=False, add_eos=False, reverse=False,
            out_type=tf.int32, return_nbest=False,
        )  # fmt: skip
        rows = tf.RaggedTensor.from_row_splits(ids, splits, validate=False)
        return rows, *map(rows.with_flat_values, spans)


def _free(handle):
    with tf.init_scope():  # a search for garbage may come while a graph is built
        tf.raw_ops.DestroyResourceOp(resource=handle, ignore_lookup_error=True)
