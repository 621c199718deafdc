"""Request messages from a client's arguments, and values from response messages."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError, Message

from bert_tf.serving import messages, tensor_messages, wire_scan
from bert_tf.serving.client.channel import MAX_RESPONSE_BYTES
from bert_tf.serving.errors import ServingError

PAIR = ("text_a", "text_b")  # the inputs of a model that compares two texts
CHOICES = ("context", "choices")  # and of a multiple-choice model
DOCUMENTS = ("query", "documents")  # and of a reranker
# The fewest texts of an input that is a list, and what an example is, for messages.
LISTS = {CHOICES: (2, "a context and at least two choices"), DOCUMENTS: (1, "a query and at least one document")}
_ORDERS = (PAIR, *LISTS, ("question", "context"))  # customary orders, because a signature's inputs have none
DEFAULT = "serving_default"  # the default signature
INITIAL = "__saved_model_init_op"  # a signature for TensorFlow's own use
_PREDICTION, _MODEL = "/tensorflow.serving.PredictionService", "/tensorflow.serving.ModelService"
METHODS = {  # name: (path, request, response)
    "Predict": (f"{_PREDICTION}/Predict", messages.PredictRequest, messages.PredictResponse),
    "GetModelMetadata": (f"{_PREDICTION}/GetModelMetadata", messages.MetadataRequest, messages.MetadataResponse),
    "GetModelStatus": (f"{_MODEL}/GetModelStatus", messages.StatusRequest, messages.StatusResponse),
}
_BYTES_OF_FIELD = 64  # of a response, per string or message in it, because each is an object in memory
_LISTED, _LONGEST = 20, 60  # names in a message, and characters per name
_STATES = {0: "UNKNOWN", 10: "START", 20: "LOADING", 30: "AVAILABLE", 40: "UNLOADING", 50: "END"}


class Rpc(NamedTuple):
    """A call: a key of METHODS, its request, and its timeout in seconds."""

    method: str
    request: Any
    timeout: float


class ModelTarget(NamedTuple):
    """The model of a request.

    Attributes:
        name: name of the model.
        version: its number, or None.
        label: label of a version, or None; without both, the newest.
    """

    name: str
    version: int | None = None
    label: str | None = None

    def fill(self, spec, signature: str = ""):
        """Writes this into a ModelSpec."""
        spec.name, spec.signature_name = self.name, signature
        if self.version is not None:
            spec.version.value = self.version
        if self.label is not None:
            spec.version_label = self.label


@dataclasses.dataclass(frozen=True)
class TensorKind:
    """Type and shape of an input or output of a signature.

    Attributes:
        dtype: NumPy's name of its type, such as "float32"; "string".
        shape: its sizes, None for free ones; if None, even their number is free.
    """

    dtype: str
    shape: tuple[int | None, ...] | None


@dataclasses.dataclass(frozen=True)
class ModelSignature:
    """The inputs and outputs of a model's signature.

    Attributes:
        name: such as `DEFAULT`.
        method: TensorFlow Serving's name of its method, such as "tensorflow/serving/predict".
        inputs, outputs: {name: TensorKind}, sorted by name.
    """

    name: str
    method: str
    inputs: dict[str, TensorKind]
    outputs: dict[str, TensorKind]

    @property
    def text_inputs(self) -> tuple[str, ...]:
        """Names of its inputs in their standard order: question, context."""
        return order_of(self.inputs)


@dataclasses.dataclass(frozen=True)
class VersionStatus:
    """The state of a version of a model.

    Attributes:
        version: its number.
        state: "START", "LOADING", "AVAILABLE", "UNLOADING" or "END".
        code: canonical code number of the error that ended it; 0 for none.
        message: the error in words.
    """

    version: int
    state: str
    code: int
    message: str


def order_of(inputs: Iterable[str]) -> tuple[str, ...]:
    """Returns the names of inputs in their standard order; sorted if there is none."""
    names = set(inputs)
    return next((order for order in _ORDERS if set(order) == names), tuple(sorted(names)))


def is_order_known(inputs: Iterable[str]) -> bool:
    """Returns whether texts without names can be assigned to these inputs: there is one, or a customary order."""
    names = set(inputs)
    return len(names) < 2 or any(set(order) == names for order in _ORDERS)


def check_order(inputs: Sequence[str]):
    """Raises ValueError if texts without names cannot be assigned to inputs: there are none, or no known order."""
    if not inputs:
        raise ValueError("`inputs` cannot be used: the signature has no inputs. Choose a signature with inputs.")
    if not is_order_known(inputs):
        raise ValueError(
            f"`inputs` is required: the inputs of this model are {join_names(inputs)}, whose order is unknown. "
            f"Pass the order of an example's texts, such as "
            f"`inputs={join_names(inputs).replace(', ', ',')}`."
        )


def predict_request(target: ModelTarget, inputs: Mapping[str, Any], signature: str = "", outputs: Sequence[str] = ()):
    """Returns the PredictRequest for `inputs`, {name: array or nested lists}.

    Raises:
        ValueError: an input is uneven, or of a type that tensors do not have.
    """
    request = messages.PredictRequest(output_filter=outputs)
    target.fill(request.model_spec, signature)
    for name, values in inputs.items():
        tensor_messages.fill_tensor(request.inputs.add(key=name).value, values, name)
    return request


def parse_answer(data: bytes, kind: type[Message], max_bytes: int) -> Message:
    """Parses a server's response as a message of some kind.

    Args:
        data: the response.
        kind: the message's class.
        max_bytes: maximum size of a response. It may have one number per four bytes, and one string or message
            per `_BYTES_OF_FIELD` bytes, so that its size in memory stays in proportion.

    Raises:
        ValueError: it is not such a message, or its fields would take far more memory than its bytes.
    """
    try:
        wire_scan.check_message(data, kind.DESCRIPTOR, max_bytes // _BYTES_OF_FIELD, max_bytes // 4)
        return kind.FromString(data)
    except (DecodeError, ServingError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"The response is not a {kind.DESCRIPTOR.name} of TensorFlow Serving: {len(data)} bytes are "
            f"not valid ({reason}). Check that this is a model server."
        ) from error


def join_names(names: Iterable[str]) -> str:
    """Returns a server's names for a message: in one line, shortened if there are too many."""
    names = list(names)
    shown = [clean(name, _LONGEST) for name in names[:_LISTED]]
    return ", ".join(shown + [f"and {len(names) - _LISTED} more"] * (len(names) > _LISTED)) or "none"


def clean(text: str, longest: int = 1000) -> str:
    """Returns a server's text in one line, shortened and without control characters."""
    line = " ".join(text[: 4 * longest].split())
    return "".join(char if char.isprintable() else "\ufffd" for char in line[:longest])


def read_outputs(response, wanted: Sequence[str] = ()) -> dict[str, np.ndarray]:
    """Returns {name: array} of a PredictResponse.

    Args:
        response: the message.
        wanted: names that must be present.

    Raises:
        ValueError: one is missing, there is no output at all, or one that is malformed or larger than its message.
    """
    names = {item.key for item in response.outputs}
    if not names or not names.issuperset(wanted):
        raise ValueError(
            f"The response lacks {f'some of the outputs {join_names(wanted)}' if wanted else 'outputs'}. It has "
            f"{join_names(sorted(names))}. Check that this is the right model."
        )
    tensor_messages.check_missing(item.value for item in response.outputs)
    return {item.key: tensor_messages.wire_to_array(item.value) for item in response.outputs}


def read_signatures(response) -> dict[str, ModelSignature]:
    """Returns {name: Signature} of a GetModelMetadataResponse, sorted by name; raises ValueError if it has none."""
    packed = [item.value.value for item in response.metadata if item.key == "signature_def"]
    if len(packed) != 1:
        raise ValueError(
            f"The response must have the model's signatures once, not {len(packed)} times. Check that this is a model "
            "server."
        )
    found = parse_answer(packed[0], messages.Signatures, MAX_RESPONSE_BYTES).signature_def
    return {
        each.key: ModelSignature(
            each.key, each.value.method_name, read_kinds(each.value.inputs), read_kinds(each.value.outputs)
        )
        for each in sorted(found, key=lambda each: each.key)
        if each.key != INITIAL
    }


def read_status(response) -> list[VersionStatus]:
    """Returns the versions of a GetModelStatusResponse, the newest first."""
    found = [
        VersionStatus(each.version, _STATES.get(each.state, "UNKNOWN"), each.status.error_code,
                      each.status.error_message)
        for each in response.model_version_status
    ]  # fmt: skip
    return sorted(found, key=lambda each: -each.version)


def read_kinds(items: Iterable[Any]) -> dict[str, TensorKind]:
    """Returns {name: TensorKind} of a request's inputs or a signature's inputs or outputs, sorted by name."""
    kinds = {}
    for item in sorted(items, key=lambda item: item.key):
        shape = item.value.tensor_shape
        sizes = None if shape.unknown_rank else tuple(None if dim.size < 0 else dim.size for dim in shape.dim)
        kinds[item.key] = TensorKind(tensor_messages.dtype_name(item.value.dtype), sizes)
    return kinds
