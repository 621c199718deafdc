"""Settings of a server: how it listens, what it allows, how versions are loaded, run and batched."""

import dataclasses
import os
import ssl
import tempfile
from collections.abc import Mapping, Sequence

import grpc
from absl import logging
from google.protobuf import any_pb2, text_format, wrappers_pb2
from google.protobuf.message import Message
from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2

from bert_tf.serving.limits import Limits
from bert_tf.serving.server.version_folders import check_regular
from bert_tf.utils.protobuf_classes import message_classes

# === Text configs ===
# TensorFlow Serving's configuration files in text format, and the messages its Python package does not bring along.
#
# Field names and numbers are those of `config/ssl_config.proto`, `config/monitoring_config.proto` and
# `servables/tensorflow/session_bundle_config.proto`, `servables/tensorflow/saved_model_bundle_source_adapter.proto` and
# `config/platform_config.proto`.


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


def read_message(path: str, message: str | type[Message], flag: str):
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
        return parse_message(path, kind)
    except (OSError, ValueError) as error:
        reason = str(error).removesuffix(".")
        raise ValueError(
            f"`{flag}` must be a file with the text form of the message {kind.DESCRIPTOR.name}. Received: {path}: "
            f"{reason}."
        ) from error


def parse_message(path: str, kind: type):
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


# === Batching parameters ===
# Bounds of batches and of their queue, and TensorFlow Serving's file of them.


_OURS = ("max_batch_size", "batch_timeout_micros", "max_enqueued_batches", "num_batch_threads", "thread_pool_name")


@dataclasses.dataclass(frozen=True)
class BatchingLimits:
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
                    f"`{name}` must be at least {size}. Received: {getattr(self, name)}; choose a larger one."
                )

    @property
    def max_rows(self) -> int:
        """Rows that may wait."""
        return self.max_batch_size * self.max_enqueued_batches


def read_parameters(path: str, **defaults) -> BatchingLimits:
    """Returns what the text file `path`, a BatchingParameters of TensorFlow Serving's, says.

    Args:
        path: of the file.
        defaults: attributes of `BatchingLimits` that such a file cannot have.

    Raises:
        ValueError: it cannot be read, or asks for what would give wrong answers.
    """
    flag = "batching_parameters_file"
    return read_batching(read_message(path, "BatchingParameters", flag), path, flag, **defaults)


def read_batching(message, path: str, flag: str, **defaults) -> BatchingLimits:
    """Returns what a BatchingParameters says that stands in the file `path`, which the setting `flag` names.

    Raises:
        ValueError: it asks for what would give wrong answers, or for batches of no size.
    """
    if message.pad_variable_length_inputs:
        raise ValueError(
            f"`{flag}` must not pad inputs: the padding would be the first id, with a mask of 1. "
            f"Received: pad_variable_length_inputs in {path}; remove it, rows of one length are put together anyway."
        )
    if message.allowed_batch_sizes:
        logging.warning("%s: allowed_batch_sizes have no effect here; a batch is as large as its texts.", path)
    if message.HasField("enable_large_batch_splitting") and not message.enable_large_batch_splitting.value:
        logging.warning("%s: large requests are cut, whatever enable_large_batch_splitting says.", path)
    given = {name: getattr(message, name).value for name in _OURS if message.HasField(name)}
    try:
        return BatchingLimits(**(defaults | given))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


# === Bundle ===


SERVE = "serve"
_PLATFORM = "tensorflow"
_BFLOAT16 = "bfloat16"

# Only what is followed: a file with another field is refused, by the field's name.
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
        tags: of the meta graph that is loaded, all of them.
        session_config: a ConfigProto, serialized.
        enable_model_warmup: whether a version's graphs are prepared, and its warm-up requests run, before it serves.
        num_request_iterations: how often each of these requests is run.
        enable_per_model_batching_parameters: whether a version is batched as a file in its own folder says, and one
            without such a file not at all.
        prefer_tflite_model: whether a version that has a model.tflite is served by that, with LiteRT.
        num_tflite_pools: interpreters of such a model, each of which computes a request at a time; 0: one.
        check_method_names: whether a signature can only be asked for by the method that it was made for.
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
    """Returns the tags in a text with commas between them.

    Raises:
        ValueError: one of them is empty.
    """
    tags = text.split(",")
    if not all(tags):
        raise ValueError(
            f"`saved_model_tags` must be tags with commas between. Received {text!r}; exports have the tag {SERVE}."
        )
    return frozenset(tags)


def session_config(
    file: str | None = None, threads: dict[str, int] | None = None, gpu_fraction: float = 0.0, mixed_precision: str = ""
) -> bytes:
    """Returns the ConfigProto of all sessions, serialized.

    Args:
        file: with a ConfigProto in text form, to which the others are added; None: an empty one.
        threads: {"intra": n, "inter": n} threads that compute an operation and operations; 0 leaves what `file` says.
        gpu_fraction: of a GPU's memory that is taken; 0 leaves what `file` says.
        mixed_precision: "bfloat16", or "" for what `file` says.

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
    """Returns what the text file `path`, a PlatformConfigMap, says of TensorFlow's models.

    Args:
        path: of the file.
        defaults: attributes of `BatchingLimits` that such a file cannot have.

    Raises:
        ValueError: it cannot be read, says nothing of TensorFlow's models, or asks for what is not followed here.
    """
    flag = "platform_config_file"
    entries = read_message(path, _BUNDLE_CLASSES["PlatformConfigMap"], flag).platform_configs
    adapter = _BUNDLE_CLASSES["SavedModelBundleSourceAdapterConfig"]()
    names = [entry.key for entry in entries]
    if names != [_PLATFORM] or not entries[0].value.source_adapter_config.Unpack(adapter):
        raise ValueError(
            f'`{flag}` must have one entry, with the key "{_PLATFORM}" and a {adapter.DESCRIPTOR.full_name}. '
            f"Received: {path} with {', '.join(map(repr, names)) or 'none'}."
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
            f"`num_tflite_pools` must be between 0 and {MOST_TFLITE_POOLS}. Received {bundle.num_tflite_pools} in "
            f"{path}; correct it."
        )
    if not config.HasField("batching_parameters"):
        return bundle, None
    return bundle, read_batching(config.batching_parameters, path, flag, **defaults)


def _mix(config, mixed_precision):
    """Has products of matrices computed in bfloat16 where TensorFlow deems it safe."""
    if mixed_precision not in ("", _BFLOAT16):
        raise ValueError(f"`mixed_precision` must be {_BFLOAT16} or empty. Received {mixed_precision!r}; correct it.")
    if mixed_precision:
        logging.info("Matrix products are computed in bfloat16 if the CPU supports it.")
        on = rewriter_config_pb2.RewriterConfig.ON
        config.graph_options.rewrite_options.auto_mixed_precision_onednn_bfloat16 = on


# === TLS ===
# Encryption of both faces, from the file that TensorFlow Serving's `--ssl_config_file` names.


_FLAG = "ssl_config_file"


@dataclasses.dataclass(frozen=True)
class ServerTls:
    """Who the server is, and whether callers must say who they are.

    Attributes:
        key: its private key, PEM.
        certificate: its chain of certificates, PEM.
        authorities: certificates of those who vouch for callers, PEM.
        verify: whether a caller must show a certificate that one of them has signed.
    """

    key: str = dataclasses.field(repr=False)
    certificate: str
    authorities: str = ""
    verify: bool = False

    def grpc_credentials(self) -> grpc.ServerCredentials:
        """Returns what gRPC's port takes."""
        pair = (self.key.encode(), self.certificate.encode())
        return grpc.ssl_server_credentials([pair], self.authorities.encode() or None, self.verify)

    def context(self) -> ssl.SSLContext:
        """Returns what REST's port takes.

        Raises:
            ValueError: the key does not belong to the certificate, or one of them is damaged.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            with tempfile.TemporaryDirectory() as folder:  # Python's TLS reads keys from files alone; nobody else may
                file = os.path.join(folder, "pair.pem")
                with open(os.open(file, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w", encoding="ascii") as pair:
                    pair.write(f"{self.key.strip()}\n{self.certificate.strip()}\n")
                context.load_cert_chain(file)
            if self.verify:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(cadata=self.authorities)
        except (OSError, UnicodeEncodeError, ValueError) as error:  # ssl.SSLError is an OSError
            raise ValueError(
                f"`{_FLAG}` must hold a private key in PEM and the certificates that belong to it. Received: {error}."
            ) from error
        return context


def read_tls(path: str) -> ServerTls:
    """Returns what the SSLConfig in the text file `path` says.

    Raises:
        ValueError: it cannot be read, lacks the key or the certificate, or they do not fit.
    """
    config = read_message(path, "SSLConfig", _FLAG)
    missing = [name for name in ("server_key", "server_cert") if not getattr(config, name)]
    if missing:
        raise ValueError(
            f"`{_FLAG}` must have a server_key and a server_cert, both in PEM. Received: {path} without "
            f"{' and '.join(missing)}."
        )
    if config.client_verify and not config.custom_ca:
        raise ValueError(f"`{_FLAG}` must have a custom_ca where client_verify is true. Received: {path} without one.")
    tls = ServerTls(config.server_key, config.server_cert, config.custom_ca, config.client_verify)
    tls.context()  # gRPC would take a wrong pair, and refuse every caller
    return tls


# === Options ===


HOST = "127.0.0.1"  # nobody else's machine may ask unless somebody wants that


@dataclasses.dataclass(frozen=True)
class ServerOptions:
    """Settings of a server, whatever it serves.

    Attributes:
        port: for gRPC; 0 takes any free one, None has none, but only `grpc_socket_path`.
        grpc_socket_path: Unix socket for gRPC; None: there is none.
        grpc_channel_arguments: {key: number or text} for gRPC's server, such as "grpc.max_connection_age_ms".
        rest_api_port: for REST; 0 takes any free one, None has no REST.
        host: address to listen on; "0.0.0.0" for all of this machine's, "::" for those of IPv6 too.
        allowed_hosts: names that REST may be asked by, besides "localhost", `host` and any address; "*" is any name.
            Where there are none and `host` is all addresses, any name will do.
        ui: whether REST's port has a page to try the models on.
        poll_seconds: between two looks for new versions; 0 looks only once.
        grace: seconds that a stop waits for requests.
        limits: what one request may cost.
        grpc_max_threads: gRPC requests that are answered at once; one more is refused.
        rest_api_num_threads: the same of REST.
        max_concurrent_runs: graphs that are run at once, by all requests; the others wait. 0: two for each core.
        max_pending_tokens: tokens of all requests that are computed or wait; one more is refused.
        rest_api_timeout_ms: in which a REST request is answered.
        rest_api_enable_cors_support: whether pages from elsewhere may ask, in a browser.
        health: whether gRPC's health service is offered.
        reflection: whether gRPC tells its services and their messages.
        metrics_path: where Prometheus finds its page on the REST port; None: nowhere.
        tls: of both faces; None: no encryption.
        enable_serialization_as_tensor_content: whether Predict's tensors are sent as raw bytes.
        model_config_file: lists the models; None: there is the one that `serve` was given.
        model_config_poll_seconds: between two looks at that file; 0 looks only once.
        enable_model_config_reload: whether callers may exchange the models; None: where there is a `model_config_file`.
        model_config_reload_base_paths: folders under which their base paths may lie, besides those of the start.
        allow_version_labels_for_unavailable_models: whether a new label may point to a version that is not loaded.
        batching: how requests are put together; None: each is computed for itself.
        max_num_load_retries: how often a version that cannot be loaded is tried again.
        load_retry_interval_micros: how long after it has failed.
        num_load_threads: models that are loaded at a time; 0 and 1: one after the other.
        num_unload_threads: threads that free versions; 0: the last request of a version does it.
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
    metrics_path: str | None = None
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
    num_load_threads: int = 0
    num_unload_threads: int = 0
    bundle: Bundle = DEFAULT
