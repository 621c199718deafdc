"""The tasks that other protocols ask for, and the served model that a request without or with a name means."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

from bert_tf.serving.errors import ServingError, invalid, not_found
from bert_tf.serving.server.predict import DEFAULT_SIGNATURE
from bert_tf.serving.server.protocols.adapter import AdapterRequest
from bert_tf.serving.server.signatures import Signature
from bert_tf.serving.server.tensorflow_messages import model_pb2
from bert_tf.serving.server.versions import Version


@dataclasses.dataclass(frozen=True)
class ServedTask:
    """A task, recognized by the default signature of a model.

    Attributes:
        name: for messages.
        inputs: names of all inputs; each alternative is a tuple.
        outputs: names of outputs that it has, possibly among others.
    """

    name: str
    inputs: tuple[tuple[str, ...], ...]
    outputs: tuple[str, ...]

    def fits(self, signature: Signature | None) -> bool:
        """Whether a model with this default signature serves the task."""
        if signature is None or not set(self.outputs) <= set(signature.outputs):
            return False
        return any(set(each) == set(signature.inputs) for each in self.inputs)


EMBEDDING = ServedTask("embeddings", (("text",),), ("embedding",))
RERANKING = ServedTask("reranking", (("query", "documents"),), ("scores", "order"))
CLASSIFICATION = ServedTask("classification", (("text",), ("text_a", "text_b")), ("labels", "probabilities"))


@contextlib.contextmanager
def leased(request: AdapterRequest, *tasks: ServedTask, name: str | None = None) -> Iterator[tuple[Version, Signature]]:
    """Yields a version that serves one of the tasks, and its default signature.

    Args:
        request: its `spec` gets the model's name.
        tasks: the tasks.
        name: the model's name. If None, it is the only one that serves one of the tasks.

    Raises:
        ServingError: there is no such model, or several.
    """
    with leased_model(request, name, tasks) as version:
        signature = version.model.signatures.get(DEFAULT_SIGNATURE)
        if not _fits(signature, tasks):
            raise invalid(f"The model {request.spec.name} does not serve {_listed(tasks)}: {_describe(signature)}")
        yield version, signature


@contextlib.contextmanager
def leased_model(
    request: AdapterRequest, name: str | None = None, tasks: Sequence[ServedTask] = ()
) -> Iterator[Version]:
    """Yields a version of a model, which need not have a default signature.

    Args:
        request: its `spec` gets the model's name.
        name: the model's name. If None, it is the only one that serves one of the tasks.
        tasks: the tasks; if there are none, it is the only model.

    Raises:
        ServingError: there is no such model, or several.
    """
    request.spec.name = _only_name(request.registry, tasks) if name is None else name
    if not request.spec.name:
        raise invalid("The name of the model must not be empty")
    with request.registry.lease(request.spec) as version:
        yield version


def _only_name(registry, tasks):
    found = [name for name in sorted(registry.names()) if _serves(registry, name, tasks)]
    if not found:
        raise not_found(f"No model on this server serves {_listed(tasks)}")
    if len(found) > 1:
        raise invalid(f"The request must name a model, since several serve {_listed(tasks)}: {', '.join(found)}")
    return found[0]


def _serves(registry, name, tasks):
    try:
        with registry.lease(model_pb2.ModelSpec(name=name)) as version:
            return not tasks or _fits(version.model.signatures.get(DEFAULT_SIGNATURE), tasks)
    except ServingError:  # it is not loaded
        return False


def _fits(signature, tasks):
    return any(task.fits(signature) for task in tasks)


def _listed(tasks):
    return " or ".join(task.name for task in tasks) or "predictions"


def _describe(signature):
    if signature is None:
        return f"it has no signature {DEFAULT_SIGNATURE}"
    return f"its inputs are {', '.join(signature.inputs)} and its outputs {', '.join(signature.outputs)}"
