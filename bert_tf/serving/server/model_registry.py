"""All models of a server by name: the version that a request's ModelSpec names, new configs, status and metadata."""

import contextlib
import dataclasses
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent import futures

import grpc
from absl import logging
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, model_management_pb2

from bert_tf.serving.limits import (
    ServingError,
    denied,
    failed_precondition,
    invalid,
    not_found,
    unavailable,
    without_folders,
)
from bert_tf.serving.server import metrics
from bert_tf.serving.server.model_config import ModelConfig, read_configs
from bert_tf.serving.server.predict import INTERNAL, Call
from bert_tf.serving.server.versions import EACH_ALONE, Loading, ServedModel, State, Version

# === Config reload ===
# HandleReloadConfigRequest: a caller exchanges the models of a server, where that is offered; the log says who did.


_MOST = 4  # requests that load models at a time
_MOST_METRICS = 100  # that one asks for
_LONGEST = 2000  # characters of what a line of the log says of a config


@dataclasses.dataclass(frozen=True)
class ReloadRules:
    """Rules for reloading the config by request.

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
        """Raises ServingError if a base path lies elsewhere; links are followed first."""
        for config in configs:
            path = os.path.realpath(config.base_path)
            if not any(os.path.commonpath([path, folder]) == folder for folder in self.folders):
                raise denied(
                    f"The base path of model {config.name} must lie under the base paths that the server was started "
                    "with. `model_config_reload_base_paths` allows others; it was given another"
                )


def reload(registry, request, call: Call):
    """Answers a ReloadConfigRequest: the registry has the models of its config, or those it had.

    Raises:
        ServingError: it is not offered, the config cannot be served, or the caller's deadline passes; nothing has
            changed.
    """
    rules = registry.reload_rules
    if not rules.offered:
        logging.log_every_n_seconds(logging.WARNING, "Refused to reload the config for %s: not offered.", 10, call.peer)
        raise denied(
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
    logging.info("Reload of the config from %s was applied.", call.peer)


def _changes(before, configs):
    """Returns what a config changes, to go on a sentence; names are quoted, as they may hold anything."""
    after = {config.name: config.base_path for config in configs}
    added = [f"{name!r} from {path!r}" for name, path in after.items() if before.get(name) != path]
    removed = [repr(name) for name in before if name not in after]
    kept = [repr(name) for name, path in after.items() if before.get(name) == path]
    parts = {"loads": added, "removes": removed, "keeps": kept}
    return "; ".join(f"{verb} {', '.join(names)}" for verb, names in parts.items() if names) or "it lists no model"


# === Registry ===


@dataclasses.dataclass(frozen=True, eq=False)
class RegistryState:
    """The served models and labels at one moment; never changed, only exchanged.

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
    """The served models; `lease` is the one way from a request to a version.

    Any number of threads may call its methods, also while others load versions: the one lock is held only while what
    has been loaded takes its place.

    Args:
        models: those that it has from the start.
        loading: how the versions of later ones are loaded.
        allow_labels_for_unavailable: whether a new label may point to a version that is not loaded.
        reload_rules: what callers may make of the models.
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
            ServingError: there is none.
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
        """Looks for new versions of every model."""
        self._for_each(ServedModel.poll, self._served.models.values())

    def apply(self, configs: Sequence[ModelConfig], must_load: bool = True, call: Call = INTERNAL):
        """Makes the models those of `configs`, all at once, or changes nothing.

        New models and versions are loaded while the old ones answer; then the old ones that `configs` has not any more
        are unloaded, each with the last of its requests. Of two threads that do so at a time the first that has loaded
        everything wins.

        Args:
            configs: of all models.
            must_load: whether a model of which no version can be loaded is an error; otherwise it is waited for.
            call: of whoever waits for it.

        Raises:
            ServingError: a model cannot be loaded, a label points to a version that is not there, the call is over
                before everything is loaded, or the models have become others in the meantime.
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
        """Serves no model any more, nor one that is still being loaded."""
        with self._changes:
            self._closed = True
        for model in self._served.models.values():
            model.close()

    def _exchange(self, before, models, configs, wanted, call):
        """Serves `models` in place of those of `before`, in one instant."""
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
                    raise  # otherwise it was unloaded after we looked, and what has come in its place answers

    def _for_each(self, function, items):
        """Returns what `function` returns for each, computed side by side where there are threads for it.

        Where one raises, the others are waited for: what they load is then there to be taken back.
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
        """Unloads what was loaded for a config that cannot be applied."""
        for name, model in models.items():
            if self._served.models.get(name) is model:
                model.poll()  # under the policy that it had
            else:
                model.close()

    def _check_labels(self, config, available):
        """Raises ServingError for a label on a version that is not there; a new one may be allowed to point ahead."""
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
        ServingError: no such model or version has been met.
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
        ServingError: the version is not served, or something else than `signature_def` is asked for.
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
    """Raises ServingError for a request that names no model."""
    if not request.HasField("model_spec"):
        raise invalid("Missing ModelSpec")


def is_ready(models: dict[str, bool]) -> bool:
    """Returns whether every model of `ready` can be asked; a server without any model answers nobody."""
    return bool(models) and all(models.values())


def ready(registry) -> dict[str, bool]:
    """Returns {name of a model: whether a version of it is available}."""
    states = {name: registry.states(name).values() for name in registry.names()}
    return {name: any(state.name == "AVAILABLE" for state in found) for name, found in states.items()}
