"""All models of a server, by name: what a request's ModelSpec leads to."""

import contextlib
import dataclasses
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent import futures

import grpc

from bert_tf.serving.errors import ServingError, failed_precondition, invalid, not_found, unavailable
from bert_tf.serving.server.call import INTERNAL, Call
from bert_tf.serving.server.config_reload import ReloadRules
from bert_tf.serving.server.model_config import ModelConfig
from bert_tf.serving.server.versions import EACH_ALONE, Loading, ServedModel, State, Version


@dataclasses.dataclass(frozen=True, eq=False)
class Served:
    """What is served at one moment; never changed, only exchanged.

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


class Catalog:
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
        self._served = Served({model.name: model for model in models}, {})
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
        """Returns {version: state} of the model `name`, empty where there is no such model."""
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
                failed = [each.name for each in configs if must_load and not self._is_there(each, models, wanted)]
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
            self._served = Served(models, {config.name: config.labels for config in configs})
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

    @staticmethod
    def _is_there(config, models, wanted):
        """Whether versions of a model were loaded, or it is as it was and goes on with those that it has."""
        model = models[config.name]
        return bool(wanted[config.name]) or bool(model.policy == config.policy and model.available())

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
