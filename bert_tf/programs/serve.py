"""Serves a model: a server in Python that speaks TensorFlow Serving's protocol, over gRPC and REST.

    bert-tf serve --model_base_path=EXPORT_DIR --model_name=NAME --port=8500 --rest_api_port=8501

Serves the newest version under EXPORT_DIR, and each newer one as it appears there.
"""

import logging as standard_logging
import signal
import threading

from absl import logging

from bert_tf.flags.serving import SERVE

FLAGS = SERVE


def main(settings):
    """Serves until SIGTERM or Ctrl-C, and finishes the requests in progress."""
    from bert_tf.serving.server import serve

    standard_logging.getLogger("tensorflow").setLevel(standard_logging.ERROR)  # else a few lines for each version
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: stop.set())
    host = settings.host
    server = serve(
        settings.model_base_path,
        settings.model_name,
        port=settings.port,
        rest_api_port=settings.rest_api_port,
        host=host,
        poll_seconds=settings.file_system_poll_wait_seconds,
        ui=settings.ui,
    )
    rest = f"http://{host}:{server.rest_port}/v1/models/{settings.model_name}"
    logging.info("gRPC on %s:%d, REST on %s", host, server.port, rest)
    if settings.ui:
        logging.info("A page to try the models on: http://%s:%d/", host, server.rest_port)
    stop.wait()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)  # whoever cannot wait asks twice
    logging.info("Stopping: no new requests, those that run are finished.")
    server.stop()
