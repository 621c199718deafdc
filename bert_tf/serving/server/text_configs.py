"""TensorFlow Serving's configuration files in text format, and messages that are missing from its Python package.

Field names and numbers are those of `config/ssl_config.proto`, `config/monitoring_config.proto` and
`servables/tensorflow/session_bundle_config.proto`, `servables/tensorflow/saved_model_bundle_source_adapter.proto` and
`config/platform_config.proto`.
"""

from google.protobuf import text_format
from google.protobuf.message import Message

from bert_tf.serving.server.regular_files import check_regular
from bert_tf.utils.protobuf_classes import message_classes

# message: rows of (number, name, type); "*" marks repeated fields.
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


def read_message(path: str, message: str | type[Message], flag: str):
    """Parses the text-format message in the file `path`.

    Args:
        path: the file.
        message: "SSLConfig", "MonitoringConfig" or "BatchingParameters", or the class of another.
        flag: the setting that names the file, for errors.

    Raises:
        ValueError: the file cannot be read, or is not such a message.
    """
    kind = _CLASSES[message] if isinstance(message, str) else message
    try:
        return parse_message(path, kind)
    except (OSError, ValueError) as error:
        reason = str(error).removesuffix(".")
        raise ValueError(
            f"`{flag}` must be a file with the message {kind.DESCRIPTOR.name} in text format. Cannot use {path}: "
            f"{reason}."
        ) from error


def parse_message(path: str, kind: type):
    """Parses the text file `path` as a message of class `kind`.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not a regular file, or not such a message, with protocol buffers' own error text, by which log
            monitors recognize a bad file.
    """
    check_regular(path)
    with open(path, encoding="utf-8-sig") as file:
        text = file.read()
    try:
        return text_format.Parse(text, kind(), descriptor_pool=kind.DESCRIPTOR.file.pool)
    except text_format.ParseError as error:
        raise ValueError(f"Error parsing text-format {kind.DESCRIPTOR.full_name}: {error}") from error
