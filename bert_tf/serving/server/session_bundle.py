"""Settings for loading and running the versions of all models, and TensorFlow Serving's files for them."""

import dataclasses

from absl import logging
from google.protobuf import any_pb2, wrappers_pb2

from bert_tf.serving.server.batching_limits import BatchingLimits, read_batching
from bert_tf.serving.server.settings import MOST_TFLITE_POOLS, SERVE, BundleSettings
from bert_tf.serving.server.tensorflow_messages import config_pb2, rewriter_config_pb2
from bert_tf.serving.server.text_configs import BATCHING, read_message
from bert_tf.utils.protobuf_classes import message_classes
from bert_tf.utils.resources import cores

_PLATFORM = "tensorflow"
_BFLOAT16 = "bfloat16"

# Only supported fields: a file with another field is rejected with the field's name.
_BUNDLE_MESSAGES = {
    "PlatformConfig": ((1, "source_adapter_config", "google.protobuf.Any"),),
    "PlatformEntry": ((1, "key", "string"), (2, "value", "PlatformConfig")),
    "PlatformConfigMap": ((1, "platform_configs", "*PlatformEntry"),),
    "SavedModelBundleSourceAdapterConfig": ((1000, "legacy_config", "SessionBundleConfig"),),
    "ModelWarmupOptions": ((1, "num_request_iterations", "google.protobuf.Int32Value"),),
    **BATCHING,
    "SessionBundleConfig": (
        (2, "session_config", "tensorflow.ConfigProto"),
        (3, "batching_parameters", "BatchingParameters"),
        (6, "saved_model_tags", "*string"),
        (779, "enable_model_warmup", "bool"),
        (780, "model_warmup_options", "ModelWarmupOptions"),
        (782, "remove_unused_fields_from_bundle_metagraph", "bool"),
        (783, "prefer_tflite_model", "bool"),
        (787, "num_tflite_pools", "int32"),
        (789, "enable_per_model_batching_params", "bool"),
        (791, "mixed_precision", "string"),
    ),
}
_BUNDLE_CLASSES = message_classes(
    "tensorflow.serving", _BUNDLE_MESSAGES, (any_pb2.DESCRIPTOR, wrappers_pb2.DESCRIPTOR, config_pb2.DESCRIPTOR)
)


@dataclasses.dataclass(frozen=True)
class Bundle(BundleSettings):
    """Settings for loading and running the versions of all models.

    Attributes:
        num_request_iterations: how often each warm-up request is run.
        tags: tags of the meta graph to load; all must match.
        session_config: a ConfigProto, serialized.
    """

    num_request_iterations: int = 1
    tags: frozenset[str] = frozenset({SERVE})
    session_config: bytes = b""

    @property
    def threads(self) -> int:
        """The number of threads that compute one operation together."""
        return config_pb2.ConfigProto.FromString(self.session_config).intra_op_parallelism_threads or cores()

    @property
    def cores(self) -> int:
        """The number of cores that requests may use together: that of the threads within or across operations."""
        config = config_pb2.ConfigProto.FromString(self.session_config)
        return max(config.inter_op_parallelism_threads or cores(), self.threads)


DEFAULT = Bundle()


def read_tags(text: str) -> frozenset[str]:
    """Splits a comma-separated list of tags.

    Raises:
        ValueError: one of them is empty.
    """
    tags = text.split(",")
    if not all(tags):
        raise ValueError(
            f"`saved_model_tags` must be comma-separated tags; got {text!r}. Exports have the tag {SERVE}."
        )
    return frozenset(tags)


def session_config(
    file: str | None = None, threads: dict[str, int] | None = None, gpu_fraction: float = 0.0, mixed_precision: str = ""
) -> bytes:
    """Returns the ConfigProto of all sessions, serialized.

    Args:
        file: with a ConfigProto in text format, to which the other settings are added; None for an empty one.
        threads: {"intra": n, "inter": n} number of threads within and across operations; if 0, as in `file`.
        gpu_fraction: fraction of a GPU's memory to use; if 0, as in `file`.
        mixed_precision: "bfloat16", or "" for the setting in `file`.

    Raises:
        ValueError: `file` cannot be read, or there is no such precision.
    """
    flag = "tensorflow_session_config_file"
    config = read_message(file, config_pb2.ConfigProto, flag) if file else config_pb2.ConfigProto()
    for kind, number in (threads or {}).items():
        if number:
            setattr(config, f"{kind}_op_parallelism_threads", number)
    if gpu_fraction:
        config.gpu_options.per_process_gpu_memory_fraction = gpu_fraction
    _mix(config, mixed_precision)
    return config.SerializeToString(deterministic=True)


def read_platform(path: str, **defaults) -> tuple[Bundle, BatchingLimits | None]:
    """Reads the settings for TensorFlow models from the text file `path`, a PlatformConfigMap.

    Args:
        path: path of the file.
        defaults: attributes of `BatchingLimits` that such a file cannot set.

    Raises:
        ValueError: it cannot be read, has no settings for TensorFlow models, or has unsupported ones.
    """
    flag = "platform_config_file"
    entries = read_message(path, _BUNDLE_CLASSES["PlatformConfigMap"], flag).platform_configs
    adapter = _BUNDLE_CLASSES["SavedModelBundleSourceAdapterConfig"]()
    names = [entry.key for entry in entries]
    if names != [_PLATFORM] or not entries[0].value.source_adapter_config.Unpack(adapter):
        raise ValueError(
            f'`{flag}` must have one entry, with the key "{_PLATFORM}" and a {adapter.DESCRIPTOR.full_name}. '
            f"{path} has {', '.join(map(repr, names)) or 'none'}."
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
        num_tflite_pools=config.num_tflite_pools,
    )
    if not 0 <= bundle.num_tflite_pools <= MOST_TFLITE_POOLS:
        raise ValueError(
            f"`num_tflite_pools` must be between 0 and {MOST_TFLITE_POOLS}; got {bundle.num_tflite_pools} in "
            f"{path}."
        )
    if not config.HasField("batching_parameters"):
        return bundle, None
    return bundle, read_batching(config.batching_parameters, path, flag, **defaults)


def _mix(config, mixed_precision):
    """Enables matrix products in bfloat16 where TensorFlow considers it safe."""
    if mixed_precision not in ("", _BFLOAT16):
        raise ValueError(f"`mixed_precision` must be {_BFLOAT16} or empty; got {mixed_precision!r}.")
    if mixed_precision:
        logging.info("Matrix products are computed in bfloat16 if the CPU supports it.")
        on = rewriter_config_pb2.RewriterConfig.ON
        config.graph_options.rewrite_options.auto_mixed_precision_onednn_bfloat16 = on
