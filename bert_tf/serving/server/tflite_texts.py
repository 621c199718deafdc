"""A version that LiteRT alone serves, from texts: with `engine=litert`, in little memory and within a second."""

import contextlib
from collections.abc import Sequence

import numpy as np

from bert_tf.lite.fast_path import find_file
from bert_tf.lite.reading import TooLongError
from bert_tf.lite.runner_pool import RunnerPool
from bert_tf.lite.text_model import LitertTextModel, decode_texts
from bert_tf.serving.errors import invalid
from bert_tf.serving.server.dtypes import STRING, as_dtype
from bert_tf.serving.server.fair_semaphore import FairSemaphore
from bert_tf.serving.server.predict import DEFAULT_SIGNATURE
from bert_tf.serving.server.regular_files import check_stored_files
from bert_tf.serving.server.request_context import RequestContext
from bert_tf.serving.server.sequences import Sequences
from bert_tf.serving.server.session_bundle import DEFAULT, Bundle
from bert_tf.serving.server.signatures import PREDICT, read_signature
from bert_tf.serving.server.tensorflow_messages import meta_graph_pb2
from bert_tf.utils.token_counts import TokenCountLog

_SAMPLE = "The library opens at nine."


class TfliteTexts:
    """The model.tflite of one exported version, with the attributes and methods of a `SavedModel`.

    Its only signature takes texts. As many requests are computed at the same time as the `RunnerPool` has interpreters.
    """

    def __init__(self, path: str, bundle: Bundle = DEFAULT):
        """Loads the model.tflite of the version in `path`, or the one next to its SavedModel.

        Raises:
            ValueError: there is none, or it is damaged.
            OSError: it cannot be read, or not be tried first.
        """
        check_stored_files(path)
        self._model = LitertTextModel(find_file(path))
        self._pool = RunnerPool(self._model.make_runner, bundle.cores, bundle.threads)
        self._turns = FairSemaphore(self._pool.size)
        length = self._model.task["max_seq_length"]
        self.sequences = Sequences(length, 0 if self._model.reads_whole_texts else length)
        self.token_counts = TokenCountLog(path, fewest=100)
        self.task = self._model.task
        self.read_tokenizer = lambda: self._model.tokenizer
        signature = read_signature(self._definition(), checks_shapes=True, is_fragile=True)
        self.signatures = {DEFAULT_SIGNATURE: signature}

    def turn(self, call: RequestContext) -> contextlib.AbstractContextManager[None]:
        """Returns a context in which `run` finds an idle interpreter; raises ServingError as `FairSemaphore.turn`."""
        return self._turns.turn(call)

    def run(self, feeds: dict[str, np.ndarray], fetches: Sequence[str]) -> list[np.ndarray]:
        """Computes outputs by name, as `SavedModel.run` does; invalid UTF-8 bytes are dropped.

        Raises:
            ServingError: a text is too long for the file, or a tensor has no rows.
        """
        texts = {name: decode_texts(array.tolist()) for name, array in feeds.items()}
        if not all(array.size for array in feeds.values()):
            raise invalid("The inputs must have at least one text; got none")
        with self._pool.idle() as runner:
            try:
                outputs, counts = self._model.answer(runner, texts)
            except TooLongError as error:
                raise invalid(str(error)) from error
        self.token_counts.add(counts)
        return [outputs[name] for name in fetches]

    def prepare(self, feeds: Sequence[str], fetches: Sequence[str]):
        """Runs each interpreter once per sequence length, so that it allocates its memory."""
        self._pool.prepare()

    def close(self):
        """Frees the weights; no further calls are allowed."""
        self._pool = self._model = None

    def _definition(self):
        """Returns the SignatureDef: what the file does not contain about the outputs is determined with a sample."""
        sample = {name: [[_SAMPLE]] if name == self._model.list_input else [_SAMPLE] for name in self._model.inputs}
        with self._pool.idle() as runner:
            outputs, _ = self._model.answer(runner, sample)
        definition = meta_graph_pb2.SignatureDef(method_name=PREDICT)
        for name in self._model.inputs:
            _describe(definition.inputs[name], name, STRING, 1 + (name == self._model.list_input), ())
        for name, array in outputs.items():
            fixed = array.shape[1:] if name in runner.outputs and None not in runner.outputs[name].shape[1:] else ()
            _describe(definition.outputs[name], name, as_dtype(array.dtype), array.ndim, fixed)
        return definition


def _describe(info, name, dtype, rank, fixed):
    """Fills in a TensorInfo whose last axes have the sizes `fixed`, and whose others vary."""
    info.name, info.dtype = name, dtype.as_datatype_enum
    for size in [*[-1] * (rank - len(fixed)), *fixed]:
        info.tensor_shape.dim.add(size=size)

