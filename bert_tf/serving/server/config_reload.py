"""Config reloads: a caller replaces the models of a server by HandleReloadConfigRequest, if this is enabled.

The log records the caller.
"""

import dataclasses
import os
import threading
from collections.abc import Iterable, Sequence

import grpc
from absl import logging

from bert_tf.serving.errors import ServingError, denied, invalid, unavailable
from bert_tf.serving.server import metrics
from bert_tf.serving.server.model_config import ModelConfig, read_configs
from bert_tf.serving.server.request_context import RequestContext
from bert_tf.serving.server.tensorflow_messages import model_management_pb2

_MOST = 4  # requests that load models at a time
_MOST_METRICS = 100  # per request
_LONGEST = 2000  # characters about a config in a log line


@dataclasses.dataclass(frozen=True)
class ReloadRules:
    """Rules for reloading the config by request.

    Attributes:
        offered: whether reloading is enabled.
        folders: directories that must contain each base path.
        turns: of the requests that load models.
    """

    offered: bool = False
    folders: tuple[str, ...] = ()
    turns: threading.Semaphore = dataclasses.field(default_factory=lambda: threading.Semaphore(_MOST))

    @classmethod
    def of(cls, offered: bool, configs: Sequence[ModelConfig], more: Iterable[str] = ()) -> "ReloadRules":
        """Returns the rules of a server that starts with `configs`.

        A base path may be in one of theirs, in a directory that contains several of them, or in one of
        `more`.
        """
        paths = [os.path.realpath(config.base_path) for config in configs]
        above = {os.path.dirname(path) for path in paths}
        common = above - {"/"} if len(set(paths)) > 1 and len(above) == 1 else set()
        return cls(offered, tuple(dict.fromkeys([*paths, *common, *map(os.path.realpath, more)])))

    def check(self, configs: Iterable[ModelConfig]):
        """Raises ServingError if a base path is elsewhere; links are followed first."""
        for config in configs:
            path = os.path.realpath(config.base_path)
            if not any(os.path.commonpath([path, folder]) == folder for folder in self.folders):
                raise denied(
                    f"The base path of model {config.name} must be under the base paths that the server was started "
                    "with, or under `model_config_reload_base_paths`"
                )


def reload(registry, request, call: RequestContext):
    """Answers a ReloadConfigRequest: afterwards the registry has the models of its config, or is unchanged.

    Raises:
        ServingError: it is not enabled, the config cannot be served, or the caller's deadline passes; nothing has
            changed.
    """
    rules = registry.reload_rules
    if not rules.offered:
        logging.log_every_n_seconds(logging.WARNING, "Rejected a config reload from %s: not enabled.", 10, call.peer)
        raise denied(
            "HandleReloadConfigRequest is disabled: it requires a server started with `model_config_file` or "
            "`enable_model_config_reload`"
        )
    if request.config.WhichOneof("config") != "model_config_list":
        raise invalid(
            "ServerModelConfig type not supported by HandleReloadConfigRequest. Only ModelConfigList is currently "
            "supported"
        )
    if len(request.metric_names) > _MOST_METRICS:
        raise invalid(f"A request may name at most {_MOST_METRICS} metrics and names {len(request.metric_names)}")
    if not rules.turns.acquire(blocking=False):
        raise unavailable(f"The server is already processing {_MOST} new configs; try again later")
    try:
        before = {name: metrics.count_of(name) for name in request.metric_names}
        _apply(registry, request.config, call)
    finally:
        rules.turns.release()
    response = model_management_pb2.ReloadConfigResponse()
    for name, count in before.items():
        response.metric.add(name=name, int64_value_increase=metrics.count_of(name) - count)
    response.status.error_code = grpc.StatusCode.OK.value[0]
    return response


def _apply(registry, config, call):
    try:
        configs = read_configs(config)
        changes = _changes(registry.base_paths(), configs)[:_LONGEST]
        logging.info("Reload of the config from %s: %s.", call.peer, changes)
        registry.reload_rules.check(configs)
        registry.apply(configs, call=call)
    except ServingError as error:
        logging.warning("Reload of the config from %s changed nothing: %s", call.peer, error.message[:_LONGEST])
        raise
    logging.info("Applied the config reload from %s.", call.peer)


def _changes(before, configs):
    """Describes the changes of a config for a log line; names are quoted, because they may contain anything."""
    after = {config.name: config.base_path for config in configs}
    added = [f"{name!r} from {path!r}" for name, path in after.items() if before.get(name) != path]
    removed = [repr(name) for name in before if name not in after]
    kept = [repr(name) for name, path in after.items() if before.get(name) == path]
    parts = {"loads": added, "removes": removed, "keeps": kept}
    return "; ".join(f"{verb} {', '.join(names)}" for verb, names in parts.items() if names) or "it lists no model"
