"""TensorFlow's and TensorFlow Serving's message classes, without TensorFlow.

Their modules, which are generated from .proto files, import the package `tensorflow` for its path alone, and with it
all of TensorFlow: seconds, and half a gigabyte. Here they find a package of that name and path that runs no code. It is
removed when they are imported, so that `import tensorflow` means TensorFlow again.
"""

import importlib.util
import sys
import types


def _import_messages():
    """Imports the modules of messages, unless TensorFlow is there already; then they need nothing else."""
    if "tensorflow" not in sys.modules:
        spec = importlib.util.find_spec("tensorflow")
        package = types.ModuleType("tensorflow")
        package.__path__ = list(spec.submodule_search_locations)
        sys.modules["tensorflow"] = package
    else:
        package = None
    try:
        for name in _MODULES:
            importlib.import_module(name)
    finally:
        if package is not None and sys.modules.get("tensorflow") is package:
            del sys.modules["tensorflow"]


_MODULES = (
    "tensorflow.core.example.example_pb2",
    "tensorflow.core.framework.tensor_pb2",
    "tensorflow.core.framework.types_pb2",
    "tensorflow.core.protobuf.config_pb2",
    "tensorflow.core.protobuf.meta_graph_pb2",
    "tensorflow.core.protobuf.rewriter_config_pb2",
    "tensorflow.core.protobuf.saved_model_pb2",
    *(
        f"tensorflow_serving.apis.{name}_pb2"
        for name in (
            "classification", "get_model_metadata", "get_model_status", "inference", "input", "model",
            "model_management", "predict", "prediction_log", "regression", "session_service", "status",
        )
    ),
    "tensorflow_serving.config.model_server_config_pb2",
)  # fmt: skip

_import_messages()
