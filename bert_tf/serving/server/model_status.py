"""Answers to GetModelStatus and GetModelMetadata, and whether all models are ready."""


from bert_tf.serving.errors import invalid, not_found, without_folders
from bert_tf.serving.server.tensorflow_messages import get_model_metadata_pb2, get_model_status_pb2


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
