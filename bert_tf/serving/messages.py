"""The few messages that the client needs, as TensorFlow Serving defines them, without TensorFlow.

`tensorflow_serving.apis` imports all of TensorFlow (seconds, and half a gigabyte) for its tensor message. The field
numbers are the published ones, so the bytes are the same. From tensorflow/core:
framework/{tensor,tensor_shape,types}.proto, protobuf/meta_graph.proto; from tensorflow_serving:
apis/{model,predict,get_model_status,get_model_metadata}.proto, util/status.proto.
"""

from bert_tf.utils.protobuf_classes import message_classes

# An enum is encoded as int32.
_MESSAGES = {
    "Dim": ((1, "size", "int64"),),
    "TensorShape": ((2, "dim", "*Dim"), (3, "unknown_rank", "bool")),
    "Tensor": (
        (1, "dtype", "int32"),
        (2, "tensor_shape", "TensorShape"),
        (4, "tensor_content", "bytes"),
        (5, "float_val", "*float"),
        (6, "double_val", "*double"),
        (7, "int_val", "*int32"),
        (8, "string_val", "*bytes"),
        (10, "int64_val", "*int64"),
        (11, "bool_val", "*bool"),
        (13, "half_val", "*int32"),
        (16, "uint32_val", "*uint32"),
        (17, "uint64_val", "*uint64"),
    ),
    "Int64": ((1, "value", "int64"),),
    "ModelSpec": (
        (1, "name", "string"),
        (2, "version", "Int64"),
        (3, "signature_name", "string"),
        (4, "version_label", "string"),
    ),
    # The encoding of map<string, Tensor>; likewise for the other maps.
    "NamedTensor": ((1, "key", "string"), (2, "value", "Tensor")),
    "PredictRequest": ((1, "model_spec", "ModelSpec"), (2, "inputs", "*NamedTensor"), (3, "output_filter", "*string")),
    "PredictResponse": ((1, "outputs", "*NamedTensor"), (2, "model_spec", "ModelSpec")),
    "StatusRequest": ((1, "model_spec", "ModelSpec"),),
    "Status": ((1, "error_code", "int32"), (2, "error_message", "string")),
    "VersionStatus": ((1, "version", "int64"), (2, "state", "int32"), (3, "status", "Status")),
    "StatusResponse": ((1, "model_version_status", "*VersionStatus"),),
    "MetadataRequest": ((1, "model_spec", "ModelSpec"), (2, "metadata_field", "*string")),
    "Any": ((1, "type_url", "string"), (2, "value", "bytes")),
    "NamedAny": ((1, "key", "string"), (2, "value", "Any")),
    "MetadataResponse": ((1, "model_spec", "ModelSpec"), (2, "metadata", "*NamedAny")),
    "TensorInfo": ((1, "name", "string"), (2, "dtype", "int32"), (3, "tensor_shape", "TensorShape")),
    "NamedInfo": ((1, "key", "string"), (2, "value", "TensorInfo")),
    "Signature": ((1, "inputs", "*NamedInfo"), (2, "outputs", "*NamedInfo"), (3, "method_name", "string")),
    "NamedSignature": ((1, "key", "string"), (2, "value", "Signature")),
    "Signatures": ((1, "signature_def", "*NamedSignature"),),
}
_CLASSES = message_classes("bert_tf.serving", _MESSAGES)
PredictRequest, PredictResponse = _CLASSES["PredictRequest"], _CLASSES["PredictResponse"]
StatusRequest, StatusResponse = _CLASSES["StatusRequest"], _CLASSES["StatusResponse"]
MetadataRequest, MetadataResponse = _CLASSES["MetadataRequest"], _CLASSES["MetadataResponse"]
Signatures = _CLASSES["Signatures"]
