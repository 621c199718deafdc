"""TensorFlow Serving's configuration files in text format, and the messages its Python package does not bring along.

Field names and numbers are those of `config/ssl_config.proto`, `config/monitoring_config.proto` and
`servables/tensorflow/session_bundle_config.proto`.
"""

from google.protobuf import text_format
from google.protobuf.message import Message

from bert_tf.serving.message_tables import message_classes
from bert_tf.serving.server.regular_files import check_regular

# message: rows of (number, name, type), where "*" marks what is repeated.
BATCHING = {
    "Int64": ((1, "value", "int64"),),
    "String": ((1, "value", "string"),),
    "Bool": ((1, "value", "bool"),),
    "BatchingParameters": (
        (1, "max_batch_size", "Int64"),
        (2, "batch_timeout_micros", "Int64"),
        (3, "max_enqueued_batches", "Int64"),
        (4, "num_batch_threads", "Int64"),
        (5, "thread_pool_name", "String"),
        (6, "allowed_batch_sizes", "*int64"),
        (7, "pad_variable_length_inputs", "bool"),
        (8, "enable_large_batch_splitting", "Bool"),
    ),
}
_MESSAGES = {
    "SSLConfig": (
        (1, "server_key", "string"),
        (2, "server_cert", "string"),
        (3, "custom_ca", "string"),
        (4, "client_verify", "bool"),
    ),
    "PrometheusConfig": ((1, "enable", "bool"), (2, "path", "string")),
    "MonitoringConfig": ((1, "prometheus_config", "PrometheusConfig"),),
    **BATCHING,
}
_CLASSES = message_classes("tensorflow.serving", _MESSAGES)


def read(path: str, message: str | type[Message], flag: str):
    """Returns the message in the text file `path`.

    Args:
        path: the file.
        message: "SSLConfig", "MonitoringConfig" or "BatchingParameters", or the class of another.
        flag: which setting names the file, for errors.

    Raises:
        ValueError: the file cannot be read, or is no such message.
    """
    kind = _CLASSES[message] if isinstance(message, str) else message
    try:
        return parse(path, kind)
    except (OSError, ValueError) as error:
        reason = str(error).removesuffix(".")
        raise ValueError(
            f"`{flag}` must be a file with the text form of the message {kind.DESCRIPTOR.name}. Received: {path}: "
            f"{reason}."
        ) from error


def parse(path: str, kind: type):
    """Returns the message of class `kind` that the text file `path` holds.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no stored file, or no such message; that in protocol buffers' own words, by which log watchers
            know a bad file.
    """
    check_regular(path)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        return text_format.Parse(text, kind(), descriptor_pool=kind.DESCRIPTOR.file.pool)
    except text_format.ParseError as error:
        raise ValueError(f"Error parsing text-format {kind.DESCRIPTOR.full_name}: {error}") from error
