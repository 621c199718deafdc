"""Settings of a server: network, limits, loading, execution and batching."""

import dataclasses
import os
import ssl
import tempfile
from collections.abc import Callable, Mapping, Sequence

import grpc
from absl import logging
from google.protobuf import any_pb2, text_format, wrappers_pb2
from google.protobuf.message import Message
from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2

from bert_tf.serving.limits import Limits
from bert_tf.serving.server.version_folders import check_regular
from bert_tf.utils.protobuf_classes import message_classes

# === Text configs ===
# TensorFlow Serving's configuration files in text format, and messages that are missing from its Python package.
#
# Field names and numbers are those of `config/ssl_config.proto`, `config/monitoring_config.proto` and
# `servables/tensorflow/session_bundle_config.proto`, `servables/tensorflow/saved_model_bundle_source_adapter.proto` and
# `config/platform_config.proto`.


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


# === Batching parameters ===
# Limits of batches and of their queue, and TensorFlow Serving's file for them.


_OURS = ("max_batch_size", "batch_timeout_micros", "max_enqueued_batches", "num_batch_threads", "thread_pool_name")


@dataclasses.dataclass(frozen=True)
class BatchingLimits:
    """Limits of batches.

    Attributes:
        max_batch_size: rows per batch.
        max_batch_tokens: approximate tokens per batch, with padding: rows times the longest.
        batch_timeout_micros: how long a row may wait for others while a thread is free.
        max_enqueued_batches: number of full batches that may wait; beyond that, requests are rejected.
        num_batch_threads: number of concurrent batches.
        thread_pool_name: name of the threads in debuggers.
    """

    max_batch_size: int = 64
    max_batch_tokens: int = 512
    batch_timeout_micros: int = 0
    max_enqueued_batches: int = 2
    num_batch_threads: int = 2
    thread_pool_name: str = "batch"

    def __post_init__(self):
        least = dict.fromkeys(("max_batch_size", "max_batch_tokens", "max_enqueued_batches", "num_batch_threads"), 1)
        for name, size in (least | {"batch_timeout_micros": 0}).items():
            if getattr(self, name) < size:
                raise ValueError(
                    f"`{name}` must be at least {size}. Got {getattr(self, name)}."
                )

    @property
    def max_rows(self) -> int:
        """The number of rows that may wait."""
        return self.max_batch_size * self.max_enqueued_batches


def read_parameters(path: str, **defaults) -> BatchingLimits:
    """Reads the text file `path`, a BatchingParameters of TensorFlow Serving.

    Args:
        path: path of the file.
        defaults: attributes of `BatchingLimits` that such a file cannot set.

    Raises:
        ValueError: it cannot be read, or has settings that would give wrong results.
    """
    flag = "batching_parameters_file"
    return read_batching(read_message(path, "BatchingParameters", flag), path, flag, **defaults)


def read_batching(message, path: str, flag: str, **defaults) -> BatchingLimits:
    """Returns the limits of a BatchingParameters from the file `path`, named by the setting `flag`.

    Raises:
        ValueError: it has settings that would give wrong results, or empty batches.
    """
    if message.pad_variable_length_inputs:
        raise ValueError(
            f"`{flag}` must not pad inputs: the padding would be the first id, with a mask of 1. "
            f"Remove pad_variable_length_inputs from {path}; rows of one length are batched together anyway."
        )
    if message.allowed_batch_sizes:
        logging.warning("%s: allowed_batch_sizes have no effect; a batch is as large as its texts.", path)
    if message.HasField("enable_large_batch_splitting") and not message.enable_large_batch_splitting.value:
        logging.warning("%s: large requests are always split; enable_large_batch_splitting has no effect.", path)
    given = {name: getattr(message, name).value for name in _OURS if message.HasField(name)}
    try:
        return BatchingLimits(**(defaults | given))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


# === Bundle ===


SERVE = "serve"
_PLATFORM = "tensorflow"
_BFLOAT16 = "bfloat16"

# Only supported fields: a file with another field is rejected with the field's name.
_BUNDLE_MESSAGES = {
    "PlatformConfig": ((1, "source_adapter_config", "google.protobuf.Any"),),
    "PlatformEntry": ((1, "key", "string"), (2, "value", "PlatformConfig")),
    "PlatformConfigMap": ((1, "platform_configs", "*PlatformEntry"),),
    "SavedModelBundleSourceAdapterConfig": ((1000, "legacy_config", "SessionBundleConfig"),),
    "ModelWarmupOptions": ((1, "num_request_iterations", "google.protobuf.Int32Value"),),
    **BATCHING,
    "SessionBundleConfig": (
        (2, "session_config", "tensorflow.ConfigProto"),
        (3, "batching_parameters", "BatchingParameters"),
        (6, "saved_model_tags", "*string"),
        (779, "enable_model_warmup", "bool"),
        (780, "model_warmup_options", "ModelWarmupOptions"),
        (782, "remove_unused_fields_from_bundle_metagraph", "bool"),
        (783, "prefer_tflite_model", "bool"),
        (787, "num_tflite_pools", "int32"),
        (789, "enable_per_model_batching_params", "bool"),
        (791, "mixed_precision", "string"),
    ),
}
_BUNDLE_CLASSES = message_classes(
    "tensorflow.serving", _BUNDLE_MESSAGES, (any_pb2.DESCRIPTOR, wrappers_pb2.DESCRIPTOR, config_pb2.DESCRIPTOR)
)


@dataclasses.dataclass(frozen=True)
class Bundle:
    """Settings for loading and running the versions of all models.

    Attributes:
        tags: tags of the meta graph to load; all must match.
        session_config: a ConfigProto, serialized.
        enable_model_warmup: whether a version's graphs are prepared, and its warm-up requests run, before it serves.
        num_request_iterations: how often each warm-up request is run.
        enable_per_model_batching_parameters: whether batching of a version depends on a file in its own directory, and
            a version without such a file is not batched.
        prefer_tflite_model: whether a version with a model.tflite is served from it, with LiteRT.
        num_tflite_pools: number of interpreters of such a model, each of which processes one request at a time; 0: one.
        check_method_names: whether a signature can only be called with its own method.
    """

    tags: frozenset[str] = frozenset({SERVE})
    session_config: bytes = b""
    enable_model_warmup: bool = True
    num_request_iterations: int = 1
    enable_per_model_batching_parameters: bool = False
    prefer_tflite_model: bool = False
    num_tflite_pools: int = 0
    check_method_names: bool = False


DEFAULT = Bundle()
MOST_TFLITE_POOLS = 64


def read_tags(text: str) -> frozenset[str]:
    """Splits a comma-separated list of tags.

    Raises:
        ValueError: one of them is empty.
    """
    tags = text.split(",")
    if not all(tags):
        raise ValueError(
            f"`saved_model_tags` must be comma-separated tags; got {text!r}. Exports have the tag {SERVE}."
        )
    return frozenset(tags)


def session_config(
    file: str | None = None, threads: dict[str, int] | None = None, gpu_fraction: float = 0.0, mixed_precision: str = ""
) -> bytes:
    """Returns the ConfigProto of all sessions, serialized.

    Args:
        file: with a ConfigProto in text format, to which the other settings are added; None: an empty one.
        threads: {"intra": n, "inter": n} number of threads within and across operations; 0: as in `file`.
        gpu_fraction: share of a GPU's memory to use; 0: as in `file`.
        mixed_precision: "bfloat16", or "" for the setting in `file`.

    Raises:
        ValueError: `file` cannot be read, or there is no such precision.
    """
    flag = "tensorflow_session_config_file"
    config = read_message(file, config_pb2.ConfigProto, flag) if file else config_pb2.ConfigProto()
    for kind, number in (threads or {}).items():
        if number:
            setattr(config, f"{kind}_op_parallelism_threads", number)
    if gpu_fraction:
        config.gpu_options.per_process_gpu_memory_fraction = gpu_fraction
    _mix(config, mixed_precision)
    return config.SerializeToString(deterministic=True)


def read_platform(path: str, **defaults) -> tuple[Bundle, BatchingLimits | None]:
    """Reads the settings for TensorFlow models from the text file `path`, a PlatformConfigMap.

    Args:
        path: path of the file.
        defaults: attributes of `BatchingLimits` that such a file cannot set.

    Raises:
        ValueError: it cannot be read, has no settings for TensorFlow models, or has unsupported ones.
    """
    flag = "platform_config_file"
    entries = read_message(path, _BUNDLE_CLASSES["PlatformConfigMap"], flag).platform_configs
    adapter = _BUNDLE_CLASSES["SavedModelBundleSourceAdapterConfig"]()
    names = [entry.key for entry in entries]
    if names != [_PLATFORM] or not entries[0].value.source_adapter_config.Unpack(adapter):
        raise ValueError(
            f'`{flag}` must have one entry, with the key "{_PLATFORM}" and a {adapter.DESCRIPTOR.full_name}. '
            f"{path} has {', '.join(map(repr, names)) or 'none'}."
        )
    config = adapter.legacy_config
    session = config_pb2.ConfigProto.FromString(config.session_config.SerializeToString())
    _mix(session, config.mixed_precision)
    bundle = Bundle(
        tags=frozenset(config.saved_model_tags or [SERVE]),
        session_config=session.SerializeToString(deterministic=True),
        enable_model_warmup=config.enable_model_warmup,
        num_request_iterations=max(1, config.model_warmup_options.num_request_iterations.value),
        enable_per_model_batching_parameters=config.enable_per_model_batching_params,
        prefer_tflite_model=config.prefer_tflite_model,
        num_tflite_pools=config.num_tflite_pools,
    )
    if not 0 <= bundle.num_tflite_pools <= MOST_TFLITE_POOLS:
        raise ValueError(
            f"`num_tflite_pools` must be between 0 and {MOST_TFLITE_POOLS}. Got {bundle.num_tflite_pools} in "
            f"{path}."
        )
    if not config.HasField("batching_parameters"):
        return bundle, None
    return bundle, read_batching(config.batching_parameters, path, flag, **defaults)


def _mix(config, mixed_precision):
    """Enables matrix products in bfloat16 where TensorFlow considers it safe."""
    if mixed_precision not in ("", _BFLOAT16):
        raise ValueError(f"`mixed_precision` must be {_BFLOAT16} or empty. Got {mixed_precision!r}.")
    if mixed_precision:
        logging.info("Matrix products are computed in bfloat16 if the CPU supports it.")
        on = rewriter_config_pb2.RewriterConfig.ON
        config.graph_options.rewrite_options.auto_mixed_precision_onednn_bfloat16 = on


# === TLS ===
# Encryption of gRPC and REST, from the file of TensorFlow Serving's `--ssl_config_file`.


_FLAG = "ssl_config_file"


@dataclasses.dataclass(frozen=True)
class ServerTls:
    """TLS settings: the server's identity, and whether clients must authenticate.

    Attributes:
        key: its private key, PEM.
        certificate: its chain of certificates, PEM.
        authorities: certificates of the authorities for clients, PEM.
        verify: whether clients must present a certificate signed by one of them.
    """

    key: str = dataclasses.field(repr=False)
    certificate: str
    authorities: str = ""
    verify: bool = False

    def grpc_credentials(self) -> grpc.ServerCredentials:
        """Returns the server credentials for gRPC."""
        pair = (self.key.encode(), self.certificate.encode())
        return grpc.ssl_server_credentials([pair], self.authorities.encode() or None, self.verify)

    def context(self) -> ssl.SSLContext:
        """Returns the SSL context for REST.

        Raises:
            ValueError: the key does not belong to the certificate, or one of them is damaged.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            with tempfile.TemporaryDirectory() as folder:  # Python's TLS only reads keys from files; keep them private
                file = os.path.join(folder, "pair.pem")
                with open(os.open(file, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w", encoding="ascii") as pair:
                    pair.write(f"{self.key.strip()}\n{self.certificate.strip()}\n")
                context.load_cert_chain(file)
            if self.verify:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(cadata=self.authorities)
        except (OSError, UnicodeEncodeError, ValueError) as error:  # ssl.SSLError is an OSError
            raise ValueError(
                f"`{_FLAG}` must have a private key in PEM and its certificates: {error}."
            ) from error
        return context


def read_tls(path: str) -> ServerTls:
    """Reads the SSLConfig in the text file `path`.

    Raises:
        ValueError: it cannot be read, lacks the key or the certificate, or they do not match.
    """
    config = read_message(path, "SSLConfig", _FLAG)
    missing = [name for name in ("server_key", "server_cert") if not getattr(config, name)]
    if missing:
        raise ValueError(
            f"`{_FLAG}` must have a server_key and a server_cert, both in PEM. {path} lacks "
            f"{' and '.join(missing)}."
        )
    if config.client_verify and not config.custom_ca:
        raise ValueError(f"`{_FLAG}` must have a custom_ca if client_verify is true; {path} has none.")
    tls = ServerTls(config.server_key, config.server_cert, config.custom_ca, config.client_verify)
    tls.context()  # gRPC would accept a mismatched pair, and then reject every client
    return tls


# === Options ===


HOST = "127.0.0.1"  # other machines are not served by default


@dataclasses.dataclass(frozen=True)
class ServerOptions:
    """Settings of a server, independent of its models.

    Attributes:
        port: gRPC port; 0: any free one, None: only `grpc_socket_path`.
        grpc_socket_path: Unix socket for gRPC; None: no socket.
        grpc_channel_arguments: {key: number or text} for gRPC's server, such as "grpc.max_connection_age_ms".
        rest_api_port: REST port; 0: any free one, None: no REST.
        host: address to listen on; "0.0.0.0" for all of this machine's, "::" includes IPv6.
        allowed_hosts: names accepted by REST, in addition to "localhost", `host` and any IP address; "*" is any name.
            Without any, if `host` is all addresses, any name is accepted.
        ui: whether the REST port has a web page for trying the models.
        poll_seconds: between two checks for new versions; 0: check only once.
        grace: seconds that a stop waits for requests.
        limits: limits of a request.
        grpc_max_threads: concurrent gRPC requests; further ones are rejected.
        rest_api_num_threads: the same for REST.
        max_concurrent_runs: concurrent graph runs of all requests; the others wait. 0: two per core.
        max_pending_tokens: tokens of all running and waiting requests; further requests are rejected.
        rest_api_timeout_ms: timeout of REST requests.
        rest_api_enable_cors_support: whether browser pages of other origins may send requests.
        health: whether gRPC's health service is offered.
        reflection: whether gRPC's reflection service is offered.
        enable_profiler: whether callers may profile the server over gRPC.
        metrics_path: path of the Prometheus page on the REST port; None: no page.
        routes: REST routes besides the models', as in `http_server.answer`.
        tls: for gRPC and REST; None: no encryption.
        enable_serialization_as_tensor_content: whether Predict's tensors are sent as raw bytes.
        model_config_file: lists the models; None: only the model passed to `serve`.
        model_config_poll_seconds: between two checks of that file; 0: check only once.
        enable_model_config_reload: whether callers may replace the models; None: if there is a `model_config_file`.
        model_config_reload_base_paths: directories for their base paths, in addition to the initial ones.
        allow_version_labels_for_unavailable_models: whether a new label may point to a version that is not loaded.
        batching: batching of requests; None: each is computed separately.
        max_num_load_retries: number of retries for a version that cannot be loaded.
        load_retry_interval_micros: wait before each retry.
        keep_previous_version: whether the version before the newest stays loaded, so that a rollback takes no time.
        num_load_threads: models that are loaded in parallel; 0 and 1: one at a time.
        num_unload_threads: threads that free versions; 0: a version's last request frees it.
        bundle: how versions are loaded and run.
    """

    port: int | None = 0
    grpc_socket_path: str | None = None
    grpc_channel_arguments: Mapping[str, int | str] = dataclasses.field(default_factory=dict)
    rest_api_port: int | None = 0
    host: str = HOST
    allowed_hosts: Sequence[str] = ()
    ui: bool = False
    poll_seconds: float = 1.0
    grace: float = 30.0
    limits: Limits = Limits()
    grpc_max_threads: int = 256
    rest_api_num_threads: int = 128
    max_concurrent_runs: int = 0
    max_pending_tokens: int = 2**20
    rest_api_timeout_ms: int = 30_000
    rest_api_enable_cors_support: bool = False
    health: bool = False
    reflection: bool = False
    enable_profiler: bool = False
    metrics_path: str | None = None
    routes: Mapping[str, Callable] = dataclasses.field(default_factory=dict)
    tls: ServerTls | None = None
    enable_serialization_as_tensor_content: bool = False
    model_config_file: str | None = None
    model_config_poll_seconds: float = 0.0
    enable_model_config_reload: bool | None = None
    model_config_reload_base_paths: tuple[str, ...] = ()
    allow_version_labels_for_unavailable_models: bool = False
    batching: BatchingLimits | None = None
    max_num_load_retries: int = 5
    load_retry_interval_micros: int = 60_000_000
    keep_previous_version: bool = False
    num_load_threads: int = 0
    num_unload_threads: int = 0
    bundle: Bundle = DEFAULT
