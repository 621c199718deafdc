"""Serves a model: a server in Python that speaks TensorFlow Serving's protocol, over gRPC and REST.

    bert-tf serve --model_base_path=EXPORT_DIR --model_name=NAME --port=8500 --rest_api_port=8501
    bert-tf serve --model_config_file=models.config --enable_batching

Serves the newest version under EXPORT_DIR, and each newer one as it appears there.
"""

import logging as standard_logging
import os
import signal
import sys
import threading

from absl import logging

from bert_tf.flags.serving import BATCHING, LIMITS, MODELS, SERVE

FLAGS = SERVE + LIMITS + MODELS + BATCHING


def main(settings):
    """Serves until SIGTERM or Ctrl-C, and finishes the requests in progress."""
    for kind in ("intra", "inter"):  # of all sessions of a process; read when the first is made
        if threads := getattr(settings, f"tensorflow_{kind}_op_parallelism"):
            os.environ[f"TF_NUM_{kind.upper()}OP_THREADS"] = str(threads)
    from bert_tf.serving.server import serve

    standard_logging.getLogger("tensorflow").setLevel(standard_logging.ERROR)  # else a few lines for each version
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: stop.set())
    host = settings.host
    server = serve(settings.model_base_path, settings.model_name, **_options(settings), **_models(settings))
    rest = f"{'https' if settings.ssl_config_file else 'http'}://{host}:{server.rest_port}"
    model = "" if settings.model_config_file else f"/{settings.model_name}"
    logging.info("gRPC on %s:%d, REST on %s/v1/models%s", host, server.port, rest, model)
    if settings.ui:
        logging.info("A page to try the models on: %s/", rest)
    stop.wait()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)  # whoever cannot wait asks twice
    logging.info("Stopping: accepting no new requests, and waiting for running ones.")
    if not server.stop():
        logging.warning("Stopped after %g s with work unfinished.", settings.grace_seconds)
        logging.flush()
        sys.stdout.flush()
        os._exit(0)  # the threads that still compute would hold up the exit


def _options(settings):
    """Returns the fields of `Options` that flags set."""
    from bert_tf.serving import metrics
    from bert_tf.serving.limits import Limits
    from bert_tf.serving.tls import read_tls

    monitoring, ssl = settings.monitoring_config_file, settings.ssl_config_file
    return {
        "port": settings.port,
        "rest_api_port": settings.rest_api_port,
        "host": settings.host,
        "ui": settings.ui,
        "poll_seconds": settings.file_system_poll_wait_seconds,
        "grace": settings.grace_seconds,
        "limits": Limits(**{flag.name: getattr(settings, flag.name) for flag in LIMITS}),
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
    """Returns the fields of `Options` that say what is served and in which batches.

    Raises:
        ValueError: a file of parameters is given for batches that nobody asked for, or cannot be used.
    """
    from bert_tf.serving.batching_parameters import Batching, read_parameters

    file, batching = settings.batching_parameters_file, None
    if file and not settings.enable_batching:
        raise ValueError(
            "`batching_parameters_file` must come with `enable_batching`. Received: "
            f"{file} without it; give both or neither."
        )
    if settings.enable_batching:
        tokens = settings.max_batch_tokens
        batching = read_parameters(file, max_batch_tokens=tokens) if file else Batching(max_batch_tokens=tokens)
    return {
        "model_config_file": settings.model_config_file,
        "model_config_poll_seconds": settings.model_config_file_poll_wait_seconds,
        "allow_version_labels_for_unavailable_models": settings.allow_version_labels_for_unavailable_models,
        "max_num_load_retries": settings.max_num_load_retries,
        "load_retry_interval_micros": settings.load_retry_interval_micros,
        "batching": batching,
    }
