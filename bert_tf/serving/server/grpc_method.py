"""A method of a gRPC service, as the server runs it."""

import dataclasses
from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from bert_tf.serving.server.tensorflow_messages import inference_pb2, model_pb2


def model_spec(request: Any) -> model_pb2.ModelSpec:
    """Returns the ModelSpec of a request: for MultiInference, the first task's, or an empty one."""
    if not isinstance(request, inference_pb2.MultiInferenceRequest):
        return request.model_spec
    return request.tasks[0].model_spec if request.tasks else model_pb2.ModelSpec()


@dataclasses.dataclass(frozen=True)
class Method:
    """A method of a service.

    Attributes:
        request: its type.
        answer: answer(registry, request, call) -> response; raises ServingError.
        counts: whether it is counted in the metrics, under the name of its model.
        spec: spec(request) -> the ModelSpec of a request that is counted.
    """

    request: type[Message]
    answer: Callable
    counts: bool = False
    spec: Callable[[Any], model_pb2.ModelSpec] = model_spec
