"""All models of a server, by name: what a request's ModelSpec leads to."""

import contextlib
from collections.abc import Iterable, Iterator

from bert_tf.serving.errors import invalid, not_found
from bert_tf.serving.versions import ServedModel, State, Version


class Catalog:
    """The served models; `lease` is the one way from a request to a version."""

    def __init__(self, models: Iterable[ServedModel]):
        self._models = {model.name: model for model in models}

    @contextlib.contextmanager
    def lease(self, spec) -> Iterator[Version]:
        """Yields the version that the ModelSpec `spec` names; it stays loaded until the block ends.

        Raises:
            ServingError: there is none.
        """
        if not spec.name:
            raise invalid("ModelSpec has no name specified.")
        if spec.WhichOneof("version_choice") == "version_label":
            raise invalid(f"Unrecognized servable version label: {spec.version_label}")  # none can be given yet
        number = spec.version.value if spec.HasField("version") else None
        with self._model(spec.name, number).lease(number) as version:
            yield version

    def names(self) -> list[str]:
        """Returns the names of all models, served or still being loaded."""
        return list(self._models)

    def states(self, name: str) -> dict[int, State]:
        """Returns {version: state} of the model `name`, empty where there is no such model."""
        model = self._models.get(name)
        return model.states() if model else {}

    def poll(self):
        """Looks for new versions of every model."""
        for model in self._models.values():
            model.poll()

    def close(self):
        """Serves no model any more."""
        for model in self._models.values():
            model.close()

    def _model(self, name, number):
        if name not in self._models:
            which = f"Latest({name})" if number is None else f"Specific({name}, {number})"
            raise not_found(f"Servable not found for request: {which}")
        return self._models[name]
