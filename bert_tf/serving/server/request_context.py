"""The call that a request is: its caller, deadline and limits."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping

import grpc

from bert_tf.serving.errors import ServingError
from bert_tf.serving.limits import Limits
from bert_tf.serving.server.fair_semaphore import InterpreterSlot


@dataclasses.dataclass(frozen=True)
class RequestContext:
    """A request in the server, over gRPC or REST.

    Attributes:
        deadline: when its caller gives up, on the clock of `time.monotonic`; None means never.
        is_gone: whether the caller has disconnected.
        limits: limits of a request.
        entrypoint: "GRPC" or "REST", as in TensorFlow Serving's metrics.
        tensor_content: whether Predict's tensors are sent as raw bytes instead of lists of values.
        peer: address of the caller in gRPC's form; "" if not needed.
        work: turns for Python's work on it.
        headers: of a REST request, by name in any letter case; of protocols that state something in them.
        until_sent: closed after the response is sent or dropped; if None, nothing is sent.
    """

    deadline: float | None = None
    is_gone: Callable[[], bool] = lambda: False
    limits: Limits = Limits()
    entrypoint: str = "GRPC"
    tensor_content: bool = False
    peer: str = ""
    work: InterpreterSlot = dataclasses.field(default_factory=InterpreterSlot)
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    until_sent: contextlib.ExitStack | None = None

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the deadline, 0 if it has passed; None without a deadline."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def check(self):
        """Raises ServingError if the caller has disconnected or the deadline has passed."""
        if self.is_gone():
            raise ServingError(grpc.StatusCode.CANCELLED, "The client disconnected")
        if self.seconds_left == 0:
            raise ServingError(grpc.StatusCode.DEADLINE_EXCEEDED, "The deadline passed before the model was run")


INTERNAL = RequestContext()  # a request of the server itself, such as a warm-up, without a caller
