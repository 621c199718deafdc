"""How a server listens and what it allows: the settings of `server.Server`."""

import dataclasses
from collections.abc import Mapping, Sequence

from bert_tf.serving.limits import Limits
from bert_tf.serving.server.batching_parameters import Batching
from bert_tf.serving.server.bundle import DEFAULT, Bundle
from bert_tf.serving.server.tls import Tls

HOST = "127.0.0.1"  # nobody else's machine may ask unless somebody wants that


@dataclasses.dataclass(frozen=True)
class Options:
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
    tls: Tls | None = None
    enable_serialization_as_tensor_content: bool = False
    model_config_file: str | None = None
    model_config_poll_seconds: float = 0.0
    enable_model_config_reload: bool | None = None
    model_config_reload_base_paths: tuple[str, ...] = ()
    allow_version_labels_for_unavailable_models: bool = False
    batching: Batching | None = None
    max_num_load_retries: int = 5
    load_retry_interval_micros: int = 60_000_000
    num_load_threads: int = 0
    num_unload_threads: int = 0
    bundle: Bundle = DEFAULT
