"""Flags of serving: tensorflow_model_server's names for the server, and the client's."""

from bert_tf.utils.settings import NO_EFFECT, Flag

SERVE = (
    Flag(
        "model_base_path", None,
        "Directory of one model, with a numbered subdirectory for each version.",
        group="Models to serve", essential=True,
    ),
    Flag("model_name", "default", "Name of the model in requests.", group="Models to serve"),
    Flag(
        "port", 8500,
        "gRPC port. 0 takes any free port and logs it; together with --grpc_socket_path, 0 opens no port.",
        "integer", low=0, high=65535, group="Ports and protocols", essential=True,
    ),
    Flag(
        "rest_api_port", 8501,
        "REST port. 0 takes any free port and logs it.",
        "integer", low=0, high=65535, group="Ports and protocols", essential=True,
    ),
    Flag(
        "host", "127.0.0.1",
        "Address to listen on. The default accepts connections from this machine only; 0.0.0.0 accepts all (there is "
        "no password).",
        group="Ports and protocols", essential=True,
    ),
    Flag(
        "allowed_hosts", [],
        "Host names that REST requests may use in addition to localhost, --host and any IP address; * allows all "
        "names. Default: none, but all if --host is 0.0.0.0 or ::.",
        "list", group="Ports and protocols", essential=True,
    ),
    Flag(
        "ui", False,
        "Serve a page for trying the models at / of the REST port.",
        "bool", group="Ports and protocols", essential=True,
    ),
    Flag(
        "file_system_poll_wait_seconds", 1.0,
        "Seconds between checks for new versions; 0 checks once.",
        "float", low=0, group="Models to serve",
    ),
    Flag(
        "grpc_max_threads", 256,
        "Maximum number of gRPC requests handled concurrently; further requests are rejected.",
        "integer", low=1, group="Batching and threads",
    ),
    Flag(
        "rest_api_num_threads", 128,
        "Maximum number of REST requests handled concurrently; further requests are rejected.",
        "integer", low=1, group="Batching and threads",
    ),
    Flag(
        "max_concurrent_runs", 0,
        "Maximum number of graph runs at a time, for all requests; others wait their turn. 0: two per core.",
        "integer", low=0, group="Batching and threads", essential=True,
    ),
    Flag(
        "max_pending_tokens", 2**20,
        "Maximum number of tokens of all requests that are being computed or waiting; further requests are rejected.",
        "integer", low=1, group="Limits", essential=True,
    ),
    Flag(
        "tensorflow_intra_op_parallelism", 0,
        "Number of threads that compute one operation together; 0: the number of cores. With 1, CPU exports "
        "(`--export_for=cpu`) and short texts have lower latency.",
        "integer", low=0, group="Batching and threads", essential=True,
    ),
    Flag(
        "tensorflow_inter_op_parallelism", 0,
        "Number of threads that compute operations in parallel, for a request to a CPU export that runs alone; 0: "
        "the number of cores.",
        "integer", low=0, group="Batching and threads", essential=True,
    ),
    Flag(
        "rest_api_timeout_in_ms", 30000,
        "Time limit of a REST request in milliseconds.",
        "integer", low=1, group="Limits", essential=True,
    ),
    Flag(
        "rest_api_enable_cors_support", False,
        "Allow requests from web pages of other origins (CORS).",
        "bool", group="Ports and protocols",
    ),
    Flag(
        "enable_grpc_healthcheck_service", False,
        "Offer the service grpc.health.v1 over gRPC.",
        "bool", group="Ports and protocols",
    ),
    Flag(
        "enable_grpc_reflection", False,
        "Offer gRPC reflection, which lists the services and their messages.",
        "bool", group="Ports and protocols",
    ),
    Flag(
        "monitoring_config_file", None,
        "Text file with a MonitoringConfig, which enables a Prometheus page on the REST port and sets its path.",
        group="Ports and protocols", essential=True,
    ),
    Flag(
        "ssl_config_file", None,
        "Text file with an SSLConfig, which encrypts both ports.",
        group="Ports and protocols", essential=True,
    ),
    Flag(
        "grace_seconds", 30.0,
        "Seconds that a stopping server waits for running requests.",
        "float", low=0, group="Ports and protocols", essential=True,
    ),
)

SEARCH = (
    Flag(
        "search_index", None,
        "Index made with `bert-tf embed --index_dir`, which POST /v1/search of the REST port searches. Changes of the "
        "index count from the next request on.",
        group="Ports and protocols", essential=True,
    ),
    Flag(
        "search_model", None,
        "Model that the index was made with. Default: its path at that time.",
        group="Ports and protocols",
    ),
    Flag(
        "search_approximate", False,
        "Search large indexes by a graph, as with --approximate of `bert-tf search`.",
        "bool", group="Ports and protocols",
    ),
    Flag(
        "search_reranker", None,
        "Exported or trained reranker, or CrossEncoder directory, that orders texts found.",
        group="Ports and protocols",
    ),
    Flag(
        "search_rerank_weight", 1.0,
        "Weight of the reranker's scores, as with --rerank_weight of `bert-tf search`.",
        "float", low=0.0, high=1.0, group="Ports and protocols",
    ),
    Flag(
        "search_reader", None,
        "Exported or trained question-answering model that answers the queries from the texts found.",
        group="Ports and protocols",
    ),
)

# Limits of one request: the fields of serving.limits.Limits.
LIMITS = (
    Flag("max_message_bytes", 2**26, "Maximum size of a gRPC message in bytes.", "integer", low=1, group="Limits"),
    Flag(
        "max_body_bytes", 2**26,
        "Maximum size of a REST body in bytes, before and after decompression.",
        "integer", low=1, group="Limits",
    ),
    Flag(
        "max_batch_size", 4096,
        "Maximum number of texts, examples or instances per request.",
        "integer", low=1, group="Limits", essential=True,
    ),
    Flag(
        "max_request_tokens", 3 * 2**16,
        "Maximum number of tokens per request; texts count one token per four bytes, as far as the model reads them.",
        "integer", low=1, group="Limits", essential=True,
    ),
    Flag(
        "max_output_elements", 2**24,
        "Maximum number of elements of an output tensor; a larger one is not sent.",
        "integer", low=1, group="Limits",
    ),
)

MODELS = (
    Flag(
        "model_config_file", None,
        "Text file with a ModelServerConfig that lists the models, instead of --model_base_path and --model_name.",
        group="Models to serve", essential=True,
    ),
    Flag(
        "model_config_file_poll_wait_seconds", 0.0,
        "Seconds between checks of --model_config_file for changes; 0: never.",
        "float", low=0, group="Models to serve",
    ),
    Flag(
        "enable_model_config_reload", False,
        "Let anyone who reaches the gRPC port replace the models with HandleReloadConfigRequest. If not given: only "
        "with --model_config_file.",
        "bool", group="Models to serve",
    ),
    Flag(
        "model_config_reload_base_paths", None,
        "Directories that may contain the base paths of such a request, in addition to those that the server is "
        "started with.",
        "list", group="Models to serve",
    ),
    Flag(
        "allow_version_labels_for_unavailable_models", False,
        "Allow a new label to point to a version that is not loaded.",
        "bool", group="Models to serve",
    ),
    Flag(
        "keep_previous_version", False,
        "Keep the previous version loaded, as long as its directory exists, so that a rollback takes effect at the "
        "next check. This needs memory for a second model.",
        "bool", group="Models to serve",
    ),
    Flag(
        "max_num_load_retries", 5,
        "Number of times that loading a version is retried.",
        "integer", low=0, group="Models to serve",
    ),
    Flag(
        "load_retry_interval_micros", 60000000,
        "Microseconds until loading is retried; negative: at the next check.",
        "integer", group="Models to serve",
    ),
)

BATCHING = (
    Flag(
        "enable_batching", False,
        "Batch requests of several clients together.",
        "bool", group="Batching and threads", essential=True,
    ),
    Flag(
        "batching_parameters_file", None,
        "Text file with BatchingParameters: sizes of batches and of their queue.",
        group="Batching and threads", essential=True,
    ),
    Flag(
        "max_batch_tokens", 512,
        "Approximate maximum number of tokens per batch, padding included: sequences times the longest length.",
        "integer", low=1, group="Batching and threads", essential=True,
    ),
)

_TLS = (
    Flag(
        "tls", False,
        "Encrypt the connection, and trust the certificate authorities that come with gRPC.",
        "bool", group="Server and requests",
    ),
    Flag("tls_root_file", None, "Certificates (PEM) to trust; encrypts the connection.", group="Server and requests"),
    Flag(
        "tls_key_file", None,
        "Private key (PEM) with which this client authenticates itself.",
        group="Server and requests",
    ),
    Flag(
        "tls_certificate_file", None,
        "Certificate (PEM) that belongs to --tls_key_file.",
        group="Server and requests",
    ),
)

_CONNECTION = (
    Flag(
        "server", "localhost:8500",
        "gRPC address of the server: host:port, such as [::1]:8500, or unix:PATH if it listens on a socket.",
        group="Server and requests",
    ),
    Flag("model_name", "default", "Name of the model on the server.", group="Server and requests"),
    Flag("timeout", 10.0, "Seconds after which a request is given up.", "float", low=0, group="Server and requests"),
    *_TLS,
)

ASK = (
    *_CONNECTION,
    Flag(
        "inputs", [],
        "Names of the texts of an example, such as question,context: arguments come in this order, and lines are "
        "tab-separated. Default: as the model reports them.",
        "list", group="Server and requests",
    ),
    Flag(
        "pair", False,
        "Same as --inputs=text_a,text_b, for a model that compares two texts.",
        "bool", group="Server and requests",
    ),
    Flag(
        "choices", False,
        "Same as --inputs=context,choices, for a multiple-choice model. All arguments, or all texts of a line, are "
        "then one example: the context and its choices.",
        "bool", group="Server and requests",
    ),
)

LOAD_TEST = (
    *_CONNECTION,
    Flag(
        "input_file", None,
        "File of texts, one example per line, with tabs between the texts if the model takes several; may be gzipped "
        "(.gz).",
        required=True, group="Data", essential=True,
    ),
    Flag(
        "inputs", [],
        "Names of the texts of a line, in their order. Default: the customary order, if it is known.",
        "list", group="Server and requests",
    ),
    Flag("signature", "", "Signature to request. Default: serving_default.", group="Server and requests"),
    Flag(
        "rest", False,
        "Send requests over REST; --server is then the REST host and port.",
        "bool", group="Server and requests",
    ),
    Flag(
        "callers", None,
        "Number of concurrent clients, each of which sends its next request as soon as it has a response. Default: "
        "8, unless --rate is given.",
        "integer", low=1, group="Server and requests",
    ),
    Flag(
        "rate", [],
        "Requests per second on average, at random times that no response delays; several request rates are tested "
        "in turn.",
        "list", group="Server and requests",
    ),
    Flag("seconds", 10.0, "Seconds that each measurement lasts.", "float", low=0.1, group="Server and requests"),
    Flag(
        "warm_up_seconds", 2.0,
        "Seconds of requests before anything is measured.",
        "float", low=0, group="Server and requests",
    ),
    Flag("batch_size", 1, "Number of examples per request.", "integer", low=1, group="Server and requests"),
    Flag(
        "seed", 0,
        "Random seed for the order of the examples and for the times of --rate.",
        "integer", low=0, group="Server and requests",
    ),
    Flag(
        "output_dir", None,
        "Directory for load_test.json and load_test.html. Default: the results are only printed.",
        group="Output", essential=True,
    ),
)

VERIFY = (
    Flag(
        "inspect", False,
        "List what the model's graph would do, without loading it: operations, files, signatures. Exits with status "
        "1 if it does more than compute.",
        "bool", group="What to do",
    ),
    Flag(
        "server", None,
        "gRPC address, host:port, of a server that serves the model. Default: the model is loaded here.",
        group="Server and requests",
    ),
    Flag("model_name", "default", "Name of the model on the server.", group="Server and requests"),
    Flag("timeout", 60.0, "Seconds that the server has for a request.", "float", low=0, group="Server and requests"),
    *_TLS,
    Flag(
        "tolerance", None,
        "Allowed difference of a number, relative if the number is over 1. Default: 1e-4, or 0.02 if the weights are "
        "bfloat16, 0.005 if float16, 0.1 if int8.",
        "float", low=0, group="Evaluation",
    ),
)


# === Model server ===
# Flags that tensorflow_model_server has besides those of `serving`: a command line of its own starts `serve` too.


LISTENING = (
    Flag("grpc_socket_path", None, "Unix socket that also accepts gRPC requests.", group="Ports and protocols"),
    Flag(
        "grpc_channel_arguments", None,
        "Arguments of the gRPC server, key=value pairs separated by commas, such as grpc.max_connection_age_ms=2000.",
        group="Ports and protocols",
    ),
    Flag(
        "enable_serialization_as_tensor_content", False,
        "Send the outputs of Predict over gRPC as raw bytes, which are read faster, instead of lists of numbers.",
        "bool", group="Ports and protocols",
    ),
    Flag(
        "enable_profiler", False,
        "Let callers profile the server over gRPC, as TensorBoard does; profiles are saved only for callers on the "
        "same machine.",
        "bool", group="Ports and protocols",
    ),
    Flag(
        "use_alts_credentials", False,
        "Google ALTS, which is not supported: the flag is rejected.",
        "bool", group="Ports and protocols",
    ),
    Flag("version", False, "Print the versions of bert_tf and TensorFlow, and exit.", "bool", group="What to do"),
)

LOADING = (
    Flag(
        "num_load_threads", 0,
        "Number of models that are loaded in parallel; 0: one after the other.",
        "integer", low=0, group="Models to serve",
    ),
    Flag(
        "num_unload_threads", 0,
        "Number of threads that free versions; 0: the last request of a version frees it.",
        "integer", low=0, group="Models to serve",
    ),
    Flag(
        "saved_model_tags", "serve",
        "Tags of the graph to load from a SavedModel, separated by commas.",
        group="Models to serve",
    ),
    Flag("enable_model_warmup", True, "Warm up each version before it serves.", "bool", group="Models to serve"),
    Flag(
        "num_request_iterations_for_warmup", 0,
        "Number of times that each warmup request is run; 0: once.",
        "integer", group="Models to serve",
    ),
    Flag(
        "enable_signature_method_name_check", False,
        "Make Classify and Regress reject signatures that have another method's name.",
        "bool", group="Models to serve",
    ),
    Flag(
        "prefer_tflite_model", False,
        "Serve versions that have a model.tflite from it, with LiteRT; models exported by bert_tf then take token ids.",
        "bool", group="Models to serve",
    ),
    Flag(
        "num_tflite_pools", 0,
        "Number of interpreters per model.tflite; each computes one request at a time, with its share of the cores. "
        "0: one.",
        "integer", low=0, high=64, group="Models to serve",
    ),
    Flag(
        "enable_per_model_batching_parameters", False,
        "With --enable_batching: batch each version as its own batching_params.pbtxt says, and versions without one "
        "not at all.",
        "bool", group="Batching and threads",
    ),
)

SESSION = (
    Flag(
        "tensorflow_session_config_file", None,
        "Text file with a ConfigProto for TensorFlow's sessions.",
        group="Batching and threads",
    ),
    Flag(
        "tensorflow_session_parallelism", 0,
        "Same as both --tensorflow_intra_op_parallelism and --tensorflow_inter_op_parallelism.",
        "integer", low=0, group="Batching and threads",
    ),
    Flag(
        "per_process_gpu_memory_fraction", 0.0,
        "Share of a GPU's memory to take; 0: as TensorFlow chooses.",
        "float", low=0, high=1, group="Batching and threads",
    ),
    Flag(
        "mixed_precision", None,
        "Data type of matrix products: bfloat16 multiplies in it if the CPU can.",
        group="Batching and threads",
    ),
    Flag(
        "platform_config_file", None,
        "Text file with a PlatformConfigMap, instead of the flags of sessions, warmup and batching.",
        group="Batching and threads",
    ),
    Flag(
        "thread_pool_factory_config_file", None,
        "Thread pool factories, which are not supported: the flag is rejected.",
        group="Batching and threads",
    ),
)

_XLA = "what a model wants compiled by XLA always is."
WITHOUT_EFFECT = (
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


_FILES = ("root_file", "key_file", "certificate_file")  # of `Tls`; the flags have a prefix


def tls_of(settings):
    """Returns the `Tls` that the flags ask for, None for a connection that is not encrypted."""
    from bert_tf.serving import Tls

    files = {name: settings.get(f"tls_{name}") for name in _FILES}
    return Tls(**files) if settings.tls or any(files.values()) else None
