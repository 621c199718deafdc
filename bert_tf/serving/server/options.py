"""Settings of a server: network, limits, loading, execution and batching."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from bert_tf.serving.limits import Limits
from bert_tf.serving.server.batching_limits import BatchingLimits
from bert_tf.serving.server.protocols.adapter import Protocol
from bert_tf.serving.server.server_tls import ServerTls
from bert_tf.serving.server.session_bundle import DEFAULT, Bundle
from bert_tf.serving.server.settings import (
    GrpcSettings,
    HostSettings,
    LoadSettings,
    ModelConfigSettings,
    RestSettings,
    VersionSettings,
)


@dataclasses.dataclass(frozen=True)
class ServerOptions(
    HostSettings, GrpcSettings, RestSettings, LoadSettings, VersionSettings, ModelConfigSettings
):
    """Settings of a server, independent of its models.

    Attributes:
        port: gRPC port; 0 for any free one, None for only `grpc_socket_path`.
        rest_api_port: REST port; 0 for any free one, None for no REST.
        grpc_channel_arguments: {key: number or text} for gRPC's server, such as "grpc.max_connection_age_ms".
        enable_model_config_reload: whether callers may replace the models; if None, only if there is a
            `model_config_file`.
        limits: limits of a request.
        metrics_path: path of the Prometheus page on the REST port; None for no page.
        routes: REST routes besides the models', as in `rest_api.answer`.
        protocols: protocols of the REST port in addition to `rest_api_protocols`, such as Vertex AI's.
        tls: for gRPC and REST; None for no encryption.
        batching: batching of requests; if None, each is computed separately.
        bundle: how versions are loaded and run.
    """

    port: int | None = 0
    rest_api_port: int | None = 0
    enable_model_config_reload: bool | None = None
    model_config_reload_base_paths: Sequence[str] = ()
    grpc_channel_arguments: Mapping[str, int | str] = dataclasses.field(default_factory=dict)
    limits: Limits = Limits()
    metrics_path: str | None = None
    routes: Mapping[str, Callable] = dataclasses.field(default_factory=dict)
    protocols: Sequence[Protocol] = ()
    tls: ServerTls | None = None
    batching: BatchingLimits | None = None
    bundle: Bundle = DEFAULT
