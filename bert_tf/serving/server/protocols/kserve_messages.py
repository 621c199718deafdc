"""The messages of KServe's GRPCInferenceService, with the numbers of its published `grpc_predict_v2.proto`."""

from bert_tf.utils.protobuf_classes import message_classes

SERVICE = "inference.GRPCInferenceService"
_MODEL = ((1, "name", "string"), (2, "version", "string"))
_TENSOR = (
    (1, "name", "string"),
    (2, "datatype", "string"),
    (3, "shape", "*int64"),
    (4, "parameters", "*NamedParameter"),
    (5, "contents", "TensorContents"),
)
# A map is encoded as the list of its entries, and of a `oneof`, at most one field is set.
_CLASSES = message_classes(
    "inference",
    {
        "Parameter": (
            (1, "bool_param", "bool"),
            (2, "int64_param", "int64"),
            (3, "string_param", "string"),
            (4, "double_param", "double"),
            (5, "uint64_param", "uint64"),
        ),
        "NamedParameter": ((1, "key", "string"), (2, "value", "Parameter")),
        "TensorContents": (
            (1, "bool_contents", "*bool"),
            (2, "int_contents", "*int32"),
            (3, "int64_contents", "*int64"),
            (4, "uint_contents", "*uint32"),
            (5, "uint64_contents", "*uint64"),
            (6, "fp32_contents", "*float"),
            (7, "fp64_contents", "*double"),
            (8, "bytes_contents", "*bytes"),
        ),
        "Tensor": _TENSOR,
        "TensorMetadata": ((1, "name", "string"), (2, "datatype", "string"), (3, "shape", "*int64")),
        "RequestedOutput": ((1, "name", "string"), (2, "parameters", "*NamedParameter")),
        "ServerLiveRequest": (),
        "ServerLiveResponse": ((1, "live", "bool"),),
        "ServerReadyRequest": (),
        "ServerReadyResponse": ((1, "ready", "bool"),),
        "ModelReadyRequest": _MODEL,
        "ModelReadyResponse": ((1, "ready", "bool"),),
        "ServerMetadataRequest": (),
        "ServerMetadataResponse": ((1, "name", "string"), (2, "version", "string"), (3, "extensions", "*string")),
        "ModelMetadataRequest": _MODEL,
        "ModelMetadataResponse": (
            (1, "name", "string"),
            (2, "versions", "*string"),
            (3, "platform", "string"),
            (4, "inputs", "*TensorMetadata"),
            (5, "outputs", "*TensorMetadata"),
        ),
        "ModelInferRequest": (
            (1, "model_name", "string"),
            (2, "model_version", "string"),
            (3, "id", "string"),
            (4, "parameters", "*NamedParameter"),
            (5, "inputs", "*Tensor"),
            (6, "outputs", "*RequestedOutput"),
            (7, "raw_input_contents", "*bytes"),
        ),
        "ModelInferResponse": (
            (1, "model_name", "string"),
            (2, "model_version", "string"),
            (3, "id", "string"),
            (4, "parameters", "*NamedParameter"),
            (5, "outputs", "*Tensor"),
            (6, "raw_output_contents", "*bytes"),
        ),
    },
)
ServerLiveRequest, ServerLiveResponse = _CLASSES["ServerLiveRequest"], _CLASSES["ServerLiveResponse"]
ServerReadyRequest, ServerReadyResponse = _CLASSES["ServerReadyRequest"], _CLASSES["ServerReadyResponse"]
ModelReadyRequest, ModelReadyResponse = _CLASSES["ModelReadyRequest"], _CLASSES["ModelReadyResponse"]
ServerMetadataRequest, ServerMetadataResponse = _CLASSES["ServerMetadataRequest"], _CLASSES["ServerMetadataResponse"]
ModelMetadataRequest, ModelMetadataResponse = _CLASSES["ModelMetadataRequest"], _CLASSES["ModelMetadataResponse"]
ModelInferRequest, ModelInferResponse = _CLASSES["ModelInferRequest"], _CLASSES["ModelInferResponse"]
