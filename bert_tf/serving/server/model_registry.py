"""Registry of a server's models: versions for a request's ModelSpec, config reloads, status and metadata."""

import contextlib
import dataclasses
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent import futures

import grpc
from absl import logging
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, model_management_pb2

from bert_tf.serving.errors import (
    ServingError,
    denied,
    failed_precondition,
    invalid,
    not_found,
    unavailable,
    without_folders,
)
from bert_tf.serving.server import metrics
from bert_tf.serving.server.call import INTERNAL, Call
from bert_tf.serving.server.model_config import ModelConfig, read_configs
from bert_tf.serving.server.versions import EACH_ALONE, Loading, ServedModel, State, Version

# === Config reload ===
# HandleReloadConfigRequest: a caller replaces the models of a server, if this is enabled; the log records the caller.


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


def reload(registry, request, call: Call):
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


# === Registry ===


@dataclasses.dataclass(frozen=True, eq=False)
class RegistryState:
    """An immutable snapshot of the served models and labels.

    Attributes:
        models: by name.
        labels: {name of a model: {label: version}}.
    """

    models: dict[str, ServedModel]
    labels: dict[str, dict[str, int]]

    def find(self, spec) -> tuple[ServedModel, int | None]:
        """Returns (model, version or None for the newest) of a ModelSpec.

        Raises:
            ServingError: there is no such model or label.
        """
        if not spec.name:
            raise invalid("ModelSpec has no name specified.")
        number = spec.version.value if spec.HasField("version") else None
        if spec.WhichOneof("version_choice") == "version_label":
            number = self.labels.get(spec.name, {}).get(spec.version_label)
            if number is None:
                raise invalid(f"Unrecognized servable version label: {spec.version_label}")
        if spec.name not in self.models:
            which = f"Latest({spec.name})" if number is None else f"Specific({spec.name}, {number})"
            raise not_found(f"Servable not found for request: {which}")
        return self.models[spec.name], number


class ModelRegistry:
    """Registry of the served models; requests access versions only through `lease`.

    Any number of threads may call its methods, even while others load versions: the lock is held only while
    loaded versions are put in place.

    Args:
        models: the initial models.
        loading: how the versions of later models are loaded.
        allow_labels_for_unavailable: whether a new label may point to a version that is not loaded.
        reload_rules: how callers may change the models.
    """

    def __init__(
        self,
        models: Iterable[ServedModel] = (),
        loading: Loading = EACH_ALONE,
        allow_labels_for_unavailable: bool = False,
        reload_rules: ReloadRules | None = None,
    ):
        self._served = RegistryState({model.name: model for model in models}, {})
        self._loading = loading
        self._allow = allow_labels_for_unavailable
        self.reload_rules = reload_rules or ReloadRules()
        self._changes, self._closed = threading.Lock(), False

    @contextlib.contextmanager
    def lease(self, spec) -> Iterator[Version]:
        """Yields the version that the ModelSpec `spec` names; it stays loaded until the block ends.

        Raises:
            ServingError: there is no such version.
        """
        with contextlib.ExitStack() as stack:
            yield self._enter(stack, spec)

    def names(self) -> list[str]:
        """Returns the names of all models, served or still being loaded."""
        return list(self._served.models)

    def states(self, name: str) -> dict[int, State]:
        """Returns {version: state} of the model `name`, empty if the model does not exist."""
        model = self._served.models.get(name)
        return model.states() if model else {}

    def base_paths(self) -> dict[str, str]:
        """Returns {name of a model: its base path}."""
        return {name: model.base_path for name, model in self._served.models.items()}

    def poll(self):
        """Checks every model for new versions."""
        self._for_each(ServedModel.poll, self._served.models.values())

    def apply(self, configs: Sequence[ModelConfig], must_load: bool = True, call: Call = INTERNAL):
        """Replaces the models with those of `configs` atomically.

        New models and versions are loaded while the old ones serve. Then the old ones that are no longer in `configs`
        are unloaded, each after its last request. If two threads do this at once, the first to have loaded
        everything wins.

        Args:
            configs: of all models.
            must_load: whether a model without a loadable version is an error; otherwise, it may be loaded later.
            call: of the waiting caller.

        Raises:
            ServingError: a model cannot be loaded, a label points to a missing version, the call is over
                before everything is loaded, or the models were changed in the meantime.
        """
        before = self._served
        models = {config.name: self._find_or_make(before, config) for config in configs}
        try:
            with contextlib.ExitStack() as held:
                for model in models.values():
                    held.enter_context(model.hold())
                loaded = self._for_each(lambda config: models[config.name].load(config.policy, call), configs)
                wanted = {config.name: versions for config, versions in zip(configs, loaded, strict=True)}
                failed = []
                for config in configs:
                    model = models[config.name]
                    goes_on_as_before = model.policy == config.policy and model.available()
                    if must_load and not wanted[config.name] and not goes_on_as_before:
                        failed.append(config.name)
                if failed:
                    raise unavailable(f"Some models did not become available: {{{', '.join(failed)}}}")
                self._exchange(before, models, configs, wanted, call)
        except BaseException:
            self._take_back(models)
            raise
        for name, model in before.models.items():
            if models.get(name) is not model:
                model.close()

    def close(self):
        """Stops serving all models, including those still being loaded."""
        with self._changes:
            self._closed = True
        for model in self._served.models.values():
            model.close()

    def _exchange(self, before, models, configs, wanted, call):
        """Serves `models` in place of those of `before`, atomically."""
        with self._changes:
            if self._closed:
                raise unavailable("The server is stopping")
            if self._served is not before:
                raise ServingError(
                    grpc.StatusCode.ABORTED, "Another config was applied while the models of this one were loaded"
                )
            call.check()
            for config in configs:
                self._check_labels(config, wanted[config.name] or models[config.name].available())
            self._served = RegistryState(models, {config.name: config.labels for config in configs})
            for config in configs:
                models[config.name].settle(config.policy, wanted[config.name])

    def _enter(self, stack, spec):
        while True:
            served = self._served
            try:
                model, number = served.find(spec)
                return stack.enter_context(model.lease(number))
            except ServingError:
                if served is self._served:
                    raise  # otherwise, it was unloaded in the meantime, and its replacement serves the request

    def _for_each(self, function, items):
        """Applies `function` to each, in parallel if there are threads for it.

        If one raises, the others are waited for, so that what they load can be unloaded.
        """
        pool = self._loading.load_pool
        if not pool:
            return list(map(function, items))
        running = [pool.submit(function, item) for item in items]
        futures.wait(running)
        return [each.result() for each in running]

    def _find_or_make(self, before, config):
        model = before.models.get(config.name)
        if model is not None and model.base_path == config.base_path:
            return model
        return ServedModel(config.name, config.base_path, config.policy, self._loading)

    def _take_back(self, models):
        """Unloads the versions loaded for a config that cannot be applied."""
        for name, model in models.items():
            if self._served.models.get(name) is model:
                model.poll()  # under its previous policy
            else:
                model.close()

    def _check_labels(self, config, available):
        """Raises ServingError for a label on a missing version; new labels may be allowed to point ahead."""
        for label, number in config.labels.items():
            moved = self._served.labels.get(config.name, {}).get(label, number) != number
            if number not in available and (moved or not self._allow):
                raise failed_precondition(
                    f"Request to assign label to version {number} of model {config.name}, which is not currently "
                    "available for inference"
                )


# === Describe ===
# GetModelStatus and GetModelMetadata, and whether all models are ready.


def model_status(registry, request: get_model_status_pb2.GetModelStatusRequest):
    """Returns the GetModelStatusResponse: the state of one version, or of all of them, newest first.

    Raises:
        ServingError: the model or version is unknown.
    """
    require_spec(request)
    spec = request.model_spec
    states = registry.states(spec.name)
    if spec.HasField("version"):
        if spec.version.value not in states:
            raise not_found(f"Could not find version {spec.version.value} of model {spec.name}")
        states = {spec.version.value: states[spec.version.value]}
    if not states:
        raise not_found(f"Could not find any versions of model {spec.name}")
    response = get_model_status_pb2.GetModelStatusResponse()
    for number in sorted(states, reverse=True):
        state = states[number]
        item = response.model_version_status.add(version=number)
        item.state = get_model_status_pb2.ModelVersionStatus.State.Value(state.name)
        item.status.error_code = state.code
        item.status.error_message = without_folders(state.message)
    return response


def model_metadata(registry, request: get_model_metadata_pb2.GetModelMetadataRequest):
    """Returns the GetModelMetadataResponse with all signatures of a version.

    Raises:
        ServingError: the version is not served, or metadata other than `signature_def` is requested.
    """
    require_spec(request)
    if not request.metadata_field:
        raise invalid("GetModelMetadataRequest must specify at least one metadata_field")
    for field in request.metadata_field:
        if field != "signature_def":
            raise invalid(f"Metadata field {field} is not supported")
    signatures = get_model_metadata_pb2.SignatureDefMap()
    response = get_model_metadata_pb2.GetModelMetadataResponse()
    with registry.lease(request.model_spec) as version:
        for name, signature in version.model.signatures.items():
            signatures.signature_def[name].CopyFrom(signature.definition)
        response.model_spec.name = version.name
        response.model_spec.version.value = version.number
    response.metadata["signature_def"].Pack(signatures)
    return response


def require_spec(request):
    """Raises ServingError for a request without a model name."""
    if not request.HasField("model_spec"):
        raise invalid("Missing ModelSpec")


def is_ready(models: dict[str, bool]) -> bool:
    """Returns whether every model of `ready` is available; False for a server without models."""
    return bool(models) and all(models.values())


def ready(registry) -> dict[str, bool]:
    """Returns {name of a model: whether a version of it is available}."""
    states = {name: registry.states(name).values() for name in registry.names()}
    return {name: any(state.name == "AVAILABLE" for state in found) for name, found in states.items()}
