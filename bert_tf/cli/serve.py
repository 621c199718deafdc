"""Serves a model: a server in Python that speaks TensorFlow Serving's protocol, over gRPC and REST.

    bert-tf serve --model_base_path=EXPORT_DIR --model_name=NAME --port=8500 --rest_api_port=8501
    bert-tf serve --model_config_file=models.config --enable_batching

Serves the newest version under EXPORT_DIR, and each newer one as it appears there. A SavedModel is a program and runs
with your rights: look at a stranger's first, with `bert-tf verify MODEL --inspect`.
"""

import logging as standard_logging
import os
import sys
import time

from absl import logging

from bert_tf.cli import model_server
from bert_tf.cli.flags.model_server import MODEL_SERVER
from bert_tf.cli.flags.serving import BATCHING, LIMITS, MODELS, SERVE
from bert_tf.utils.signals import StopRequest

FLAGS = SERVE + LIMITS + MODELS + BATCHING + MODEL_SERVER


def main(settings):
    """Serves until SIGTERM, SIGHUP or Ctrl-C, and finishes the requests in progress."""
    if settings.version:
        print(model_server.version_lines())
        return
    with StopRequest() as request:
        server = start(settings)
        request.ready()
        logging.info(
            "Stopping (%s): no new requests are accepted, running ones have %g s. A later signal ends at once.",
            request.wait().name, settings.grace_seconds,
        )  # fmt: skip
        began = time.monotonic()
        if not server.stop():
            logging.warning("Stopped after %.1f s: %s.", time.monotonic() - began, server.unfinished())
            logging.flush()
            sys.stdout.flush()
            os._exit(0)  # the threads that still compute would hold up the exit


def start(settings):
    """Returns a running `server.Server` of what the flags ask for, and says where it listens.

    Raises:
        ValueError: they ask for what cannot be served.
    """
    model_server.check(settings)
    for kind, number in model_server.threads(settings).items():  # of all sessions; read when the first is made
        if number:
            os.environ[f"TF_NUM_{kind.upper()}OP_THREADS"] = str(number)
    from bert_tf.serving.addresses import join
    from bert_tf.serving.server.server import serve

    standard_logging.getLogger("tensorflow").setLevel(standard_logging.ERROR)  # else a few lines for each version
    base_path = None if settings.model_config_file else settings.model_base_path or None
    server = serve(base_path, settings.model_name, **_options(settings), **_models(settings))
    rest = f"{'https' if settings.ssl_config_file else 'http'}://{join(settings.host, server.rest_port)}"
    model = "" if settings.model_config_file else f"/{settings.model_name}"
    socket = f"unix:{settings.grpc_socket_path}"
    if server.port is not None and settings.grpc_socket_path:
        logging.info("gRPC on %s", socket)
    grpc = socket if server.port is None else join(settings.host, server.port)
    logging.info("gRPC on %s, REST on %s/v1/models%s", grpc, rest, model)
    if settings.ui:
        logging.info("A page to try the models on: %s/", rest)
    return server


def _options(settings):
    """Returns the fields of `Options` that flags set."""
    from bert_tf.serving.limits import Limits
    from bert_tf.serving.server import metrics
    from bert_tf.serving.server.channel_arguments import read_arguments
    from bert_tf.serving.server.tls import read_tls

    monitoring, ssl = settings.monitoring_config_file, settings.ssl_config_file
    return {
        "port": settings.port or (None if settings.grpc_socket_path else 0),
        "grpc_socket_path": settings.grpc_socket_path or None,
        "grpc_channel_arguments": read_arguments(settings.grpc_channel_arguments or ""),
        "enable_serialization_as_tensor_content": settings.enable_serialization_as_tensor_content,
        "rest_api_port": settings.rest_api_port,
        "host": settings.host,
        "allowed_hosts": settings.allowed_hosts,
        "ui": settings.ui,
        "poll_seconds": settings.file_system_poll_wait_seconds,
        "grace": settings.grace_seconds,
        "limits": Limits(**{flag.name: getattr(settings, flag.name) for flag in LIMITS}),
        "max_concurrent_runs": settings.max_concurrent_runs,
        "max_pending_tokens": settings.max_pending_tokens,
        "grpc_max_threads": settings.grpc_max_threads,
        "rest_api_num_threads": settings.rest_api_num_threads,
        "rest_api_timeout_ms": settings.rest_api_timeout_in_ms,
        "rest_api_enable_cors_support": settings.rest_api_enable_cors_support,
        "health": settings.enable_grpc_healthcheck_service,
        "reflection": settings.enable_grpc_reflection,
        "metrics_path": metrics.read_path(monitoring) if monitoring else None,
        "tls": read_tls(ssl) if ssl else None,
    }


def _models(settings):
    """Returns the fields of `Options` that say what is served, how it is run and in which batches.

    Raises:
        ValueError: a file cannot be read or used.
    """
    return {
        "model_config_file": settings.model_config_file or None,
        "model_config_poll_seconds": settings.model_config_file_poll_wait_seconds,
        "enable_model_config_reload": settings.where_given("enable_model_config_reload"),
        "model_config_reload_base_paths": tuple(settings.model_config_reload_base_paths or ()),
        "allow_version_labels_for_unavailable_models": settings.allow_version_labels_for_unavailable_models,
        "max_num_load_retries": settings.max_num_load_retries,
        "load_retry_interval_micros": settings.load_retry_interval_micros,
        "num_load_threads": settings.num_load_threads,
        "num_unload_threads": settings.num_unload_threads,
        **model_server.bundle_and_batching(settings),
    }
