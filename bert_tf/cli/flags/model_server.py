"""Flags that tensorflow_model_server has besides those of `serving`: a command line of its own starts `serve` too."""

from bert_tf.utils.settings import Flag

LISTENING = (
    Flag("grpc_socket_path", None, "Unix socket on which gRPC is answered too."),
    Flag("grpc_channel_arguments", None, "Arguments of gRPC's server, as key=value with commas between, such as "
         "grpc.max_connection_age_ms=2000."),  # fmt: skip
    Flag("enable_serialization_as_tensor_content", False, "Whether Predict sends raw bytes over gRPC, which are read "
         "faster, and not lists of numbers.", "bool"),  # fmt: skip
    Flag("use_alts_credentials", False, "Refused: there is no Google ALTS here.", "bool"),
    Flag("version", False, "Say which versions of bert_tf and TensorFlow these are, and end.", "bool"),
)

LOADING = (
    Flag("num_load_threads", 0, "Models that are loaded at a time; 0: one after the other.", "integer", low=0),
    Flag("num_unload_threads", 0, "Threads that free versions; 0: the last request of a version does it.", "integer",
         low=0),  # fmt: skip
    Flag("saved_model_tags", "serve", "Tags of the graph that is loaded of a SavedModel, with commas between."),
    Flag("enable_model_warmup", True, "Whether a version is warmed up before it serves.", "bool"),
    Flag("num_request_iterations_for_warmup", 0, "How often each of its warm-up requests is run; 0: once.", "integer"),
    Flag("enable_signature_method_name_check", False, "Whether Classify and Regress refuse signatures that bear "
         "another method's name.", "bool"),  # fmt: skip
    Flag("prefer_tflite_model", False, "Whether versions that have a model.tflite are refused, instead of serving "
         "their other model.", "bool"),  # fmt: skip
    Flag("enable_per_model_batching_parameters", False, "With --enable_batching: each version is batched as its own "
         "batching_params.pbtxt says, one without not at all.", "bool"),  # fmt: skip
)

SESSION = (
    Flag("tensorflow_session_config_file", None, "Text file with a ConfigProto, for TensorFlow's sessions."),
    Flag("tensorflow_session_parallelism", 0, "The same as both --tensorflow_intra_op_parallelism and "
         "--tensorflow_inter_op_parallelism.", "integer", low=0),  # fmt: skip
    Flag("per_process_gpu_memory_fraction", 0.0, "Of a GPU's memory that is taken; 0: as TensorFlow chooses.", "float",
         low=0, high=1),  # fmt: skip
    Flag("mixed_precision", None, "bfloat16: multiply matrices in it where the processor can."),
    Flag("platform_config_file", None, "Text file with a PlatformConfigMap, in place of the flags of sessions, warm-up "
         "and batches."),  # fmt: skip
    Flag("thread_pool_factory_config_file", None, "Refused: there are no factories of threads here."),
)

_NO_TFLITE = "no model is of TensorFlow Lite."
_XLA = "what a model wants compiled by XLA always is."
WITHOUT_EFFECT = (
    Flag("enable_profiler", False, "No effect here: there is no profiler service.", "bool"),
    Flag("flush_filesystem_caches", True, "No effect here: TensorFlow keeps no caches of local files.", "bool"),
    Flag("num_tflite_interpreters_per_pool", 1, f"No effect here: {_NO_TFLITE}", "integer"),
    Flag("num_tflite_pools", 0, f"No effect here: {_NO_TFLITE}", "integer"),
    Flag("remove_unused_fields_from_bundle_metagraph", True, "No effect here: they are never kept.", "bool"),
    Flag("skip_initialize_tpu", False, "No effect here: no TPU is used.", "bool"),
    Flag("xla_cpu_compilation_enabled", False, f"No effect here: {_XLA}", "bool"),
    Flag("xla_gpu_compilation_enabled", False, f"No effect here: {_XLA}", "bool"),
)

MODEL_SERVER = LISTENING + LOADING + SESSION + WITHOUT_EFFECT

# What --platform_config_file takes the place of, as in tensorflow_model_server.
IN_PLATFORM_CONFIG = (
    "enable_batching",
    "batching_parameters_file",
    "enable_per_model_batching_parameters",
    "enable_model_warmup",
    "mixed_precision",
    "num_request_iterations_for_warmup",
    "per_process_gpu_memory_fraction",
    "prefer_tflite_model",
    "saved_model_tags",
    "tensorflow_inter_op_parallelism",
    "tensorflow_intra_op_parallelism",
    "tensorflow_session_config_file",
    "tensorflow_session_parallelism",
)
