"""Whether the server is alive and every model can be asked: for probes over gRPC and HTTP."""

import json
import threading
from collections.abc import Sequence

from absl import logging
from grpc_health.v1 import health, health_pb2
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2

from bert_tf.serving.limits import invalid, not_found, without_folders

# === Describe ===
# GetModelStatus and GetModelMetadata: which versions there are, and what they take and give.


def model_status(catalog, request: get_model_status_pb2.GetModelStatusRequest):
    """Returns the GetModelStatusResponse: the state of one version, or of all of them, newest first.

    Raises:
        ServingError: no such model or version has been met.
    """
    require_spec(request)
    spec = request.model_spec
    states = catalog.states(spec.name)
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


def model_metadata(catalog, request: get_model_metadata_pb2.GetModelMetadataRequest):
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
    with catalog.lease(request.model_spec) as version:
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


# === Health ===


_SECONDS = 1.0  # between two looks for those who watch
_Status = health_pb2.HealthCheckResponse


def ready(catalog) -> dict[str, bool]:
    """Returns {name of a model: whether a version of it is available}."""
    return {
        name: any(state.name == "AVAILABLE" for state in catalog.states(name).values()) for name in catalog.names()
    }


def readiness(catalog) -> tuple[bool, bytes]:
    """Returns (whether there are models and each can be asked, JSON that says which)."""
    models = ready(catalog)
    good = _all_ready(models)
    return good, json.dumps({"ready": good, "models": models}).encode()


class Health(health.HealthServicer):
    """grpc.health.v1 for the server as a whole (""), its services, also by their short names, and each model by name.

    Attributes:
        service: the full name of this service itself.
    """

    service = health.SERVICE_NAME

    def __init__(self, catalog, services: Sequence[str]):
        super().__init__(experimental_non_blocking=True)  # else each watcher would hold a thread
        self._catalog = catalog
        self._services = ["", *services, *(name.rpartition(".")[2] for name in services)]
        self._models = set()
        self._end = threading.Event()

    def start(self):
        self._refresh()
        threading.Thread(target=self._watch, name="health", daemon=True).start()

    def stop(self):
        """Says NOT_SERVING from here on."""
        self._end.set()
        self.enter_graceful_shutdown()

    def Check(self, request, context):
        self._refresh()
        return super().Check(request, context)

    def _watch(self):
        while not self._end.wait(_SECONDS):
            try:
                self._refresh()
            except Exception:  # those who watch another model must hear of it all the same
                logging.log_every_n_seconds(logging.ERROR, "Telling the health of models failed.", 600, exc_info=True)

    def _refresh(self):
        models = ready(self._catalog)
        for name in self._services:
            self.set(name, _status(_all_ready(models)))
        for name in models.keys() | self._models:
            self.set(name, _status(models[name]) if name in models else _Status.SERVICE_UNKNOWN)
        self._models = set(models)


def _all_ready(models):
    return bool(models) and all(models.values())  # a server without any model answers nobody


def _status(good):
    return _Status.SERVING if good else _Status.NOT_SERVING
