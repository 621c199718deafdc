"""Serve models over gRPC and REST with TensorFlow Serving's API.

    bert-tf serve --model_base_path=EXPORT_DIR --model_name=NAME \\
        --port=8500 --rest_api_port=8501
    bert-tf serve --model_config_file=models.config --enable_batching

A Python server. It serves the newest version under EXPORT_DIR, and each newer
one once it appears. A SavedModel is a program that runs with your permissions:
check a model from an untrusted source with `bert-tf verify MODEL --inspect`
first.
"""

import dataclasses
import logging as standard_logging
import os
import sys
import time
from typing import ClassVar

from absl import logging

import bert_tf
from bert_tf.inference.settings import SearchRouteSettings
from bert_tf.serving.server.settings import (
    SERVE,
    BundleSettings,
    GrpcSettings,
    HostSettings,
    IgnoredSettings,
    LoadSettings,
    ModelConfigSettings,
    RequestBatchingSettings,
    RequestLimitSettings,
    RestSettings,
    SessionSettings,
    VersionSettings,
)
from bert_tf.utils.extras import SERVER, require_packages
from bert_tf.utils.settings import NO_EFFECT, UserSettings, flags_of, option, options_of
from bert_tf.utils.signals import StopRequest


@dataclasses.dataclass(frozen=True)
class ServeSettings(
    HostSettings, GrpcSettings, RestSettings, LoadSettings, RequestLimitSettings,
    VersionSettings, ModelConfigSettings, BundleSettings, SessionSettings,
    RequestBatchingSettings, SearchRouteSettings, IgnoredSettings, UserSettings,
):
    """Models to serve, and where and how to serve them."""

    GROUP: ClassVar[str] = "Models to serve"

    model_base_path: str | None = option(
        None,
        "Directory of one model, with a numbered subdirectory for each version.",
        essential=True,
    )
    model_name: str = option("default", "Name of the model in requests.")
    saved_model_tags: str = option(SERVE, "Tags of the graph to load from a SavedModel, separated by commas.")
    grpc_channel_arguments: str | None = option(
        None,
        "Arguments of the gRPC server, key=value pairs separated by commas, such as grpc.max_connection_age_ms=2000.",
        group="Ports and protocols",
    )
    monitoring_config_file: str | None = option(
        None,
        "Text file with a MonitoringConfig, which enables a Prometheus page on the REST port and sets its path.",
        group="Ports and protocols", essential=True,
    )
    ssl_config_file: str | None = option(
        None,
        "Text file with an SSLConfig, which encrypts both ports.",
        group="Ports and protocols", essential=True,
    )
    use_alts_credentials: bool = option(
        False,
        "Google ALTS, which is not supported: the flag is rejected.",
        group="Ports and protocols",
    )
    version: bool = option(False, "Print the versions of bert_tf and TensorFlow, and exit.", group="What to do")


SETTINGS = ServeSettings
FLAGS = flags_of(SETTINGS)

# Flags that --platform_config_file replaces, as in tensorflow_model_server.
_IN_PLATFORM_CONFIG = (
    "enable_batching",
    "batching_parameters_file",
    "enable_per_model_batching_parameters",
    "enable_model_warmup",
    "mixed_precision",
    "num_request_iterations_for_warmup",
    "num_tflite_pools",
    "per_process_gpu_memory_fraction",
    "prefer_tflite_model",
    "saved_model_tags",
    "tensorflow_inter_op_parallelism",
    "tensorflow_intra_op_parallelism",
    "tensorflow_session_config_file",
    "tensorflow_session_parallelism",
)
_THREADS = ("intra", "inter")
_ONE_KIND = tuple(f"tensorflow_{kind}_op_parallelism" for kind in _THREADS)


def version_lines() -> str:
    """Returns what --version prints, in tensorflow_model_server's form."""
    import tensorflow as tf

    return f"TensorFlow ModelServer: bert_tf {bert_tf.__version__}\nTensorFlow Library: {tf.version.VERSION}"


def warn_without_effect(settings):
    """Logs which flags have no effect.

    Raises:
        ValueError: a flag is not supported, and ignoring it would change what the server does.
    """
    if settings.use_alts_credentials:
        raise ValueError(
            "`use_alts_credentials` is not supported, because this server does not implement ALTS. Encrypt "
            "connections with `ssl_config_file`."
        )
    if settings.thread_pool_factory_config_file:
        raise ValueError(
            f"`thread_pool_factory_config_file` is not supported; got {settings.thread_pool_factory_config_file}. Set "
            "the number of threads with `tensorflow_session_parallelism`."
        )
    for flag in flags_of(IgnoredSettings):
        if getattr(settings, flag.name) != flag.default:
            reason = flag.help.removeprefix(f"{NO_EFFECT}: ")
            logging.warning("--%s has no effect: %s", flag.name, reason)
    for name, needed in (
        ("enable_per_model_batching_parameters", "enable_batching"),
        ("model_config_file_poll_wait_seconds", "model_config_file"),
    ):
        if settings.where_given(name) and not getattr(settings, needed):
            logging.warning("--%s has no effect without --%s.", name, needed)
    if settings.where_given("max_batch_tokens") and not (settings.enable_batching or settings.platform_config_file):
        logging.warning("--max_batch_tokens has no effect without --enable_batching.")
    offered = settings.where_given("enable_model_config_reload")
    if settings.model_config_reload_base_paths and not (settings.model_config_file if offered is None else offered):
        logging.warning("--model_config_reload_base_paths has no effect: the config cannot be reloaded.")
    if settings.model_config_file and (given := _given(settings, ("model_base_path", "model_name"))):
        logging.warning("%s has no effect: --model_config_file lists the models.", given)
    if settings.platform_config_file and (given := _given(settings, _IN_PLATFORM_CONFIG)):
        logging.warning("%s has no effect: --platform_config_file replaces it.", given)
    elif settings.tensorflow_session_parallelism and (given := _given(settings, _ONE_KIND)):
        logging.warning("--tensorflow_session_parallelism has no effect: %s replaces it.", given)


def threads(settings) -> dict[str, int]:
    """Returns {"intra": n, "inter": n}: threads that compute an operation, and operations; 0 if not set.

    Raises:
        ValueError: they are set twice.
    """
    if settings.platform_config_file:
        return dict.fromkeys(_THREADS, 0)
    both = settings.tensorflow_session_parallelism
    each = {kind: getattr(settings, name) for kind, name in zip(_THREADS, _ONE_KIND, strict=True)}
    if both and all(each.values()):
        raise ValueError(
            "`tensorflow_session_parallelism` cannot be combined with both `tensorflow_intra_op_parallelism` and "
            f"`tensorflow_inter_op_parallelism`; got {both}, {each['intra']} and {each['inter']}. Remove it."
        )
    return each if any(each.values()) else dict.fromkeys(_THREADS, both)


def bundle_and_batching(settings) -> dict:
    """Returns {"bundle": how versions are loaded and run, "batching": in which batches, or None}.

    Raises:
        ValueError: a file cannot be read or used, or one of parameters is given for batches that nobody asked for.
    """
    from bert_tf.serving.server.session_bundle import read_platform

    if settings.platform_config_file:
        tokens = settings.max_batch_tokens
        bundle, batching = read_platform(settings.platform_config_file, max_batch_tokens=tokens)
    else:
        bundle, batching = _bundle(settings), _batching(settings)
    own = {"check_method_names": settings.check_method_names, "engine": settings.engine}
    return {"bundle": dataclasses.replace(bundle, **own), "batching": batching}


def _bundle(settings):
    from bert_tf.serving.server.session_bundle import Bundle, read_tags, session_config

    return options_of(
        Bundle, settings,
        tags=read_tags(settings.saved_model_tags),
        session_config=session_config(
            settings.tensorflow_session_config_file,
            threads(settings),
            settings.per_process_gpu_memory_fraction,
            settings.mixed_precision or "",
        ),
        num_request_iterations=max(1, settings.num_request_iterations),
    )  # fmt: skip


def _batching(settings):
    from bert_tf.serving.server.batching_limits import BatchingLimits, read_parameters

    file, tokens = settings.batching_parameters_file, settings.max_batch_tokens
    if not settings.enable_batching:
        if file:
            raise ValueError(
                f"`batching_parameters_file={file}` requires `enable_batching`. Add `enable_batching` or remove the "
                "file."
            )
        return None
    return read_parameters(file, max_batch_tokens=tokens) if file else BatchingLimits(max_batch_tokens=tokens)


def _given(settings, names):
    """Returns those of the flags that the user gave, "" for none; one that is empty asks for nothing."""
    return ", ".join(f"--{name}" for name in names if settings.where_given(name))


def main(settings: ServeSettings):
    """Serves until SIGTERM, SIGHUP or Ctrl-C, and finishes the requests in progress."""
    if settings.version:
        print(version_lines())
        return
    require_packages("`bert-tf serve`", *SERVER)
    with StopRequest() as request:
        server = start_server(settings)
        request.ready()
        logging.info(
            "Stopping (%s): no new requests are accepted; running ones have %g s to finish. Another signal stops at "
            "once.",
            request.wait().name, settings.grace,
        )  # fmt: skip
        began = time.monotonic()
        if not server.stop():
            logging.warning("Stopped after %.1f s: %s.", time.monotonic() - began, server.unfinished())
            logging.flush()
            sys.stdout.flush()
            os._exit(0)  # the threads that still compute would hold up the exit


def start_server(settings: ServeSettings):
    """Returns a running `server.Server` as the flags specify, and prints where it listens.

    Raises:
        ValueError: they ask for what cannot be served.
    """
    warn_without_effect(settings)
    from bert_tf.serving.server.protocols.vertex import read_environment

    vertex = read_environment()
    settings = with_vertex(settings, vertex)
    for kind, number in threads(settings).items():  # of all sessions; read when the first is made
        if number:
            os.environ[f"TF_NUM_{kind.upper()}OP_THREADS"] = str(number)
    from bert_tf.serving.addresses import join_address
    from bert_tf.serving.server.server import serve

    standard_logging.getLogger("tensorflow").setLevel(standard_logging.ERROR)  # else a few lines for each version
    base_path = None if settings.model_config_file else settings.model_base_path or None
    routes = _routes(settings)
    server = serve(base_path, settings.model_name, **vars(_options(settings, routes, vertex)))
    rest = f"{'https' if settings.ssl_config_file else 'http'}://{join_address(settings.host, server.rest_port)}"
    model = f"/{settings.model_name}" if base_path else ""
    socket = f"unix:{settings.grpc_socket_path}"
    if server.port is not None and settings.grpc_socket_path:
        logging.info("gRPC on %s", socket)
    grpc = socket if server.port is None else join_address(settings.host, server.port)
    logging.info("gRPC on %s, REST on %s/v1/models%s", grpc, rest, model)
    for path in routes:
        logging.info("Search: POST %s%s", rest, path)
    if settings.ui:
        logging.info("Page for trying the models: %s/", rest)
    return server


def with_vertex(settings, vertex):
    """Returns the settings with the port and the model of `VertexSettings`, which Vertex AI states in the environment.

    Raises:
        ValueError: they contradict the flags, or the model is not in a local directory.
    """
    from bert_tf.serving.server.protocols.vertex import PORT, STORAGE

    changes = {}
    if vertex.port is not None:
        if settings.where_given("rest_api_port") not in (None, vertex.port):
            raise ValueError(
                f"--rest_api_port must be the port that Vertex AI states in {PORT}, {vertex.port}; got "
                f"{settings.rest_api_port}. Remove the flag, or unset {PORT}."
            )
        changes["rest_api_port"] = vertex.port
    if vertex.storage_uri and (given := settings.model_base_path or settings.model_config_file):
        logging.info("%s=%s is not read, since the models are those of %s.", STORAGE, vertex.storage_uri, given)
    elif vertex.storage_uri:
        if "://" in vertex.storage_uri:
            raise ValueError(
                f"{STORAGE} must be a local directory; got {vertex.storage_uri}. Copy the model into the container and "
                "pass its directory as --model_base_path."
            )
        changes["model_base_path"] = vertex.storage_uri
    return dataclasses.replace(settings, **changes)


def _routes(settings):
    """Returns the REST routes besides the models'.

    Raises:
        ValueError: there is no index or model to search with, or flags of a search are given without an index.
    """
    if not settings.search_index:
        names = [flag.name for flag in flags_of(SearchRouteSettings) if flag.name != "search_index"]
        if given := _given(settings, names):
            raise ValueError(f"{given} requires --search_index, the index that is searched.")
        return {}
    if "search_rerank_weight" in settings.given and not settings.search_reranker:
        raise ValueError("--search_rerank_weight requires --search_reranker. Add it or remove --search_rerank_weight.")
    from bert_tf.inference.search_service import PATH, SearchService

    models = settings.search_model, settings.search_reader, settings.search_reranker
    more = settings.search_approximate, settings.search_rerank_weight
    return {PATH: SearchService(settings.search_index, *models, *more)}


def _options(settings, routes, vertex):
    """Returns the `ServerOptions` that the flags specify, with additional REST routes and Vertex AI's.

    Raises:
        ValueError: a file cannot be read or used.
    """
    from bert_tf.serving.limits import Limits
    from bert_tf.serving.server import metrics
    from bert_tf.serving.server.grpc_channel import read_arguments
    from bert_tf.serving.server.options import ServerOptions
    from bert_tf.serving.server.server_tls import read_tls
    from bert_tf.serving.server.web_page import PATHS

    monitoring, ssl = settings.monitoring_config_file, settings.ssl_config_file
    metrics_path = metrics.read_path(monitoring) if monitoring else None
    vertex.check_pages([*filter(None, [metrics_path]), *(PATHS if settings.ui else ())])
    return options_of(
        ServerOptions, settings,
        port=settings.port or (None if settings.grpc_socket_path else 0),
        grpc_socket_path=settings.grpc_socket_path or None,
        grpc_channel_arguments=read_arguments(settings.grpc_channel_arguments or ""),
        limits=options_of(Limits, settings),
        metrics_path=metrics_path,
        tls=read_tls(ssl) if ssl else None,
        routes=routes,
        protocols=[vertex.protocol()],
        model_config_file=settings.model_config_file or None,
        enable_model_config_reload=settings.where_given("enable_model_config_reload"),
        model_config_reload_base_paths=tuple(settings.model_config_reload_base_paths or ()),
        **bundle_and_batching(settings),
    )  # fmt: skip
