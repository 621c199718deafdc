"""TensorFlow's and TensorFlow Serving's modules of messages, without TensorFlow.

These modules, which are generated from .proto files, import the package `tensorflow` for its path alone, and with it
all of TensorFlow: seconds, and half a gigabyte. Here they find a package of that name and path that runs no code. It is
removed when they are imported, so that `import tensorflow` means TensorFlow again.
"""

import contextlib
import importlib.util
import sys
import types
from collections.abc import Iterator


@contextlib.contextmanager
def _path_of_tensorflow() -> Iterator[None]:
    """Context manager in which `tensorflow` is a package without code, unless TensorFlow is imported already."""
    if "tensorflow" in sys.modules:
        yield
        return
    package = types.ModuleType("tensorflow")
    package.__path__ = list(importlib.util.find_spec("tensorflow").submodule_search_locations)
    sys.modules["tensorflow"] = package
    try:
        yield
    finally:
        del sys.modules["tensorflow"]


with _path_of_tensorflow():
    from tensorflow.core.framework import tensor_pb2, types_pb2
    from tensorflow.core.protobuf import config_pb2, meta_graph_pb2, rewriter_config_pb2
    from tensorflow_serving.apis import (
        classification_pb2,
        get_model_metadata_pb2,
        get_model_status_pb2,
        inference_pb2,
        model_management_pb2,
        model_pb2,
        predict_pb2,
        prediction_log_pb2,
        regression_pb2,
    )
    from tensorflow_serving.config import model_server_config_pb2

__all__ = [
    "classification_pb2", "config_pb2", "get_model_metadata_pb2", "get_model_status_pb2", "inference_pb2",
    "meta_graph_pb2", "model_management_pb2", "model_pb2", "model_server_config_pb2", "predict_pb2",
    "prediction_log_pb2", "regression_pb2", "rewriter_config_pb2", "tensor_pb2", "types_pb2",
]  # fmt: skip
