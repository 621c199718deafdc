"""Two of TensorFlow Serving's configuration files in text format, which its Python package does not bring along.

Field names and numbers are those of `config/ssl_config.proto` and `config/monitoring_config.proto`.
"""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

_Field = descriptor_pb2.FieldDescriptorProto
_PACKAGE = "bert_tf.serving.config"
_TYPES = {"string": _Field.TYPE_STRING, "bool": _Field.TYPE_BOOL}
_MESSAGES = {
    "SSLConfig": (
        (1, "server_key", "string"),
        (2, "server_cert", "string"),
        (3, "custom_ca", "string"),
        (4, "client_verify", "bool"),
    ),
    "PrometheusConfig": ((1, "enable", "bool"), (2, "path", "string")),
    "MonitoringConfig": ((1, "prometheus_config", "PrometheusConfig"),),
}


def read(path: str, message: str, flag: str):
    """Returns the message in the text file `path`.

    Args:
        path: the file.
        message: "SSLConfig" or "MonitoringConfig".
        flag: which setting names the file, for errors.

    Raises:
        ValueError: the file cannot be read, or is no such message.
    """
    try:
        with open(path, encoding="utf-8") as file:
            return text_format.Parse(file.read(), _CLASSES[message]())
    except (OSError, UnicodeDecodeError, text_format.ParseError) as error:
        raise ValueError(
            f"`{flag}` must be a file with the text form of the message {message}. Received: {path}: {error}."
        ) from error


def _message_classes():
    file = descriptor_pb2.FileDescriptorProto(name="bert_tf/serving/config.proto", package=_PACKAGE, syntax="proto3")
    for message, rows in _MESSAGES.items():
        target = file.message_type.add(name=message)
        for number, name, kind in rows:
            field = target.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
            if kind in _TYPES:
                field.type = _TYPES[kind]
            else:
                field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = {name: pool.FindMessageTypeByName(f"{_PACKAGE}.{name}") for name in _MESSAGES}
    return {name: message_factory.GetMessageClass(descriptor) for name, descriptor in found.items()}


_CLASSES = _message_classes()
