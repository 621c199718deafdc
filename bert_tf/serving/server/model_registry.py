"""Registry of a server's models: versions for a request's ModelSpec."""

import contextlib
import dataclasses
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent import futures

import grpc

from bert_tf.serving.errors import ServingError, failed_precondition, invalid, not_found, unavailable
from bert_tf.serving.server.config_reload import ReloadRules
from bert_tf.serving.server.model_config import ModelConfig
from bert_tf.serving.server.request_context import INTERNAL, RequestContext
from bert_tf.serving.server.versions import EACH_ALONE, Loading, ServedModel, State, Version


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

    def apply(self, configs: Sequence[ModelConfig], must_load: bool = True, call: RequestContext = INTERNAL):
        """Replaces the models with those of `configs` atomically.

        New models and versions are loaded while the old ones serve. Then the old ones that are no longer in `configs`
        are unloaded, each after its last request. If two threads do this at once, the first to have loaded
        everything wins.

        Args:
            configs: configs of all models.
            must_load: whether a model without a loadable version is an error; otherwise, it may be loaded later.
            call: context of the waiting call.

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
