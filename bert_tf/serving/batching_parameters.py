"""What bounds batches and their queue, and the file of TensorFlow Serving's that says so."""

import dataclasses

from absl import logging
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format, wrappers_pb2

_Field = descriptor_pb2.FieldDescriptorProto
_INT64, _STRING, _BOOL = ".google.protobuf.Int64Value", ".google.protobuf.StringValue", ".google.protobuf.BoolValue"

# Fields of BatchingParameters in tensorflow_serving/servables/tensorflow/session_bundle_config.proto, which the Python
# package does not have. A wrapper's name: a message with a `value`.
_FIELDS = {
    "max_batch_size": _INT64,
    "batch_timeout_micros": _INT64,
    "max_enqueued_batches": _INT64,
    "num_batch_threads": _INT64,
    "thread_pool_name": _STRING,
    "allowed_batch_sizes": _Field.TYPE_INT64,
    "pad_variable_length_inputs": _Field.TYPE_BOOL,
    "enable_large_batch_splitting": _BOOL,
}
_OURS = ("max_batch_size", "batch_timeout_micros", "max_enqueued_batches", "num_batch_threads", "thread_pool_name")


@dataclasses.dataclass(frozen=True)
class Batching:
    """Bounds of batches.

    Attributes:
        max_batch_size: rows of a batch.
        max_batch_tokens: tokens of a batch with its padding, about: rows times the longest of them.
        batch_timeout_micros: how long a row may wait for others while a thread is free.
        max_enqueued_batches: how many full batches may wait; beyond, a request is refused.
        num_batch_threads: batches that are computed at a time.
        thread_pool_name: of the threads, as debuggers show it.
    """

    max_batch_size: int = 64
    max_batch_tokens: int = 1024
    batch_timeout_micros: int = 0
    max_enqueued_batches: int = 8
    num_batch_threads: int = 2
    thread_pool_name: str = "batch"

    def __post_init__(self):
        for name in ("max_batch_size", "max_batch_tokens", "max_enqueued_batches", "num_batch_threads"):
            _require(name, getattr(self, name), 1)
        _require("batch_timeout_micros", self.batch_timeout_micros, 0)

    @property
    def max_rows(self) -> int:
        """Rows that may wait."""
        return self.max_batch_size * self.max_enqueued_batches


def read_parameters(path: str, **defaults) -> Batching:
    """Returns what the text file `path`, a BatchingParameters of TensorFlow Serving's, says.

    Args:
        path: of the file.
        defaults: attributes of `Batching` that such a file cannot have.

    Raises:
        ValueError: it cannot be read, or asks for what would give wrong answers.
    """
    message = _read(path)
    if message.pad_variable_length_inputs:
        raise ValueError(
            f"`batching_parameters_file` must not pad inputs: the padding would be the first id, with a mask of 1. "
            f"Received: pad_variable_length_inputs in {path}; remove it, rows of one length are put together anyway."
        )
    if message.allowed_batch_sizes:
        logging.warning("%s: allowed_batch_sizes have no effect here; a batch is as large as its texts.", path)
    if message.HasField("enable_large_batch_splitting") and not message.enable_large_batch_splitting.value:
        logging.warning("%s: large requests are cut, whatever enable_large_batch_splitting says.", path)
    given = {name: getattr(message, name).value for name in _OURS if message.HasField(name)}
    try:
        return Batching(**(defaults | given))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _require(name, value, least):
    if value < least:
        raise ValueError(f"`{name}` must be at least {least}. Received: {value}; choose a larger one.")


def _read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return text_format.Parse(file.read(), _message_class()())
    except (OSError, UnicodeDecodeError, text_format.ParseError) as error:
        raise ValueError(
            "`batching_parameters_file` must be a BatchingParameters as protocol buffers' text. "
            f"Received: {path}: {error}; a line is like max_batch_size {{ value: 32 }}."
        ) from error


def _message_class():
    file = descriptor_pb2.FileDescriptorProto(name="bert_tf/serving/batching.proto", package="bert_tf", syntax="proto3")
    wrappers = wrappers_pb2.DESCRIPTOR
    file.dependency.append(wrappers.name)
    message = file.message_type.add(name="BatchingParameters")
    for number, (name, kind) in enumerate(_FIELDS.items(), 1):
        repeated = name == "allowed_batch_sizes"
        field = message.field.add(name=name, number=number)
        field.label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
        if isinstance(kind, str):
            field.type, field.type_name = _Field.TYPE_MESSAGE, kind
        else:
            field.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("bert_tf.BatchingParameters"))
