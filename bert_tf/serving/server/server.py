"""A model server in Python with TensorFlow Serving's API over gRPC and REST.

`serve` serves the newest version in a directory, and newer ones as they appear, or the models of a config.
"""

import contextlib
import functools
import importlib
import json
import os
import threading
import time
from collections.abc import Sequence
from concurrent import futures
from typing import Any

from absl import logging

from bert_tf.serving.errors import ServingError
from bert_tf.serving.server import metrics
from bert_tf.serving.server.config_reload import ReloadRules
from bert_tf.serving.server.grpc_service import GrpcServer
from bert_tf.serving.server.http_server import RestServer, StaticPage
from bert_tf.serving.server.model_batching import ModelBatching
from bert_tf.serving.server.model_config import ConfigFile, ModelConfig, read_model_config
from bert_tf.serving.server.model_registry import ModelRegistry
from bert_tf.serving.server.model_status import is_ready, ready
from bert_tf.serving.server.options import ServerOptions
from bert_tf.serving.server.protocols.enabled import EnabledProtocols
from bert_tf.serving.server.rest_api import answer, count_rejection
from bert_tf.serving.server.scheduling import Scheduler
from bert_tf.serving.server.version_folders import explain_no_versions, find_versions
from bert_tf.serving.server.versions import Loading
from bert_tf.serving.server.web_page import pages


def serve(model_base_path: str | None = None, model_name: str = "default", **options: Any) -> "Server":
    """Loads models and serves them over gRPC and REST until `stop` is called.

    Args:
        model_base_path: directory with one numbered directory per version of a model, of which the newest is served. If
            None, the option `model_config_file` lists the models, or there are only `routes`.
        model_name: name of the model in requests.
        options: fields of `ServerOptions`.

    Raises:
        ValueError: `model_base_path` is not a directory of versions, the name is empty, the
            config cannot be served, or a port cannot be bound. An empty directory and a version that cannot be loaded
            are not errors: they are logged, and the server waits for a new version.
    """
    options = ServerOptions(**options)
    if model_base_path is None and options.model_config_file is None and options.routes:
        return Server([], options)
    if (model_base_path is None) == (options.model_config_file is None):
        raise ValueError(
            "Pass either `model_base_path` or `model_config_file` to select the models; "
            f"got {model_base_path!r} and {options.model_config_file!r}."
        )
    if options.model_config_file is not None:
        configs = read_model_config(options.model_config_file)
        if configs is None:
            logging.warning("%s sets nothing: no model is served.", options.model_config_file)
        return Server(configs or [], options)
    if not model_name:
        raise ValueError("`model_name` must not be empty: requests use this name. Omit it for the name default.")
    return Server([ModelConfig(model_name, _checked_base_path(model_base_path))], options)


def _checked_base_path(path):
    """Returns the absolute path of a directory of versions."""
    if not os.path.isdir(path):
        raise ValueError(
            f"`model_base_path` must be a directory with one numbered directory per version; got {path!r}."
        )
    what = "" if find_versions(path) else explain_no_versions(path)
    if what:
        raise ValueError(
            f"`model_base_path` must be a model's directory, which contains its numbered versions; got {path}, {what}."
        )
    return os.path.abspath(path)


class Server(contextlib.AbstractContextManager):
    """A running server; a context manager that stops it at the end.

    Attributes:
        port: gRPC port, None with only a Unix socket.
        rest_port: REST port, or None.
    """

    def __init__(self, configs: Sequence[ModelConfig], options: ServerOptions):
        self._options = options
        if options.bundle.engine != "litert":  # with TensorFlow: here, and not in a thread, which signals do not end
            importlib.import_module("bert_tf.serving.server.saved_model")
        own = options.bundle.enable_per_model_batching_parameters
        self._batching = ModelBatching(options.batching, own) if options.batching else None
        loads, unloads = options.num_load_threads, options.num_unload_threads
        self._load_pool = futures.ThreadPoolExecutor(loads, "load") if loads else None
        loading = Loading(
            options.bundle,
            Scheduler(options.max_concurrent_runs, options.max_pending_tokens, 4 * options.limits.max_output_elements),
            self._batching.batcher_of if self._batching else None,
            self._load_pool,
            threading.Semaphore(unloads) if unloads else None,
            options.max_num_load_retries,
            options.load_retry_interval_micros,
            options.keep_previous_version,
        )
        offered = options.enable_model_config_reload
        offered = options.model_config_file is not None if offered is None else offered
        rules = ReloadRules.of(offered, configs, options.model_config_reload_base_paths)
        registry = ModelRegistry((), loading, options.allow_version_labels_for_unavailable_models, rules)
        self._registry = registry
        self._stopping = threading.Event()
        self._grpc = GrpcServer(registry, options)
        self._rest = None
        if options.rest_api_port is not None:
            protocols = EnabledProtocols(options.rest_api_protocols, options.protocols)
            answer_request = functools.partial(answer, registry, routes=options.routes, protocols=protocols)
            count = functools.partial(count_rejection, registry)
            self._rest = RestServer(answer_request, self._pages(protocols), options, count, protocols.write_error)
        self.port, self.rest_port = self._grpc.port, self._rest and self._rest.port
        self._load(configs)  # before requests are accepted
        self._grpc.start()
        if self._rest:
            self._rest.start()
        work = (options.poll_seconds, registry.poll, "Checking for new versions")
        self._pollers = [threading.Thread(target=self._repeat, args=work, name="poll", daemon=True)]
        if options.model_config_file and options.model_config_poll_seconds:
            retry_seconds = options.load_retry_interval_micros / 1e6
            file = ConfigFile(registry, options.model_config_file, configs, retry_seconds)
            work = (options.model_config_poll_seconds, file.poll, "Checking for a new config")
            self._pollers.append(threading.Thread(target=self._repeat, args=work, name="config", daemon=True))
        for poller in self._pollers:
            poller.start()

    def stop(self, grace: float | None = None) -> bool:
        """Stops accepting requests, finishes running ones for up to `grace` seconds, and frees the models.

        Returns:
            Whether all running requests have ended; the others are computed to the end, but their results are dropped.
        """
        end = time.monotonic() + (self._options.grace if grace is None else grace)
        self._stopping.set()
        ended = self._grpc.stop(_seconds_until(end))
        if self._rest:
            self._rest.stop(_seconds_until(end))
        ended.wait()
        for poller in self._pollers:
            poller.join(_seconds_until(end))
        if self._is_loading():
            return False
        self._registry.close()
        self._close_threads()
        return not self._running()

    def unfinished(self) -> str:
        """Describes what a stop has left unfinished; "" if nothing."""
        running, found = self._running(), []
        if running:
            found.append("1 request was cut off" if running == 1 else f"{running} requests were cut off")
        if self._is_loading():
            found.append("models were still being loaded")
        return " and ".join(found)

    def __exit__(self, *error):
        self.stop()

    def _running(self):
        """The number of requests in progress."""
        return self._grpc.running + (self._rest.running if self._rest else 0)

    def _is_loading(self):
        """Whether a poll is loading something, which cannot be interrupted."""
        return any(poller.is_alive() for poller in self._pollers)

    def _pages(self, protocols):
        live, ready = ["/healthz", *protocols.live_paths()], ["/readyz", *protocols.ready_paths()]
        found = {path: lambda: StaticPage(200, b"ok") for path in live} | dict.fromkeys(ready, self._readiness)
        if self._options.metrics_path:
            found[self._options.metrics_path] = lambda: StaticPage(200, metrics.prometheus_text(), metrics.CONTENT_TYPE)
        if self._options.ui:
            found |= pages(self._registry)
        return found

    def _readiness(self):
        models = ready(self._registry)
        is_all = is_ready(models) or bool(self._options.routes and not models)
        takes_requests = is_all and not self._stopping.is_set()
        text = json.dumps({"ready": takes_requests, "models": models}).encode()
        if not takes_requests:
            metrics.observe_request("", "readyz", "REST", "UNAVAILABLE", 0)
        return StaticPage(200 if takes_requests else 503, text, "application/json")

    def _load(self, configs):
        try:
            self._registry.apply(configs, must_load=False)
        except ServingError as error:
            self._grpc.stop(0)
            self._close_threads()
            raise ValueError(
                "`model_config_file` must only assign labels to versions that can be loaded, unless "
                f"`allow_version_labels_for_unavailable_models` is set: {error.message}."
            ) from error

    def _close_threads(self):
        if self._load_pool:
            self._load_pool.shutdown(wait=False, cancel_futures=True)  # a caller's config may still be loaded
        if self._batching:
            self._batching.close()

    def _repeat(self, seconds, poll, what):
        reported = ""
        while seconds and not self._stopping.wait(seconds):
            try:
                poll()
                reported = ""
            except Exception as error:  # an unreliable disk must not end the polling
                if repr(error) != reported:  # once, not at each check
                    logging.exception("%s failed; trying again every %g s.", what, seconds)
                reported = repr(error)


def _seconds_until(end):
    return max(0.0, end - time.monotonic())
