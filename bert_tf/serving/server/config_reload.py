"""HandleReloadConfigRequest: a caller exchanges the models of a server, where that is offered; the log says who did."""

import dataclasses
import os
import threading
from collections.abc import Iterable, Sequence

import grpc
from absl import logging

from bert_tf.serving.errors import ServingError, invalid, unavailable
from bert_tf.serving.server import metrics
from bert_tf.serving.server.call import Call
from bert_tf.serving.server.model_config import ModelConfig, read_configs

_MOST = 4  # requests that load models at a time
_MOST_METRICS = 100  # that one asks for
_LONGEST = 2000  # characters of what a line of the log says of a config


@dataclasses.dataclass(frozen=True)
class ReloadRules:
    """What a caller may reload.

    Attributes:
        offered: whether anything.
        folders: under one of which each base path must lie.
        turns: of the requests that load models.
    """

    offered: bool = False
    folders: tuple[str, ...] = ()
    turns: threading.Semaphore = dataclasses.field(default_factory=lambda: threading.Semaphore(_MOST))

    @classmethod
    def of(cls, offered: bool, configs: Sequence[ModelConfig], more: Iterable[str] = ()) -> "ReloadRules":
        """Returns the rules of a server that starts with `configs`.

        A base path may lie in one of theirs, or where several of them are in one folder, in this folder, or in one of
        `more`.
        """
        paths = [os.path.realpath(config.base_path) for config in configs]
        above = {os.path.dirname(path) for path in paths}
        common = above - {"/"} if len(set(paths)) > 1 and len(above) == 1 else set()
        return cls(offered, tuple(dict.fromkeys([*paths, *common, *map(os.path.realpath, more)])))

    def check(self, configs: Iterable[ModelConfig]):
        """Raises ServingError where a base path lies elsewhere; links are followed first."""
        for config in configs:
            path = os.path.realpath(config.base_path)
            if not any(os.path.commonpath([path, folder]) == folder for folder in self.folders):
                raise _denied(
                    f"The base path of model {config.name} must lie under the base paths that the server was started "
                    "with. `model_config_reload_base_paths` allows others; it was given another"
                )


def reload(catalog, request, call: Call):
    """Answers a ReloadConfigRequest: the catalog has the models of its config, or those it had.

    Raises:
        ServingError: it is not offered, the config cannot be served, or the caller's deadline passes; nothing has
            changed.
    """
    from tensorflow_serving.apis import model_management_pb2

    rules = catalog.reload_rules
    if not rules.offered:
        logging.log_every_n_seconds(logging.WARNING, "Refused to reload the config for %s: not offered.", 10, call.peer)
        raise _denied(
            "HandleReloadConfigRequest is offered where the server is started with `model_config_file` or "
            "`enable_model_config_reload`. It was started without"
        )
    if request.config.WhichOneof("config") != "model_config_list":
        raise invalid(
            "ServerModelConfig type not supported by HandleReloadConfigRequest. Only ModelConfigList is currently "
            "supported"
        )
    if len(request.metric_names) > _MOST_METRICS:
        raise invalid(f"A request may name {_MOST_METRICS} metrics and names {len(request.metric_names)}")
    if not rules.turns.acquire(blocking=False):
        raise unavailable(f"The server takes {_MOST} new configs already; try again later")
    try:
        before = {name: metrics.count_of(name) for name in request.metric_names}
        _apply(catalog, request.config, call)
    finally:
        rules.turns.release()
    response = model_management_pb2.ReloadConfigResponse()
    for name, count in before.items():
        response.metric.add(name=name, int64_value_increase=metrics.count_of(name) - count)
    response.status.error_code = grpc.StatusCode.OK.value[0]
    return response


def _apply(catalog, config, call):
    try:
        configs = read_configs(config)
        logging.info("Reload of the config from %s: %s.", call.peer, _changes(catalog.base_paths(), configs)[:_LONGEST])
        catalog.reload_rules.check(configs)
        catalog.apply(configs, call=call)
    except ServingError as error:
        logging.warning("Reload of the config from %s changed nothing: %s", call.peer, error.message[:_LONGEST])
        raise
    logging.info("Reload of the config from %s was applied.", call.peer)


def _changes(before, configs):
    """Returns what a config changes, to go on a sentence; names are quoted, as they may hold anything."""
    after = {config.name: config.base_path for config in configs}
    added = [f"{name!r} from {path!r}" for name, path in after.items() if before.get(name) != path]
    removed = [repr(name) for name in before if name not in after]
    kept = [repr(name) for name, path in after.items() if before.get(name) == path]
    parts = {"loads": added, "removes": removed, "keeps": kept}
    return "; ".join(f"{verb} {', '.join(names)}" for verb, names in parts.items() if names) or "it lists no model"


def _denied(message):
    return ServingError(grpc.StatusCode.PERMISSION_DENIED, message)
