"""A model server in Python that speaks TensorFlow Serving's protocol, over gRPC and REST.

    python -m bert_tf serve --model_base_path=EXPORT_DIR --model_name=NAME --port=8500 --rest_api_port=8501

Serves the newest version under EXPORT_DIR, and each newer one as it appears there. As a library: `serve`.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow greets with a screenful otherwise

import functools
import logging as standard_logging
import signal
import sys
import threading

from absl import app, flags, logging

from bert_tf.serving.catalog import Catalog
from bert_tf.serving.grpc_service import make_server
from bert_tf.serving.http_server import RestServer
from bert_tf.serving.rest_api import answer
from bert_tf.serving.versions import ServedModel

FLAGS = flags.FLAGS
HOST = "127.0.0.1"  # nobody else's machine may ask unless somebody wants that
_GRACE = 30.0  # seconds that a stop waits for requests


def serve(
    base_path: str, name: str = "default", port: int = 0, rest_port: int | None = 0, host: str = HOST, poll_seconds=1.0
) -> "Server":
    """Loads the newest version under `base_path` and serves it until `stop` is called.

    Args:
        base_path: folder with a numbered folder for each version.
        name: of the model, in requests.
        port: for gRPC; 0 takes any free one.
        rest_port: for REST; 0 takes any free one, None has no REST.
        host: address to listen on; "0.0.0.0" for all of this machine's.
        poll_seconds: between two looks for new versions; 0 looks only now.

    Raises:
        ValueError: `base_path` is no directory, or a port cannot be had. A version that cannot be loaded is no error:
            it is logged, and the server waits for a better one.
    """
    if not os.path.isdir(base_path):
        raise ValueError(
            f"`model_base_path` must be a directory with a numbered folder for each version. Received: {base_path!r}."
        )
    return Server(Catalog([ServedModel(name, os.path.abspath(base_path))]), host, port, rest_port, poll_seconds)


class Server:
    """A running server; a context manager that stops at its end.

    Attributes:
        port: of gRPC.
        rest_port: of REST, None without.
    """

    def __init__(self, catalog: Catalog, host: str, port: int, rest_port: int | None, poll_seconds: float):
        self._catalog = catalog
        self._stopping = threading.Event()
        workers = 4 * (os.cpu_count() or 1)
        self._grpc, self.port = make_server(catalog, f"{host}:{port}", workers)
        self._rest = None if rest_port is None else RestServer(host, rest_port, functools.partial(answer, catalog))
        self.rest_port = self._rest and self._rest.server_port
        catalog.poll()  # before anybody can ask
        self._grpc.start()
        if self._rest:
            self._rest.start()
        self._poller = threading.Thread(target=self._poll, args=(poll_seconds,), name="poll", daemon=True)
        self._poller.start()

    def stop(self, grace: float = _GRACE):
        """Takes no new requests, finishes those that run (for up to `grace` seconds) and frees the models."""
        self._stopping.set()
        ended = self._grpc.stop(grace)
        if self._rest:
            self._rest.stop(grace)
        ended.wait()
        self._poller.join()  # a version that is being loaded
        self._catalog.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stop()

    def _poll(self, seconds):
        while seconds and not self._stopping.wait(seconds):
            try:
                self._catalog.poll()
            except Exception:  # a disk that comes and goes must not end the polling
                logging.exception("Looking for new versions failed; it goes on in %g s.", seconds)


def define_flags():
    """The flags that TensorFlow Serving has too, and --host."""
    flags.DEFINE_string("model_base_path", None, "Folder with a numbered folder for each version.", required=True)
    flags.DEFINE_string("model_name", "default", "Name of the model in requests.")
    flags.DEFINE_integer("port", 8500, "For gRPC; 0 takes any free one and says which.", 0, 65535)
    flags.DEFINE_integer("rest_api_port", 8501, "For REST; 0 takes any free one and says which.", 0, 65535)
    flags.DEFINE_string("host", HOST, "Address to listen on: this machine only, unless you say 0.0.0.0 (there is no "
                        "password).")  # fmt: skip
    flags.DEFINE_float("file_system_poll_wait_seconds", 1.0, "Between two looks for new versions; 0 looks once.", 0)


def main(argv):
    if argv[1:]:
        raise app.UsageError(f"Everything must be given as `flag=value`. Received: {' '.join(argv[1:])}")
    _set_up_logging()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: stop.set())
    try:
        server = serve(FLAGS.model_base_path, FLAGS.model_name, FLAGS.port, FLAGS.rest_api_port, FLAGS.host,
                       FLAGS.file_system_poll_wait_seconds)  # fmt: skip
    except ValueError as error:
        logging.error("Error: %s", error)
        sys.exit(1)
    logging.info("gRPC on %s:%d, REST on http://%s:%d/v1/models/%s", FLAGS.host, server.port, FLAGS.host,
                 server.rest_port, FLAGS.model_name)  # fmt: skip
    stop.wait()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)  # whoever cannot wait asks twice
    logging.info("Stopping: no new requests, those that run are finished.")
    server.stop()


def _set_up_logging():
    logging.set_verbosity(logging.INFO)
    logging.use_absl_handler()
    logging.get_absl_handler().setFormatter(standard_logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    standard_logging.getLogger("tensorflow").setLevel(standard_logging.ERROR)  # else a few lines for each version


if __name__ == "__main__":
    define_flags()
    app.run(main)
