"""A version's model.tflite in memory, served under --prefer_tflite_model with TensorFlow Serving's names."""

import os
import queue
from collections.abc import Sequence

import numpy as np
from tensorflow.core.protobuf import config_pb2, meta_graph_pb2

from bert_tf.serving.limits import invalid
from bert_tf.serving.server.options import DEFAULT, Bundle
from bert_tf.serving.server.scheduling import Sequences
from bert_tf.serving.server.signatures import PREDICT, read_signature
from bert_tf.serving.server.version_folders import check_regular
from bert_tf.utils.litert_runner import LitertRunner
from bert_tf.utils.resources import cores

TFLITE_MODEL = "model.tflite"
_SIGNATURE = "serving_default"  # TensorFlow Serving's name for a file's first graph


class TfliteModel:
    """The file model.tflite of one exported version, with the attributes and methods of a `SavedModel`.

    It has one signature, whose inputs are token ids: LiteRT has no tokenizer.
    """

    def __init__(self, path: str, bundle: Bundle = DEFAULT):
        """Reads model.tflite in the folder `path`.

        Raises:
            ValueError: it is damaged, or none that `bert-tf export --export_for=litert` writes.
            OSError: it cannot be read.
        """
        file = os.path.join(path, TFLITE_MODEL)
        check_regular(file)
        with open(file, "rb") as stored:
            data = stored.read()
        number = max(1, bundle.num_tflite_pools)
        config = config_pb2.ConfigProto.FromString(bundle.session_config)
        threads = config.intra_op_parallelism_threads or max(1, cores() // number)
        self._idle = queue.SimpleQueue()
        for _ in range(number):
            try:
                runner = LitertRunner(data, threads)
            except ValueError as error:
                raise ValueError(f"LiteRT cannot read {file}: {error}; export it again") from error
            self._idle.put(runner)
        self.sequences = Sequences(positions=runner.lengths[-1])
        self.signatures = {_SIGNATURE: read_signature(_definition(runner), bundle.check_method_names)}

    def run(self, feeds: dict[str, np.ndarray], fetches: Sequence[str]) -> list[np.ndarray]:
        """Computes tensors by name, as `SavedModel.run` does; a caller waits for an interpreter that nobody uses.

        Raises:
            ServingError: LiteRT cannot compute with these feeds.
        """
        runner = self._idle.get()
        try:
            outputs = runner(feeds)
        except (ValueError, RuntimeError) as error:
            raise invalid(str(error)) from error
        finally:
            self._idle.put(runner)
        return [outputs[name] for name in fetches]

    def prepare(self, feeds: Sequence[str], fetches: Sequence[str]):
        """Computes a sequence of each length with each interpreter, which takes its memory then."""
        for _ in range(self._idle.qsize()):
            runner = self._idle.get()  # the first of a queue, at whose end it stands again
            try:
                for length in runner.lengths:
                    runner(_zeros(runner.inputs, length))
            finally:
                self._idle.put(runner)

    def close(self):
        """Frees the weights; nothing may run any more."""
        self._idle = None


def _zeros(specs, length):
    sizes = {name: [length if size is None else size for size in spec.shape[1:]] for name, spec in specs.items()}
    return {name: np.zeros([1, *sizes[name]], spec.dtype.as_numpy_dtype) for name, spec in specs.items()}


def _definition(runner):
    definition = meta_graph_pb2.SignatureDef(method_name=PREDICT)
    for specs, side in ((runner.inputs, definition.inputs), (runner.outputs, definition.outputs)):
        for name, spec in specs.items():
            info = side[name]
            info.name, info.dtype = name, spec.dtype.as_datatype_enum
            info.tensor_shape.CopyFrom(spec.shape.as_proto())
    return definition
