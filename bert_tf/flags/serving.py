"""Flags of serving: tensorflow_model_server's names for the server, and the client's."""

from bert_tf.settings import Flag

SERVE = (
    Flag("model_base_path", None, "Folder with a numbered folder for each version of one model."),
    Flag("model_name", "default", "Name of the model in requests."),
    Flag("port", 8500, "For gRPC; 0 takes any free one and says which.", "integer", low=0, high=65535),
    Flag("rest_api_port", 8501, "For REST; 0 takes any free one and says which.", "integer", low=0, high=65535),
    Flag("host", "127.0.0.1", "Address to listen on: this machine only, unless you say 0.0.0.0 (there is no "
         "password)."),  # fmt: skip
    Flag("file_system_poll_wait_seconds", 1.0, "Seconds between checks for new versions; 0: once.", "float", low=0),
)

MODELS = (
    Flag("model_config_file", None, "Text file with a ModelServerConfig, which lists the models; instead of "
         "--model_base_path and --model_name."),  # fmt: skip
    Flag("model_config_file_poll_wait_seconds", 0.0, "Seconds between checks for changes of that file; 0: never.",
         "float", low=0),  # fmt: skip
    Flag("allow_version_labels_for_unavailable_models", False, "Whether a new label may point to a version that is "
         "not loaded.", "bool"),  # fmt: skip
    Flag("max_num_load_retries", 5, "How often a version that cannot be loaded is tried again.", "integer", low=0),
    Flag("load_retry_interval_micros", 60000000, "Microseconds before it is tried again.", "integer", low=0),
)

BATCHING = (
    Flag("enable_batching", False, "Compute the requests of several callers together.", "bool"),
    Flag("batching_parameters_file", None, "Text file with BatchingParameters: how large batches and their queue are."),
    Flag("max_batch_tokens", 512, "Tokens of a batch with its padding, about: rows times the longest.", "integer",
         low=1),  # fmt: skip
)

ASK = (
    Flag("server", "localhost:8500", "host:port of the server, for gRPC."),
    Flag("model_name", "default", "Which of its models."),
    Flag("timeout", 10.0, "Seconds after which a request gives up.", "float", low=0),
    Flag("inputs", ["text"], "Names of the texts that an example has, such as question,context: arguments come "
         "in this order, lines are tab-separated.", "list"),  # fmt: skip
    Flag("pair", False, "The same as --inputs=text_a,text_b: the model compares two texts.", "bool"),
    Flag("choices", False, "The same as --inputs=context,choices: the model chooses. All arguments, or all texts of a "
         "line, are then one example: the context and its choices.", "bool"),  # fmt: skip
)
