"""Errors of requests: TensorFlow Serving's code and message, for gRPC and for REST."""

import functools
import re
import threading
import time

import grpc
from absl import logging

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
