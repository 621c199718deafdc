"""A loaded model.tflite, served under --prefer_tflite_model with TensorFlow Serving's names."""

import contextlib
import dataclasses
import os
import queue
from collections.abc import Sequence

import numpy as np

from bert_tf.lite.litert_file import MODEL_FILE
from bert_tf.serving.errors import invalid
from bert_tf.serving.server.dtypes import as_dtype
from bert_tf.serving.server.fair_semaphore import FairSemaphore
from bert_tf.serving.server.predict import DEFAULT_SIGNATURE
from bert_tf.serving.server.regular_files import check_regular
from bert_tf.serving.server.request_context import RequestContext
from bert_tf.serving.server.sequences import RequestPlan, Sequences
from bert_tf.serving.server.session_bundle import DEFAULT, Bundle
from bert_tf.serving.server.signatures import PREDICT, read_signature
from bert_tf.serving.server.tensorflow_messages import meta_graph_pb2
from bert_tf.serving.server.tflite_graph import TfliteGraph
from bert_tf.utils.litert_runner import ForeignLitertError, LitertRunner, length_for
from bert_tf.utils.litert_trial import UntriedError, check_litert
from bert_tf.utils.token_counts import TokenCountLog

_PART_TOKENS = 2**9  # computed at once, before other requests get a turn
_MOST_SAID = 300  # characters of an error


class TfliteModel:
    """The file model.tflite of one exported version, with the attributes and methods of a `SavedModel`.

    A file exported by bert_tf has one signature with token ids as inputs, because LiteRT has no tokenizer.
    """

    def __init__(self, path: str, bundle: Bundle = DEFAULT):
        """Reads model.tflite in the directory `path`.

        Raises:
            ValueError: it is damaged, or has operations that LiteRT lacks.
            OSError: it cannot be read, or not be tried first.
        """
        file = os.path.join(path, MODEL_FILE)
        check_regular(file)
        with open(file, "rb") as stored:
            self._data = stored.read()
        number = max(1, bundle.num_tflite_pools)
        self._threads = max(1, bundle.threads // number)
        self._turns, self._idle = FairSemaphore(number), queue.SimpleQueue()
        self._make_runner: type[LitertRunner | TfliteGraph] = LitertRunner
        try:
            check_litert(self._data)
            runners = self._make_runners(number)
        except UntriedError as error:
            raise UntriedError(f"{file} is not loaded, because it could not be tried: {_one_line(error)}") from error
        except (ValueError, RuntimeError) as error:
            raise ValueError(f"LiteRT cannot read {file}: {_one_line(error)}; export it again") from error
        for runner in runners:
            self._idle.put(runner)
        self.token_counts = TokenCountLog(path)  # of none: requests hold ids
        self.task, self.read_tokenizer = {}, lambda: None
        if isinstance(runner, TfliteGraph):
            self.sequences, definitions = Sequences(), runner.definitions
        else:
            self.sequences = _OneByOne(positions=runner.lengths[-1], lengths=tuple(runner.lengths))
            definitions = {DEFAULT_SIGNATURE: _definition(runner)}
        self.signatures = {
            name: read_signature(each, bundle.check_method_names, checks_shapes=isinstance(runner, LitertRunner))
            for name, each in definitions.items()
        }

    def turn(self, call: RequestContext) -> contextlib.AbstractContextManager[None]:
        """Returns a context in which `run` finds an idle interpreter; raises ServingError as `FairSemaphore.turn`."""
        return self._turns.turn(call)

    def run(self, feeds: dict[str, np.ndarray], fetches: Sequence[str]) -> list[np.ndarray]:
        """Computes tensors by name, as `SavedModel.run` does.

        Raises:
            ServingError: LiteRT cannot compute with these feeds.
        """
        runner = self._idle.get()
        try:
            outputs = runner(feeds)
        except (ValueError, RuntimeError) as error:
            # An interpreter repeats past errors in all later ones, which would reach other callers.
            runner = self._make_runner(self._data, self._threads)
            raise invalid(f"LiteRT rejects these inputs: {str(error)[:_MOST_SAID]}") from error
        finally:
            self._idle.put(runner)
        return [outputs[name] for name in fetches]

    def prepare(self, feeds: Sequence[str], fetches: Sequence[str]):
        """Runs each interpreter once per sequence length, so that it allocates its memory; those of others have it.

        Raises:
            ValueError: LiteRT cannot run the file.
        """
        if self._make_runner is TfliteGraph:
            return
        for _ in range(self._idle.qsize()):
            runner = self._idle.get()  # from the front of the queue; it returns to the end
            try:
                for length in runner.lengths:
                    runner(_zeros(runner.inputs, length))
            except (ValueError, RuntimeError) as error:
                raise ValueError(f"LiteRT cannot run {MODEL_FILE}: {_one_line(error)}; export it again") from error
            finally:
                self._idle.put(runner)

    def _make_runners(self, number):
        try:
            return [self._make_runner(self._data, self._threads) for _ in range(number)]
        except ForeignLitertError:
            self._make_runner = TfliteGraph
            return self._make_runners(number)

    def close(self):
        """Frees the weights; no further calls are allowed."""
        self._idle = self._data = None


@dataclasses.dataclass(frozen=True)
class _OneByOne(Sequences):
    """Sequences that are computed one by one, each padded to the smallest sufficient length in `lengths`."""

    lengths: tuple[int, ...] = ()

    def plan(self, signature, inputs):
        count, width = inputs["input_ids"].shape
        length = length_for(self.lengths, width)
        most = max(1, _PART_TOKENS // length)
        rows = np.arange(count)
        parts = tuple(rows[start : start + most] for start in range(0, count, most)) if count > most else ()
        return RequestPlan(count * length, length, parts)

    def check(self, signature, inputs):
        for alias, array in inputs.items():
            if array.ndim != 2:
                raise invalid(f"The input {alias} must have 2 axes, sequences and tokens, and has {array.ndim}")
        super().check(signature, inputs)
        width = inputs["input_ids"].shape[1]
        if not width:
            raise invalid("The input input_ids must have at least one token per sequence; got none")
        positions = inputs.get("masked_lm_positions", np.zeros([0, 1]))
        if not np.all((positions >= 0) & (positions < width)):
            raise invalid(f"The input masked_lm_positions must be from 0 to {width - 1}, the last token's")


def _one_line(error):
    return " ".join(str(error).split())


def _zeros(specs, length):
    sizes = {name: [length if size is None else size for size in spec.shape[1:]] for name, spec in specs.items()}
    return {name: np.zeros([1, *sizes[name]], spec.dtype) for name, spec in specs.items()}


def _definition(runner):
    definition = meta_graph_pb2.SignatureDef(method_name=PREDICT)
    for specs, side in ((runner.inputs, definition.inputs), (runner.outputs, definition.outputs)):
        for name, spec in specs.items():
            info = side[name]
            info.name, info.dtype = name, as_dtype(spec.dtype).as_datatype_enum
            for size in spec.shape:
                info.tensor_shape.dim.add(size=-1 if size is None else size)
    return definition
