"""How a server listens and what it allows: the settings of `server.Server`."""

import dataclasses
import os
import ssl
import tempfile
from collections.abc import Mapping, Sequence

import grpc

from bert_tf.serving.limits import Limits
from bert_tf.serving.server import bundle
from bert_tf.serving.server.bundle import DEFAULT, BatchingLimits, Bundle

# === Tls ===
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
    config = bundle.read_message(path, "SSLConfig", _FLAG)
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
