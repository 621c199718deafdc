"""A model server in Python that speaks TensorFlow Serving's protocol, over gRPC and REST.

`serve` serves the newest version under a folder, and each newer one as it appears there.
"""

import functools
import os
import threading

from absl import logging

from bert_tf.serving import page
from bert_tf.serving.call import Call
from bert_tf.serving.catalog import Catalog
from bert_tf.serving.grpc_service import make_server
from bert_tf.serving.http_server import RestServer
from bert_tf.serving.options import Options
from bert_tf.serving.rest_api import answer
from bert_tf.serving.versions import ServedModel


def serve(model_base_path: str, model_name: str = "default", **options) -> "Server":
    """Loads the newest version under `model_base_path` and serves it until `stop` is called.

    Args:
        model_base_path: folder with a numbered folder for each version.
        model_name: its name in requests.
        options: fields of `Options`.

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
    return Server(catalog, Options(**options))


class Server:
    """A running server; a context manager that stops at its end.

    Attributes:
        port: of gRPC.
        rest_port: of REST, None without.
    """

    def __init__(self, catalog: Catalog, options: Options):
        self._catalog, self._options = catalog, options
        self._stopping = threading.Event()
        workers = 4 * (os.cpu_count() or 1)
        self._grpc, self.port = make_server(catalog, f"{options.host}:{options.port}", workers, options.limits)
        self._rest = None
        if options.rest_api_port is not None:
            call = Call(limits=options.limits, entrypoint="REST")
            reply = functools.partial(page.answer, catalog) if options.ui else None
            asked = functools.partial(answer, catalog, call=call)
            self._rest = RestServer(options.host, options.rest_api_port, asked, reply)
        self.rest_port = self._rest and self._rest.server_port
        catalog.poll()  # before anybody can ask
        self._grpc.start()
        if self._rest:
            self._rest.start()
        self._poller = threading.Thread(target=self._poll, name="poll", daemon=True)
        self._poller.start()

    def stop(self, grace: float | None = None):
        """Takes no new requests, finishes those that run, for up to `grace` seconds, and frees the models."""
        grace = self._options.grace if grace is None else grace
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

    def _poll(self):
        seconds = self._options.poll_seconds
        while seconds and not self._stopping.wait(seconds):
            try:
                self._catalog.poll()
            except Exception:  # a disk that comes and goes must not end the polling
                logging.exception("Looking for new versions failed; it goes on in %g s.", seconds)
