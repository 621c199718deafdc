"""What goes wrong with a request: TensorFlow Serving's code and message, for gRPC and for REST."""

import grpc

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
_LONGEST = 1024  # characters of a message that TensorFlow Serving sends over gRPC


class ServingError(Exception):
    """A request that is refused.

    Attributes:
        code: a `grpc.StatusCode`.
        message: what the caller reads; TensorFlow Serving's own words wherever it has some.
    """

    def __init__(self, code: grpc.StatusCode, message: str):
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def http_status(self) -> int:
        return _HTTP_STATUS.get(self.code, 500)

    @property
    def short_message(self) -> str:
        """The message as gRPC carries it: in a header, which must stay small."""
        return self.message if len(self.message) <= _LONGEST else f"{self.message[:_LONGEST]}...TRUNCATED"


def invalid(message: str) -> ServingError:
    return ServingError(grpc.StatusCode.INVALID_ARGUMENT, message)


def failed_precondition(message: str) -> ServingError:
    return ServingError(grpc.StatusCode.FAILED_PRECONDITION, message)


def not_found(message: str) -> ServingError:
    return ServingError(grpc.StatusCode.NOT_FOUND, message)


def unimplemented(message: str) -> ServingError:
    return ServingError(grpc.StatusCode.UNIMPLEMENTED, message)


def from_number(number: int, message: str) -> ServingError:
    """Returns the error of a canonical code number, which TensorFlow's `OpError.error_code` is too."""
    return ServingError(_CODES.get(number, grpc.StatusCode.UNKNOWN), message)
