"""Flags of serving: tensorflow_model_server's names for the server, and the client's."""

from bert_tf.utils.settings import NO_EFFECT, Flag

SERVE = (
    Flag("model_base_path", None, "Folder with a numbered folder for each version of one model."),
    Flag("model_name", "default", "Name of the model in requests."),
    Flag(
        "port",
        8500,
        "For gRPC; 0 takes any free one and says which, with --grpc_socket_path none.",
        "integer",
        low=0,
        high=65535,
    ),  # fmt: skip
    Flag("rest_api_port", 8501, "For REST; 0 takes any free one and says which.", "integer", low=0, high=65535),
    Flag(
        "host", "127.0.0.1", "Address to listen on: this machine only, unless you say 0.0.0.0 (there is no password)."
    ),  # fmt: skip
    Flag(
        "allowed_hosts",
        [],
        "Names by which REST may be asked, besides localhost, --host and any address; * "
        "for any. Default: none, but any where --host is 0.0.0.0 or ::.",
        "list",
    ),  # fmt: skip
    Flag("ui", False, "Serve a page to try the models on, at / of the REST port.", "bool"),
    Flag("file_system_poll_wait_seconds", 1.0, "Seconds between checks for new versions; 0: once.", "float", low=0),
    Flag("grpc_max_threads", 256, "gRPC requests that are answered at once; one more is refused.", "integer", low=1),
    Flag("rest_api_num_threads", 128, "The same of REST.", "integer", low=1),
    Flag(
        "max_concurrent_runs",
        0,
        "Runs of a graph at once, of all requests; others wait their turn. 0: two for each core.",
        "integer",
        low=0,
    ),  # fmt: skip
    Flag(
        "max_pending_tokens",
        2**20,
        "Tokens of all requests that are computed or wait; one more is refused.",
        "integer",
        low=1,
    ),  # fmt: skip
    Flag(
        "tensorflow_intra_op_parallelism",
        0,
        "Threads that compute one operation together; 0: as many as there are "
        "cores. With 1, exports for processors (`--export_for=cpu`) and short texts are answered sooner.",
        "integer",
        low=0,
    ),  # fmt: skip
    Flag(
        "tensorflow_inter_op_parallelism",
        0,
        "Threads that compute operations side by side, of a request to an "
        "export for processors that runs alone; 0: as many as there are cores.",
        "integer",
        low=0,
    ),  # fmt: skip
    Flag("rest_api_timeout_in_ms", 30000, "In which a REST request is answered.", "integer", low=1),
    Flag("rest_api_enable_cors_support", False, "Whether pages from elsewhere may ask, in a browser.", "bool"),
    Flag("enable_grpc_healthcheck_service", False, "Whether gRPC offers grpc.health.v1.", "bool"),
    Flag("enable_grpc_reflection", False, "Whether gRPC tells its services and their messages.", "bool"),
    Flag(
        "monitoring_config_file",
        None,
        "Text file with a MonitoringConfig: whether and where REST has Prometheus's page.",
    ),  # fmt: skip
    Flag("ssl_config_file", None, "Text file with an SSLConfig: both ports are then encrypted."),
    Flag("grace_seconds", 30.0, "Seconds that a stop waits for the requests in progress.", "float", low=0),
)

# Limits of one request: the fields of serving.limits.Limits.
LIMITS = (
    Flag("max_message_bytes", 2**26, "Of a gRPC message.", "integer", low=1),
    Flag("max_body_bytes", 2**26, "Of a REST body, also once it is unpacked.", "integer", low=1),
    Flag("max_batch_size", 4096, "Texts, examples or instances of a request.", "integer", low=1),
    Flag(
        "max_request_tokens",
        3 * 2**16,
        "Tokens of a request; of texts, one for every four bytes, as far as the model reads them.",
        "integer",
        low=1,
    ),  # fmt: skip
    Flag("max_output_elements", 2**24, "Of one output tensor; one with more is not sent.", "integer", low=1),
)

MODELS = (
    Flag(
        "model_config_file",
        None,
        "Text file with a ModelServerConfig, which lists the models; instead of --model_base_path and --model_name.",
    ),  # fmt: skip
    Flag(
        "model_config_file_poll_wait_seconds",
        0.0,
        "Seconds between checks for changes of that file; 0: never.",
        "float",
        low=0,
    ),  # fmt: skip
    Flag(
        "enable_model_config_reload",
        False,
        "Whether whoever reaches the gRPC port may exchange the models, by "
        "HandleReloadConfigRequest; left out: only with --model_config_file.",
        "bool",
    ),  # fmt: skip
    Flag(
        "model_config_reload_base_paths",
        None,
        "Folders under which the base paths of such a request may lie, besides those that the server is started with.",
        "list",
    ),  # fmt: skip
    Flag(
        "allow_version_labels_for_unavailable_models",
        False,
        "Whether a new label may point to a version that is not loaded.",
        "bool",
    ),  # fmt: skip
    Flag("max_num_load_retries", 5, "How often a version that cannot be loaded is tried again.", "integer", low=0),
    Flag(
        "load_retry_interval_micros",
        60000000,
        "Microseconds before it is tried again; negative: at the next check.",
        "integer",
    ),  # fmt: skip
)

BATCHING = (
    Flag("enable_batching", False, "Compute the requests of several callers together.", "bool"),
    Flag("batching_parameters_file", None, "Text file with BatchingParameters: how large batches and their queue are."),
    Flag(
        "max_batch_tokens", 512, "Tokens of a batch with its padding, about: rows times the longest.", "integer", low=1
    ),  # fmt: skip
)

_TLS = (
    Flag("tls", False, "Encrypt the connection, and trust the certificate authorities that gRPC brings.", "bool"),
    Flag("tls_root_file", None, "Encrypt the connection, and trust these certificates (PEM)."),
    Flag("tls_key_file", None, "Key by which this client proves who it is (PEM)."),
    Flag("tls_certificate_file", None, "Certificate that goes with the key (PEM)."),
)

_CONNECTION = (
    Flag(
        "server",
        "localhost:8500",
        "host:port of the server, for gRPC, such as [::1]:8500; unix:PATH where it listens on a socket.",
    ),  # fmt: skip
    Flag("model_name", "default", "Which of its models."),
    Flag("timeout", 10.0, "Seconds after which a request gives up.", "float", low=0),
    *_TLS,
)

ASK = (
    *_CONNECTION,
    Flag(
        "inputs",
        [],
        "Names of the texts that an example has, such as question,context: arguments come in this "
        "order, lines are tab-separated. Default: the model is asked which it takes.",
        "list",
    ),  # fmt: skip
    Flag("pair", False, "The same as --inputs=text_a,text_b: the model compares two texts.", "bool"),
    Flag(
        "choices",
        False,
        "The same as --inputs=context,choices: the model chooses. All arguments, or all texts of a "
        "line, are then one example: the context and its choices.",
        "bool",
    ),  # fmt: skip
)

LOAD_TEST = (
    *_CONNECTION,
    Flag(
        "input_file",
        None,
        "Texts, an example a line, with tabs where the model takes several; also packed (.gz).",
        required=True,
    ),  # fmt: skip
    Flag(
        "inputs",
        [],
        "Names of the texts that a line has, in their order. Default: the order in which people give "
        "them, where that is known.",
        "list",
    ),  # fmt: skip
    Flag("signature", "", "Which signature is asked; default: serving_default."),
    Flag("rest", False, "Ask over REST; --server is then the host and port of that.", "bool"),
    Flag(
        "callers",
        None,
        "How many callers ask, each as soon as it has its answer; default 8 where there is no --rate.",
        "integer",
        low=1,
    ),  # fmt: skip
    Flag(
        "rate",
        [],
        "Requests a second on average, at random times that no answer delays; several with commas "
        "between are tried in turn.",
        "list",
    ),  # fmt: skip
    Flag("seconds", 10.0, "How long each of these lasts.", "float", low=0.1),
    Flag("warm_up_seconds", 2.0, "How long callers ask before anything is counted.", "float", low=0),
    Flag("batch_size", 1, "Examples of a request.", "integer", low=1),
    Flag("seed", 0, "Of the order of the examples and of the times of --rate.", "integer", low=0),
    Flag("output_dir", None, "Writes load_test.json and load_test.html there; default: the figures are only printed."),
)

VERIFY = (
    Flag(
        "inspect",
        False,
        "List what the model's graph would do, without loading it: operations, files, signatures. "
        "Status 1 where it does more than compute.",
        "bool",
    ),  # fmt: skip
    Flag("server", None, "host:port of a server that serves the model, for gRPC; default: it is loaded here."),
    Flag("model_name", "default", "Which of the server's models it is."),
    Flag("timeout", 60.0, "Seconds that the server has for a request.", "float", low=0),
    *_TLS,
    Flag(
        "tolerance",
        None,
        "Allowed difference of a number, times the number where that is over 1; default: 1e-4, or "
        "0.02 if the weights are bfloat16, 0.005 if float16, 0.1 if int8.",
        "float",
        low=0,
    ),  # fmt: skip
)


# === Model server ===
# Flags that tensorflow_model_server has besides those of `serving`: a command line of its own starts `serve` too.


LISTENING = (
    Flag("grpc_socket_path", None, "Unix socket on which gRPC is answered too."),
    Flag(
        "grpc_channel_arguments",
        None,
        "Arguments of gRPC's server, as key=value with commas between, such as grpc.max_connection_age_ms=2000.",
    ),  # fmt: skip
    Flag(
        "enable_serialization_as_tensor_content",
        False,
        "Whether Predict sends raw bytes over gRPC, which are read faster, and not lists of numbers.",
        "bool",
    ),  # fmt: skip
    Flag("use_alts_credentials", False, "Refused: there is no Google ALTS here.", "bool"),
    Flag("version", False, "Say which versions of bert_tf and TensorFlow these are, and end.", "bool"),
)

LOADING = (
    Flag("num_load_threads", 0, "Models that are loaded at a time; 0: one after the other.", "integer", low=0),
    Flag(
        "num_unload_threads",
        0,
        "Threads that free versions; 0: the last request of a version does it.",
        "integer",
        low=0,
    ),  # fmt: skip
    Flag("saved_model_tags", "serve", "Tags of the graph that is loaded of a SavedModel, with commas between."),
    Flag("enable_model_warmup", True, "Whether a version is warmed up before it serves.", "bool"),
    Flag("num_request_iterations_for_warmup", 0, "How often each of its warm-up requests is run; 0: once.", "integer"),
    Flag(
        "enable_signature_method_name_check",
        False,
        "Whether Classify and Regress refuse signatures that bear another method's name.",
        "bool",
    ),  # fmt: skip
    Flag(
        "prefer_tflite_model",
        False,
        "Whether a version that has a model.tflite is served from it, with LiteRT; requests must then hold token ids.",
        "bool",
    ),  # fmt: skip
    Flag(
        "num_tflite_pools",
        0,
        "Interpreters for each model.tflite; each computes one request at a time, with its share of the cores; 0: one.",
        "integer",
        low=0,
        high=64,
    ),  # fmt: skip
    Flag(
        "enable_per_model_batching_parameters",
        False,
        "With --enable_batching: each version is batched as its own "
        "batching_params.pbtxt says, one without not at all.",
        "bool",
    ),  # fmt: skip
)

SESSION = (
    Flag("tensorflow_session_config_file", None, "Text file with a ConfigProto, for TensorFlow's sessions."),
    Flag(
        "tensorflow_session_parallelism",
        0,
        "The same as both --tensorflow_intra_op_parallelism and --tensorflow_inter_op_parallelism.",
        "integer",
        low=0,
    ),  # fmt: skip
    Flag(
        "per_process_gpu_memory_fraction",
        0.0,
        "Of a GPU's memory that is taken; 0: as TensorFlow chooses.",
        "float",
        low=0,
        high=1,
    ),  # fmt: skip
    Flag("mixed_precision", None, "bfloat16: multiply matrices in it where the processor can."),
    Flag(
        "platform_config_file",
        None,
        "Text file with a PlatformConfigMap, in place of the flags of sessions, warm-up and batches.",
    ),  # fmt: skip
    Flag("thread_pool_factory_config_file", None, "Refused: there are no factories of threads here."),
)

_XLA = "what a model wants compiled by XLA always is."
WITHOUT_EFFECT = (
    Flag("enable_profiler", False, f"{NO_EFFECT}: there is no profiler service.", "bool"),
    Flag("flush_filesystem_caches", True, f"{NO_EFFECT}: TensorFlow keeps no caches of local files.", "bool"),
    Flag("num_tflite_interpreters_per_pool", 1, f"{NO_EFFECT}: LiteRT computes sequences one by one.", "integer"),
    Flag("remove_unused_fields_from_bundle_metagraph", True, f"{NO_EFFECT}: they are never kept.", "bool"),
    Flag("skip_initialize_tpu", False, f"{NO_EFFECT}: no TPU is used.", "bool"),
    Flag("xla_cpu_compilation_enabled", False, f"{NO_EFFECT}: {_XLA}", "bool"),
    Flag("xla_gpu_compilation_enabled", False, f"{NO_EFFECT}: {_XLA}", "bool"),
)

MODEL_SERVER = LISTENING + LOADING + SESSION + WITHOUT_EFFECT

# Flags that --platform_config_file replaces, as in tensorflow_model_server.
IN_PLATFORM_CONFIG = (
    "enable_batching",
    "batching_parameters_file",
    "enable_per_model_batching_parameters",
    "enable_model_warmup",
    "mixed_precision",
    "num_request_iterations_for_warmup",
    "num_tflite_pools",
    "per_process_gpu_memory_fraction",
    "prefer_tflite_model",
    "saved_model_tags",
    "tensorflow_inter_op_parallelism",
    "tensorflow_intra_op_parallelism",
    "tensorflow_session_config_file",
    "tensorflow_session_parallelism",
)


# === Connection ===
# Address and TLS options of programs that ask a server.


_FILES = ("root_file", "key_file", "certificate_file")  # of `serving.Tls`; the flags have a prefix


def tls_of(settings):
    """Returns the `serving.Tls` that the flags ask for, None for a connection that is not encrypted."""
    from bert_tf.serving import Tls

    files = {name: settings.get(f"tls_{name}") for name in _FILES}
    return Tls(**files) if settings.tls or any(files.values()) else None
