"""Errors of requests, and limits of a request's cost, which are checked before memory is allocated."""

import dataclasses
import functools
import re
import threading
import time
from collections.abc import Sequence
from typing import ClassVar

import grpc
from absl import logging

# === Errors ===
# TensorFlow Serving's code and message, for gRPC and for REST.


_CODES = {code.value[0]: code for code in grpc.StatusCode}
_HTTP_STATUS = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.FAILED_PRECONDITION: 400,
    grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.ABORTED: 409,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.CANCELLED: 499,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}
GRPC_BYTES = 1024  # of an error message over gRPC, where TensorFlow Serving sends it in a header
JSON_BYTES = 4096  # of an error message over REST: a name of a megabyte is not sent back
_PATH = re.compile(r"(?<![\w/.:])/(?:[^\s/:;,'\"\]})]+/)+")  # folders before a file's name
_SECONDS_BETWEEN_REPORTS = 10
_reported = {}  # type of an exception -> (when it was last logged, how many occurred since)
_lock = threading.Lock()


class ServingError(Exception):
    """Error for a request that is rejected.

    Attributes:
        code: a `grpc.StatusCode`.
        message: for the caller; in TensorFlow Serving's own words if it has this error.
        http_status: status of the REST response.
    """

    def __init__(self, code: grpc.StatusCode, message: str):
        super().__init__(message)
        self.code = code
        self.message = message
        self.http_status = _HTTP_STATUS.get(code, 500)

    def cut_message(self, most_bytes: int) -> str:
        """Returns the message cut to at most this many bytes of UTF-8, such as GRPC_BYTES."""
        data = self.message.encode("utf-8", "replace")
        if len(data) <= most_bytes:
            return data.decode()
        return f"{data[:most_bytes].decode('utf-8', 'ignore')}...TRUNCATED"


invalid = functools.partial(ServingError, grpc.StatusCode.INVALID_ARGUMENT)
failed_precondition = functools.partial(ServingError, grpc.StatusCode.FAILED_PRECONDITION)
not_found = functools.partial(ServingError, grpc.StatusCode.NOT_FOUND)
unimplemented = functools.partial(ServingError, grpc.StatusCode.UNIMPLEMENTED)
unavailable = functools.partial(ServingError, grpc.StatusCode.UNAVAILABLE)
denied = functools.partial(ServingError, grpc.StatusCode.PERMISSION_DENIED)


def from_number(number: int, message: str) -> ServingError:
    """Returns the error of a canonical code number, which TensorFlow's `OpError.error_code` is too."""
    return ServingError(_CODES.get(number, grpc.StatusCode.UNKNOWN), message)


def from_fault(fault: Exception, what: str) -> ServingError:
    """Returns the error for an exception inside the server, and logs its traceback.

    The caller only learns that the server failed, because Python's message may contain paths. An error in every request
    would fill the log, so each kind is logged only now and then, with the number of further ones.

    Args:
        fault: the exception being handled.
        what: the method or path that failed.
    """
    now = time.monotonic()
    with _lock:
        last, more = _reported.get(type(fault), (-float("inf"), 0))
        quiet = now - last < _SECONDS_BETWEEN_REPORTS
        _reported[type(fault)] = (last, more + 1) if quiet else (now, 0)
    if not quiet:
        since = f" ({more} more since the last report)" if more else ""
        logging.error("%s failed%s", what[:200], since, exc_info=fault)
    return ServingError(grpc.StatusCode.INTERNAL, "The server failed on this request; see its log for the cause")


def without_folders(message: str) -> str:
    """Removes directories from a message, and keeps file names."""
    return _PATH.sub("", message)


# === Limits ===


_MIB = 2**20


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits of a request: five settings, each a flag of `bert-tf serve`, and derived ones.

    The derived limits are proportional to the bytes of a request, so one number is enough to allow larger ones.

    Attributes:
        max_message_bytes: of a gRPC message.
        max_body_bytes: of a REST body, both compressed and decompressed.
        max_batch_size: texts, examples or instances of a request, on any axis.
        max_request_tokens: of a request; texts count one token per four bytes, as far as the model reads them.
        max_output_elements: of one output tensor; one with more is not sent.
        max_nesting: of lists and objects in JSON: Python parses them recursively, and TensorFlow copies strings of at
            most 32 axes.
    """

    max_message_bytes: int = 64 * _MIB
    max_body_bytes: int = 64 * _MIB
    max_batch_size: int = 4096
    max_request_tokens: int = 3 * 2**16
    max_output_elements: int = 2**24
    max_nesting: ClassVar[int] = 32

    @property
    def max_message_fields(self) -> int:
        """Fields, strings and nested messages in a gRPC message: each is an object, of hundreds of bytes in memory."""
        return self.max_message_bytes // 256

    @property
    def max_message_numbers(self) -> int:
        """Numbers in a gRPC message: small ones take a byte there and four or eight in memory."""
        return self.max_message_bytes // 4

    @property
    def max_json_values(self) -> int:
        """Values, lists and objects in a REST body: each is a Python object of up to 64 bytes."""
        return self.max_body_bytes // 64

    @property
    def max_tensor_elements(self) -> int:
        """Elements of one input tensor: BERT takes up to four such inputs, of four bytes per element."""
        return self._largest // 16

    @property
    def max_input_text_bytes(self) -> int:
        """Total bytes of the strings of an input: a quarter of a request, as for any other input."""
        return self._largest // 4

    @property
    def max_text_bytes(self) -> int:
        """Bytes of one string: a text is tokenized at once."""
        return self._largest // 16

    @property
    def _largest(self):
        return max(self.max_message_bytes, self.max_body_bytes)

    def check_rows(self, rows: int) -> None:
        """Raises ServingError for a request of too many texts, examples or instances."""
        if rows > self.max_batch_size:
            raise invalid(f"A request may have {self.max_batch_size} rows and has {rows}; send it in parts")

    def check_tokens(self, tokens: int) -> None:
        """Raises ServingError for a request of too many tokens."""
        if tokens > self.max_request_tokens:
            raise invalid(
                f"A request may have {self.max_request_tokens} tokens and has about {tokens}; send it in parts"
            )

    def check_text(self, size: int) -> None:
        """Raises ServingError for a string of too many bytes."""
        if size > self.max_text_bytes:
            raise invalid(f"A text may have {self.max_text_bytes} bytes and one has {size}; shorten it")

    def check_texts(self, sizes: Sequence[int]) -> None:
        """Raises ServingError if one of the strings of an input has too many bytes, or all have together."""
        self.check_text(max(sizes, default=0))
        if sum(sizes) > self.max_input_text_bytes:
            most = self.max_input_text_bytes
            raise invalid(
                f"The texts of an input may have {most} bytes together and have {sum(sizes)}; send them in parts"
            )

    def check_output(self, alias: str, elements: int) -> None:
        """Raises ServingError for an output too large for a message, which is written value by value."""
        if elements > self.max_output_elements:
            most = self.max_output_elements
            raise invalid(f"An output may have {most} elements and {alias} has {elements}; ask for less at a time")


LIMITS = Limits()
