"""A SavedModel in memory, run as TensorFlow Serving's C++ runs it: a session, fed and fetched by tensor names."""

import functools
import os
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizers' ops, which TensorFlow Serving links too
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.framework import ops
from tensorflow.python.saved_model import loader_impl

from bert_tf.serving.errors import from_number, invalid
from bert_tf.serving.signatures import read_signature

# TensorFlow prepares the graph anew for each set of feeds and fetches, and keeps it as long as its callable. Each
# signature has one, and so has each combination of them that MultiInference is asked for.
_CALLABLES = 64
_CALLERS_THREAD = -1  # computes: to hand hundreds of small operations to others takes longer than to make them


class SavedModel:
    """The graph and the weights of one exported version.

    Attributes:
        signatures: {name: Signature}.
        prepare: prepare(feeds, fetches), tuples of tensor names, returns the callable that `run` uses for them; the
            first call takes seconds.
    """

    def __init__(self, path: str):
        """Loads the meta graph tagged "serve" from `path`.

        Raises:
            ServingError: the graph cannot be made or its weights cannot be read.
            Exception: what else TensorFlow finds wrong; each missing or damaged file has a type of its own.
        """
        # tf.saved_model.load would trace every function anew and keep the weights in the one eager context; its TF1
        # sister warns of its age and fails over a missing vocabulary before it can be named.
        loader = loader_impl.SavedModelLoader(path)
        meta_graph = loader.get_meta_graph_def_from_tags(["serve"])
        _check_assets(path, meta_graph)
        graph = tf.Graph()
        self._session = tf.compat.v1.Session(graph=graph)
        try:
            with graph.as_default():
                loader.load(self._session, ["serve"])
        except tf.errors.OpError as error:
            self._session.close()
            raise _in_short(error) from error
        except BaseException:
            self._session.close()
            raise
        self.signatures = {name: read_signature(each) for name, each in meta_graph.signature_def.items()}
        self.prepare = functools.lru_cache(maxsize=_CALLABLES)(self._make_callable)

    def run(self, feeds: dict[str, np.ndarray], fetches: Sequence[str]) -> list[np.ndarray]:
        """Computes tensors by name; safe to call from several threads.

        Args:
            feeds: {tensor name: array}; strings as object arrays of bytes.
            fetches: tensor names.

        Raises:
            ServingError: the graph cannot compute with these feeds.
        """
        names = tuple(sorted(feeds))
        try:
            return self.prepare(names, tuple(fetches))(*(feeds[name] for name in names))
        except tf.errors.OpError as error:
            raise from_number(error.error_code, error.message) from error
        except (TypeError, ValueError) as error:  # numpy's and the session's own checks, before the graph runs
            raise invalid(str(error)) from error

    def close(self):
        """Frees the weights; nothing may run any more."""
        self.prepare.cache_clear()
        self._session.close()
        graph = self._session.graph
        del self._session, self.prepare  # the last references: TensorFlow frees the variables with the session
        ops.dismantle_graph(graph)  # cycles, for which the collector comes too seldom: MiB for each version

    def _make_callable(self, feeds, fetches):
        # `Session.run` parses feeds and fetches at each call, and casts feeds silently where the runtime would refuse.
        run_options = config_pb2.RunOptions(inter_op_thread_pool=_CALLERS_THREAD)
        options = config_pb2.CallableOptions(feed=feeds, fetch=fetches, run_options=run_options)
        return self._session._make_callable_from_options(options)


def _in_short(error):
    """Returns the runtime's own words, before which `Session.run` puts an account of the Python that made the graph."""
    inner = error.__context__ if isinstance(error.__context__, tf.errors.OpError) else error
    return from_number(inner.error_code, f"restoring its variables or tables failed: {inner.message}")


def _check_assets(path, meta_graph):
    """Raises FileNotFoundError for a vocabulary that is not there, even if the graph would read it only later."""
    for asset in meta_graph.asset_file_def:
        file = os.path.join(path, "assets", asset.filename)
        if not tf.io.gfile.exists(file):
            raise FileNotFoundError(f"the asset {file} is missing")
