"""A loaded SavedModel, run as in TensorFlow Serving's C++: a session with feeds and fetches by tensor name."""

import contextlib
import functools
import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizers' ops, which TensorFlow Serving links too

from bert_tf.serving.errors import failed_precondition, from_number, invalid
from bert_tf.serving.server.dtypes import STRING
from bert_tf.serving.server.export_files import read_export_tokenizer, read_task_file
from bert_tf.serving.server.regular_files import check_regular, check_stored_files
from bert_tf.serving.server.sequences import Sequences
from bert_tf.serving.server.session_bundle import DEFAULT, Bundle
from bert_tf.serving.server.signatures import MAX_AXES, read_signature
from bert_tf.serving.server.tensorflow_messages import config_pb2
from bert_tf.utils import tensorflow_internals as internals
from bert_tf.utils.names import EXPLANATIONS, SEQUENCES, SIDE_BY_SIDE, TOKEN_COUNTS
from bert_tf.utils.resources import permits_int8, why_without_int8
from bert_tf.utils.token_counts import TokenCountLog

if TYPE_CHECKING:
    from bert_tf.tokenization.fast_tokenizer import FastTokenizer

# TensorFlow prepares the graph for each set of feeds and fetches, and keeps it as long as the session. Each
# signature has one, and so has each combination of them in MultiInference.
_PREPARED = 64
# Operations that look at axes before they check that there are any. TensorFlow Serving ends with them.
_FRAGILE = ("ScatterNd", "TFText>WhitespaceTokenizeWithOffsets", "TFText>WhitespaceTokenizeWithOffsetsV2")
_INT8 = ("QuantizedMatMulWithBiasAndDequantize", "_QuantizedMatMul")  # kernels that not every CPU has
_FEWEST_TEXTS = 100  # of a server, before it warns of truncated ones
# Passing hundreds of small operations to other threads costs more than it gains, unless the graph is made for it and
# these are idle.
_CALLERS_THREAD, _ALL_THREADS = map(internals.run_options, (-1, 0))


class _Running:
    """Counts running calls; entering it returns the number."""

    def __init__(self):
        self._number, self._lock = 0, threading.Lock()

    def __enter__(self):
        with self._lock:
            self._number += 1
            return self._number

    def __exit__(self, *error):
        with self._lock:
            self._number -= 1


_running = _Running()  # for all models, which share the threads


class SavedModel:
    """The graph and the weights of one exported version.

    Attributes:
        signatures: {name: Signature}.
        sequences: limits of sequence lengths.
        token_counts: truncated texts and unknown tokens so far, in requests of texts. Without a graph that counts
            them, they are 0.
        task: contents of task.json: the name of the task and its options; {} if the export has none.
        prepare: prepare(feeds, fetches), tuples of tensor names, prepares `run` for them; the first
            call takes seconds.
    """

    def __init__(self, path: str, bundle: Bundle = DEFAULT):
        """Loads the meta graph with the tags of `bundle` from `path`.

        Raises:
            ServingError: the graph cannot be built or its weights cannot be read.
            Exception: other errors of TensorFlow; each missing or damaged file has its own type.
        """
        # tf.saved_model.load would trace every function again and keep the weights in the global eager context; its TF1
        # counterpart logs a deprecation warning and fails without naming a missing vocabulary.
        check_stored_files(path)
        loader = internals.SavedModelLoader(path)
        meta_graph = loader.get_meta_graph_def_from_tags(bundle.tags)
        _check_assets(path, meta_graph)
        _check_processor(path, meta_graph)
        graph, config = tf.Graph(), config_pb2.ConfigProto.FromString(bundle.session_config)
        config.experimental.disable_output_partition_graphs = True  # they copy all constants for each signature
        config.graph_options.rewrite_options.disable_tfg_optimizer = True  # half of the warm-up; it changes nothing
        self._session = tf.compat.v1.Session(graph=graph, config=config)
        try:
            with graph.as_default():
                loader.load(self._session, bundle.tags)
        except tf.errors.OpError as error:
            self._session.close()
            # The runtime's own message, without the Python traceback that `Session.run` puts before it.
            inner = error.__context__ if isinstance(error.__context__, tf.errors.OpError) else error
            message = f"restoring its variables or tables failed: {inner.message}"
            raise from_number(inner.error_code, message) from error
        except BaseException:
            self._session.close()
            raise
        internals.forget_functions(graph)
        self._has_parts = SIDE_BY_SIDE in meta_graph.collection_def
        is_ours = SEQUENCES in meta_graph.collection_def  # asked first: reading an entry of a map creates it
        self.sequences = Sequences(*meta_graph.collection_def[SEQUENCES].int64_list.value)
        definitions, checks = meta_graph.signature_def.items(), bundle.check_method_names
        is_fragile = not is_ours and _has_operation(meta_graph, _FRAGILE)
        self.signatures = {
            name: read_signature(each, checks, is_ours and name in EXPLANATIONS, is_ours or is_fragile, is_fragile)
            for name, each in definitions
        }
        counts = meta_graph.collection_def[TOKEN_COUNTS].node_list.value
        self._counts = {_operation(tensor): tensor for tensor in counts}
        self.token_counts = TokenCountLog(path, fewest=_FEWEST_TEXTS)
        self.task = read_task_file(path)
        self._tokenizer, self._tokenizer_lock = functools.cache(lambda: read_export_tokenizer(path)), threading.Lock()
        self._flat = self._flatten_strings()
        self.prepare = functools.lru_cache(maxsize=_PREPARED)(self._prepare)

    def read_tokenizer(self) -> "FastTokenizer | None":
        """Returns the tokenizer of the export, or None; it is read at the first call, for which others wait."""
        with self._tokenizer_lock:
            return self._tokenizer()

    def turn(self, call) -> contextlib.AbstractContextManager[None]:
        """Returns the context in which a call may `run`: a session allows any number of them."""
        return contextlib.nullcontext()

    def run(self, feeds: dict[str, np.ndarray], fetches: Sequence[str]) -> list[np.ndarray]:
        """Computes tensors by name; safe to call from several threads.

        An export whose graph has parts for several threads is computed by all of TensorFlow's threads if nothing else
        runs in this process. Otherwise, the caller's thread computes all of it. The result is the same.

        Args:
            feeds: {tensor name: array}; strings as object arrays of bytes.
            fetches: tensor names.

        Raises:
            ServingError: the graph cannot compute with these feeds.
        """
        if max((np.ndim(array) for array in feeds.values()), default=0) > MAX_AXES:
            raise invalid(f"A tensor may have {MAX_AXES} axes and one has more")  # including ones of the model
        names = tuple(sorted(feeds))
        try:
            inputs, outputs, flat, counted = self.prepare(names, tuple(fetches))
            arrays = dict(zip(inputs, [feeds[name] for name in names], strict=True))
            with _running as number:
                threads = _ALL_THREADS if self._has_parts and number == 1 else _CALLERS_THREAD
                values = internals.run_session(self._session, threads, arrays, outputs)
            for _ in range(counted):
                self.token_counts.add(values.pop())
            return _shaped(values, fetches, flat) if flat else values
        except tf.errors.OpError as error:
            raise from_number(error.error_code, error.message) from error
        except (TypeError, ValueError) as error:  # numpy's and the session's own checks, before the graph runs
            raise invalid(str(error)) from error

    def close(self):
        """Frees the weights; no further calls are allowed."""
        self.prepare.cache_clear()
        self._session.close()
        graph = self._session.graph
        del self._session, self.prepare  # the last references: TensorFlow frees the variables with the session
        internals.dismantle_graph(graph)  # cycles, which the garbage collector frees too rarely: MiB per version

    def _prepare(self, feeds, fetches):
        """Returns the keys of feeds and fetches, the flat ones, and the number of token counts, fetched last."""
        tensor = self._session.graph.get_tensor_by_name
        inputs, outputs = [[tensor(name) for name in each] for each in (feeds, fetches)]
        flat = [i for i, name in enumerate(fetches) if name in self._flat]
        for i in flat:
            outputs[i], shape = self._flat[fetches[i]]
            outputs.append(shape)
        counts = [self._counts[call] for call in sorted({*map(_operation, fetches)} & self._counts.keys())]
        outputs += map(tensor, counts)
        keys = [*map(internals.session_key, inputs)], [*map(internals.session_key, outputs)], flat, len(counts)
        if not inputs:
            return keys
        # The graph is optimized before the feeds are checked, so nothing is computed.
        wrong = [np.zeros([], np.int8 if each.dtype == tf.bool else np.bool_) for each in inputs]
        try:
            internals.run_session(self._session, _CALLERS_THREAD, dict(zip(keys[0], wrong, strict=True)), keys[1])
        except tf.errors.OpError as error:
            if not (isinstance(error, tf.errors.InvalidArgumentError) and "Expects arg" in error.message):
                raise from_number(error.error_code, error.message) from error
        return keys

    def _flatten_strings(self):
        """Returns {tensor name: (the same in one axis, its shape)} of outputs that may have more axes than strings can.

        TensorFlow copies strings to NumPy with an iterator of 32 axes; fetching more of them ends the process. No
        export of ours has such an output: the operations are added for outputs whose rank the graph does not know.
        """
        found, graph = {}, self._session.graph
        endpoints = (each for signature in self.signatures.values() for each in signature.outputs.values())
        names = sorted({each.tensor for each in endpoints if each.dtype == STRING and each.tensor})
        with graph.as_default():
            for name in names:
                tensor = graph.get_tensor_by_name(name)
                if tensor.shape.rank is None or tensor.shape.rank > MAX_AXES:
                    found[name] = tf.reshape(tensor, [-1]), tf.shape(tensor, tf.int64)
        if found:
            internals.extend_graph(self._session)
        return found


def _shaped(values, fetches, flat):
    """Returns the fetched values, those at the indices `flat` with the shapes that come last."""
    shapes = values[len(fetches) :]
    for i, shape in zip(flat, shapes, strict=True):
        values[i] = np.asarray(values[i], object).reshape(shape)
    return values[: len(fetches)]


def _operation(tensor):
    """Returns the name of the operation that computes the tensor of this name."""
    return tensor.partition(":")[0]


def _has_operation(meta_graph, names):
    """Whether a graph has one of these operations."""
    functions = (function.node_def for function in meta_graph.graph_def.library.function)
    return any(node.op in names for nodes in (meta_graph.graph_def.node, *functions) for node in nodes)


def _check_processor(path, meta_graph):
    """Raises ServingError if this machine cannot compute in int8, which TensorFlow finds out only in requests."""
    if not permits_int8() and _has_operation(meta_graph, _INT8):
        raise failed_precondition(
            f"{path} computes in int8, which requires oneDNN, {why_without_int8()}, or export the model in float32"
        )


def _check_assets(path, meta_graph):
    """Raises FileNotFoundError for a missing vocabulary, even if the graph would read it only later."""
    for asset in meta_graph.asset_file_def:
        file = os.path.join(path, "assets", asset.filename)
        if not tf.io.gfile.exists(file):
            raise FileNotFoundError(f"the asset {file} is missing")
        if os.path.exists(file):  # in the local file system, even outside the directory
            check_regular(file)
