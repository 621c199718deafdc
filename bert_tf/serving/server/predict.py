"""Predict: any signature, any tensors.

The checks, their order and their words are those of TensorFlow Serving's `predict_util.cc` and TensorFlow's
`cc/saved_model/util.cc`.
"""

import collections
import contextlib
import dataclasses
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import grpc
import numpy as np
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import predict_pb2

from bert_tf.serving.limits import LIMITS, Limits, ServingError, failed_precondition, invalid, unimplemented
from bert_tf.serving.server import metrics
from bert_tf.serving.server.signatures import (
    CLASSIFY,
    PREDICT,
    REGRESS,
    check_tensor,
    fill_proto,
    proto_to_array,
    type_name,
)

# === Turns ===
# Turns: so many threads at a time, the others in the order in which they came.


_LOOK_SECONDS = 0.5  # after which a request that waits is looked at: is its caller still there?
_SMALL = 2**12  # bytes of a request, or elements of an answer, that waits for no turn


class Turns:
    """So many at a time; the others wait in the order in which they came."""

    def __init__(self, at_a_time: int):
        self._free = at_a_time
        self._waiting: collections.deque[threading.Event] = collections.deque()
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """Number of requests that wait."""
        return len(self._waiting)

    @contextlib.contextmanager
    def turn(self, call) -> Iterator[None]:
        """A block that begins when it is the caller's turn.

        Args:
            call: a `Call`.

        Raises:
            ServingError: before that, nobody waits for the answer any more.
        """
        self.take(call)
        try:
            yield
        finally:
            self.give_back()

    def take(self, call):
        """Returns when it is the caller's turn, who must give it back; raises as `turn` does."""
        with self._lock:
            if self._free:
                self._free -= 1
                return
            mine = threading.Event()
            self._waiting.append(mine)
        try:
            while not mine.wait(_LOOK_SECONDS if call.deadline is None else min(_LOOK_SECONDS, call.seconds_left)):
                call.check()
        except BaseException:
            with self._lock:
                mine_already = mine.is_set()
                if not mine_already:
                    self._waiting.remove(mine)
            if mine_already:
                self.give_back()
            raise

    def give_back(self):
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()  # the turn goes on to the next, and never back in between
            else:
                self._free += 1


_interpreter = Turns(1)


class Work:
    """Turns of Python's own work: on large requests and answers one at a time, on small ones at once.

    Python reads and writes a large one in steps that last, in which no other thread moves: one of them is not felt,
    hundreds are. A `size` is the bytes of a request or the elements of an answer, of which Python
    does about as many in a second. All methods raise ServingError where nobody waits for the answer of `call` any more.
    """

    _has_turn = False

    @contextlib.contextmanager
    def begun(self, call, size: int) -> Iterator[None]:
        """A block in which a request of `size` is worked at."""
        self.grow(call, size)
        try:
            yield
        finally:
            self._end()

    def grow(self, call, size: float):
        """Goes on when it is the turn of a request or an answer of `size`."""
        if size > _SMALL and not self._has_turn:
            _interpreter.take(call)
            self._has_turn = True

    @contextlib.contextmanager
    def paused(self, call) -> Iterator[None]:
        """A block in which others may have their turn: Python waits in it. After an error little is left to do."""
        had_turn = self._has_turn
        self._end()
        yield
        if had_turn:
            self.grow(call, math.inf)

    def _end(self):
        if self._has_turn:
            self._has_turn = False
            _interpreter.give_back()


# === Call ===
# Who waits for the answer to a request, for how long, and what it may cost.


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
    is_gone: Callable[[], bool] = lambda: False
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
        """Raises ServingError if nobody would read the answer any more."""
        if self.is_gone():
            raise ServingError(grpc.StatusCode.CANCELLED, "The caller is gone")
        if self.seconds_left == 0:
            raise ServingError(grpc.StatusCode.DEADLINE_EXCEEDED, "The deadline passed before the model was asked")


INTERNAL = Call()  # a request of the server's own, such as a warm-up: nobody waits


# === Predict ===


DEFAULT_SIGNATURE = "serving_default"


def predict(version, request: predict_pb2.PredictRequest, call: Call = INTERNAL) -> predict_pb2.PredictResponse:
    """Answers a PredictRequest with the given version, whatever its ModelSpec says of name and version.

    Raises:
        ServingError: the request does not fit the signature, or the graph refuses it.
    """
    name = request.model_spec.signature_name or DEFAULT_SIGNATURE
    signature = version.model.signatures.get(name)
    if signature is None:
        raise failed_precondition(f'Serving signature key "{name}" not found.')
    check_method(signature)
    inputs = _inputs(signature, request.inputs, call.limits)
    aliases = _aliases(signature, request.output_filter)
    response = predict_pb2.PredictResponse()
    set_spec(response.model_spec, version, name)
    for alias, array in run_predict(version, signature, inputs, aliases, call).items():
        fill_proto(response.outputs[alias], array, signature.outputs[alias].dtype, call.tensor_content)
    return response


def run_predict(
    version,
    signature,
    inputs: dict[str, np.ndarray],
    aliases: Sequence[str] = (),
    call: Call = INTERNAL,
    api: str = "Predict",
) -> dict[str, np.ndarray]:
    """Computes the outputs `aliases` (all, where none is named) of a signature from {input alias: array}.

    Raises:
        ServingError: that is more than a request may ask for, or than the server takes now, or the graph refuses it.
    """
    aliases = aliases or list(signature.outputs)
    sequences = version.model.sequences
    sequences.check(signature, inputs)
    plan = sequences.plan(signature, inputs)
    call.limits.check_tokens(plan.tokens)
    started = time.monotonic()
    with version.scheduler.requests.take(plan.tokens), call.work.paused(call):
        if version.batched:  # whose parts are those of the batch
            outputs = version.batched(signature, inputs, aliases, call)
        else:
            outputs = version.compute(signature, inputs, aliases, call, plan)
    metrics.RUNTIME_LATENCY.labels(version.name, api, "TF1").observe((time.monotonic() - started) * 1e6)
    for alias, array in outputs.items():
        call.limits.check_output(alias, np.size(array))
    if call.until_sent is not None:  # a warm-up's answer is not sent, and no block of its `work` would end the turn
        elements = sum(map(np.size, outputs.values()))
        call.until_sent.enter_context(version.scheduler.answers.take(elements))
        call.work.grow(call, elements)
    return outputs


def read_input(signature, alias: str, proto: tensor_pb2.TensorProto, limits: Limits = LIMITS) -> np.ndarray:
    """Returns the array of an input of a signature.

    Raises:
        ServingError: the tensor is malformed, too large or none that the input takes; nothing of its size was made.
    """
    check_tensor(proto, alias, limits)
    check_input(signature, alias, proto.dtype, [dim.size for dim in proto.tensor_shape.dim])
    return proto_to_array(proto, alias)


def check_input(signature, alias: str, datatype: int, sizes: Sequence[int]):
    """Raises ServingError if an input of a signature takes no tensor of this type, a number in DataType, and shape.

    TensorFlow Serving hands on whatever shape there is and leaves the check to the graph.
    """
    endpoint = signature.inputs[alias]
    if not endpoint.tensor:  # a sparse or composite one
        raise unimplemented(f"Input {alias} must be one tensor of the graph. Received a signature where it is several")
    if datatype != endpoint.dtype.as_datatype_enum:
        # The session would refuse another type too, but not always in these words.
        index, wanted = list(signature.inputs).index(alias), type_name(endpoint.dtype.as_datatype_enum)
        raise invalid(f"Expects arg[{index}] to be {wanted} but {type_name(datatype)} is provided")
    endpoint.check_shape(alias, sizes)


def wrong_count(given: Iterable[str], wanted: Iterable[str]) -> ServingError:
    """Returns the error of a request that has more or fewer inputs, by alias, than the signature."""
    given, wanted = set(given), set(wanted)
    return invalid(
        f"input size does not match signature: {len(given)}!={len(wanted)} "
        f"len({{{_listed(given)}}}) != len({{{_listed(wanted)}}}). Sent extra: {{{_listed(given - wanted)}}}. "
        f"Missing but required: {{{_listed(wanted - given)}}}."
    )


def check_method(signature):
    """Raises ServingError if a signature is made for another method, and the server minds that."""
    methods = (PREDICT, CLASSIFY, REGRESS)
    if not signature.has_method(*methods):
        raise ServingError(
            grpc.StatusCode.INTERNAL,
            f"Expected prediction signature method_name to be one of {{{', '.join(methods)}}}. "
            f"Was: {signature.definition.method_name}",
        )


def set_spec(spec, version, signature_name: str):
    """Writes into a response's ModelSpec what has answered."""
    spec.name = version.name
    spec.version.value = version.number
    spec.signature_name = signature_name


def _inputs(signature, protos, limits):
    """Returns {alias: array} for every input of the signature."""
    if len(protos) > len(signature.inputs) or (len(protos) < len(signature.inputs) and not signature.defaults):
        raise wrong_count(protos, signature.inputs)
    arrays = {}
    for alias, endpoint in signature.inputs.items():
        if alias in protos:
            proto = protos[alias]
        elif alias in signature.defaults:
            proto = signature.defaults[alias]
        else:
            raise invalid(
                f"Signature input alias: {alias}(feed name: {endpoint.tensor}) not found in request and no default "
                f"value provided. Inputs expected to be in the request {{{_listed(protos)}}}, or default input alias "
                f"set: {_listed(signature.defaults)}"
            )
        arrays[alias] = read_input(signature, alias, proto, limits)
    if set(protos) - set(arrays):
        used = set(protos) & set(arrays)
        raise invalid(
            f"Inputs contains invalid name. Used request inputs: {_listed(used)}, request input: {_listed(protos)}"
        )
    return arrays


def _aliases(signature, output_filter):
    """Returns the outputs that were asked for, none where all are wanted."""
    for i, alias in enumerate(output_filter):
        if alias not in signature.outputs:
            raise invalid(
                f"output tensor alias not found in signature: {alias} Outputs expected to be in the set "
                f"{{{_listed(signature.outputs)}}}."
            )
        if alias in output_filter[:i]:
            raise invalid(f"duplicate output tensor alias: {alias}")
    return list(output_filter)


def _listed(names):
    return ",".join(sorted(names))
