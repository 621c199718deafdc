"""A model server in Python that speaks TensorFlow Serving's protocol, over gRPC and REST.

`serve` serves the newest version under a folder, and each newer one as it appears there.
"""

import functools
import os
import threading

from absl import logging

from bert_tf.serving.catalog import Catalog
from bert_tf.serving.grpc_service import make_server
from bert_tf.serving.http_server import RestServer
from bert_tf.serving.rest_api import answer
from bert_tf.serving.versions import ServedModel

HOST = "127.0.0.1"  # nobody else's machine may ask unless somebody wants that
_GRACE = 30.0  # seconds that a stop waits for requests


def serve(
    model_base_path: str,
    model_name: str = "default",
    port: int = 0,
    rest_api_port: int | None = 0,
    host: str = HOST,
    poll_seconds=1.0,
) -> "Server":
    """Loads the newest version under `model_base_path` and serves it until `stop` is called.

    Args:
        model_base_path: folder with a numbered folder for each version.
        model_name: its name in requests.
        port: for gRPC; 0 takes any free one.
        rest_api_port: for REST; 0 takes any free one, None has no REST.
        host: address to listen on; "0.0.0.0" for all of this machine's.
        poll_seconds: between two looks for new versions; 0 looks only now.

    Raises:
        ValueError: `model_base_path` is no directory, or a port cannot be had. A version that cannot be loaded is no
            error: it is logged, and the server waits for a better one.
    """
    if not os.path.isdir(model_base_path):
        raise ValueError(
            "`model_base_path` must be a directory with a numbered folder for each version. "
            f"Received: {model_base_path!r}."
        )
    catalog = Catalog([ServedModel(model_name, os.path.abspath(model_base_path))])
    return Server(catalog, host, port, rest_api_port, poll_seconds)


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
