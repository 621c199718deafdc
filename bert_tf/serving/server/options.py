"""Settings of a server: network, limits, loading, execution and batching."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from bert_tf.serving.limits import Limits
from bert_tf.serving.server.batching_limits import BatchingLimits
from bert_tf.serving.server.server_tls import ServerTls
from bert_tf.serving.server.session_bundle import DEFAULT, Bundle

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
        routes: REST routes besides the models', as in `rest_api.answer`.
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
