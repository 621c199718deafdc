"""How a version is loaded and run: what TensorFlow Serving's SessionBundleConfig says, from flags or from a file.

Field names and numbers are those of `config/platform_config.proto`, `servables/tensorflow/session_bundle_config.proto`
and `servables/tensorflow/saved_model_bundle_source_adapter.proto`.
"""

import dataclasses

from absl import logging
from google.protobuf import any_pb2, wrappers_pb2
from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2

from bert_tf.serving.message_tables import message_classes
from bert_tf.serving.server import text_configs
from bert_tf.serving.server.batching_parameters import Batching, read_batching

SERVE = "serve"
_PLATFORM = "tensorflow"
_BFLOAT16 = "bfloat16"

# Only what is followed: a file with another field is refused, by the field's name.
_MESSAGES = {
    "PlatformConfig": ((1, "source_adapter_config", "google.protobuf.Any"),),
    "PlatformEntry": ((1, "key", "string"), (2, "value", "PlatformConfig")),
    "PlatformConfigMap": ((1, "platform_configs", "*PlatformEntry"),),
    "SavedModelBundleSourceAdapterConfig": ((1000, "legacy_config", "SessionBundleConfig"),),
    "ModelWarmupOptions": ((1, "num_request_iterations", "google.protobuf.Int32Value"),),
    **text_configs.BATCHING,
    "SessionBundleConfig": (
        (2, "session_config", "tensorflow.ConfigProto"),
        (3, "batching_parameters", "BatchingParameters"),
        (6, "saved_model_tags", "*string"),
        (779, "enable_model_warmup", "bool"),
        (780, "model_warmup_options", "ModelWarmupOptions"),
        (782, "remove_unused_fields_from_bundle_metagraph", "bool"),
        (783, "prefer_tflite_model", "bool"),
        (789, "enable_per_model_batching_params", "bool"),
        (791, "mixed_precision", "string"),
    ),
}
_CLASSES = message_classes(
    "tensorflow.serving", _MESSAGES, (any_pb2.DESCRIPTOR, wrappers_pb2.DESCRIPTOR, config_pb2.DESCRIPTOR)
)


@dataclasses.dataclass(frozen=True)
class Bundle:
    """How the versions of all models are loaded and run.

    Attributes:
        tags: of the meta graph that is loaded, all of them.
        session_config: a ConfigProto, serialized.
        enable_model_warmup: whether a version's graphs are prepared, and its warm-up requests run, before it serves.
        num_request_iterations: how often each of these requests is run.
        enable_per_model_batching_parameters: whether a version is batched as a file in its own folder says, and one
            without such a file not at all.
        prefer_tflite_model: whether a version that has a TensorFlow Lite model must be served by that.
        check_method_names: whether a signature can only be asked for by the method that it was made for.
    """

    tags: frozenset[str] = frozenset({SERVE})
    session_config: bytes = b""
    enable_model_warmup: bool = True
    num_request_iterations: int = 1
    enable_per_model_batching_parameters: bool = False
    prefer_tflite_model: bool = False
    check_method_names: bool = False


DEFAULT = Bundle()


def read_tags(text: str) -> frozenset[str]:
    """Returns the tags in a text with commas between them.

    Raises:
        ValueError: one of them is empty.
    """
    tags = text.split(",")
    if not all(tags):
        raise ValueError(
            f"`saved_model_tags` must be tags with commas between. Received {text!r}; exports have the tag {SERVE}."
        )
    return frozenset(tags)


def session_config(
    file: str | None = None, threads: dict[str, int] | None = None, gpu_fraction: float = 0.0, mixed_precision: str = ""
) -> bytes:
    """Returns the ConfigProto of all sessions, serialized.

    Args:
        file: with a ConfigProto in text form, to which the others are added; None: an empty one.
        threads: {"intra": n, "inter": n} threads that compute an operation and operations; 0 leaves what `file` says.
        gpu_fraction: of a GPU's memory that is taken; 0 leaves what `file` says.
        mixed_precision: "bfloat16", or "" for what `file` says.

    Raises:
        ValueError: `file` cannot be read, or there is no such precision.
    """
    flag = "tensorflow_session_config_file"
    config = text_configs.read(file, config_pb2.ConfigProto, flag) if file else config_pb2.ConfigProto()
    for kind, number in (threads or {}).items():
        if number:
            setattr(config, f"{kind}_op_parallelism_threads", number)
    if gpu_fraction:
        config.gpu_options.per_process_gpu_memory_fraction = gpu_fraction
    _mix(config, mixed_precision)
    return config.SerializeToString(deterministic=True)


def read_platform(path: str, **defaults) -> tuple[Bundle, Batching | None]:
    """Returns what the text file `path`, a PlatformConfigMap, says of TensorFlow's models.

    Args:
        path: of the file.
        defaults: attributes of `Batching` that such a file cannot have.

    Raises:
        ValueError: it cannot be read, says nothing of TensorFlow's models, or asks for what is not followed here.
    """
    flag = "platform_config_file"
    entries = text_configs.read(path, _CLASSES["PlatformConfigMap"], flag).platform_configs
    adapter = _CLASSES["SavedModelBundleSourceAdapterConfig"]()
    names = [entry.key for entry in entries]
    if names != [_PLATFORM] or not entries[0].value.source_adapter_config.Unpack(adapter):
        raise ValueError(
            f'`{flag}` must have one entry, with the key "{_PLATFORM}" and a {adapter.DESCRIPTOR.full_name}. '
            f"Received: {path} with {', '.join(map(repr, names)) or 'none'}."
        )
    config = adapter.legacy_config
    session = config_pb2.ConfigProto.FromString(config.session_config.SerializeToString())
    _mix(session, config.mixed_precision)
    bundle = Bundle(
        tags=frozenset(config.saved_model_tags or [SERVE]),
        session_config=session.SerializeToString(deterministic=True),
        enable_model_warmup=config.enable_model_warmup,
        num_request_iterations=max(1, config.model_warmup_options.num_request_iterations.value),
        enable_per_model_batching_parameters=config.enable_per_model_batching_params,
        prefer_tflite_model=config.prefer_tflite_model,
    )
    if not config.HasField("batching_parameters"):
        return bundle, None
    return bundle, read_batching(config.batching_parameters, path, flag, **defaults)


def _mix(config, mixed_precision):
    """Has products of matrices computed in bfloat16 where TensorFlow deems it safe."""
    if mixed_precision not in ("", _BFLOAT16):
        raise ValueError(
            f"`mixed_precision` must be {_BFLOAT16} or empty. Received {mixed_precision!r}; correct it."
        )
    if mixed_precision:
        logging.info("Products of matrices are computed in bfloat16 where the processor can.")
        on = rewriter_config_pb2.RewriterConfig.ON
        config.graph_options.rewrite_options.auto_mixed_precision_onednn_bfloat16 = on
