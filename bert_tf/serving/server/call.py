"""What surrounds a request: who waits for its answer, for how long, and what it may cost."""

import contextlib
import dataclasses
import time
from collections.abc import Callable

import grpc

from bert_tf.serving.errors import ServingError
from bert_tf.serving.limits import Limits
from bert_tf.serving.server.turns import Work


def _stays():
    return False


@dataclasses.dataclass(frozen=True)
class Call:
    """One request on its way through the server, whatever it came by.

    Attributes:
        deadline: when its caller gives up, on the clock of `time.monotonic`; None: never.
        is_gone: whether the caller has left already.
        limits: what a request may cost.
        entrypoint: "GRPC" or "REST", as TensorFlow Serving's metrics have it.
        tensor_content: whether Predict's tensors are sent as raw bytes and not as lists of values.
        peer: who asks, as gRPC names it; "" where that is of no interest.
        work: what Python does for it.
        until_sent: closed once the answer is sent, or will not be; None: nothing is sent.
    """

    deadline: float | None = None
    is_gone: Callable[[], bool] = _stays
    limits: Limits = Limits()
    entrypoint: str = "GRPC"
    tensor_content: bool = False
    peer: str = ""
    work: Work = dataclasses.field(default_factory=Work)
    until_sent: contextlib.ExitStack | None = None

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the deadline, 0 where it is past; None without."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def check(self):
        """Raises ServingError where nobody would read the answer any more."""
        if self.is_gone():
            raise ServingError(grpc.StatusCode.CANCELLED, "The caller is gone")
        if self.seconds_left == 0:
            raise ServingError(grpc.StatusCode.DEADLINE_EXCEEDED, "The deadline passed before the model was asked")


INTERNAL = Call()  # a request of the server's own, such as a warm-up: nobody waits
