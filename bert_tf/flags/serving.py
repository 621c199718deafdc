"""Flags of serving: tensorflow_model_server's names for the server, and the client's."""

from bert_tf.settings import Flag

SERVE = (
    Flag("model_base_path", None, "Folder with a numbered folder for each version.", required=True),
    Flag("model_name", "default", "Name of the model in requests."),
    Flag("port", 8500, "For gRPC; 0 takes any free one and says which.", "integer", low=0, high=65535),
    Flag("rest_api_port", 8501, "For REST; 0 takes any free one and says which.", "integer", low=0, high=65535),
    Flag("host", "127.0.0.1", "Address to listen on: this machine only, unless you say 0.0.0.0 (there is no "
         "password)."),  # fmt: skip
    Flag("ui", False, "Serve a page to try the models on, at / of the REST port.", "bool"),
    Flag("file_system_poll_wait_seconds", 1.0, "Seconds between checks for new versions; 0: once.", "float", low=0),
    Flag("grpc_max_threads", 256, "gRPC requests that are answered at once; one more is refused.", "integer", low=1),
    Flag("rest_api_num_threads", 128, "The same of REST.", "integer", low=1),
    Flag("rest_api_timeout_in_ms", 30000, "In which a REST request is answered.", "integer", low=1),
    Flag("rest_api_enable_cors_support", False, "Whether pages from elsewhere may ask, in a browser.", "bool"),
    Flag("enable_grpc_healthcheck_service", False, "Whether gRPC offers grpc.health.v1.", "bool"),
    Flag("enable_grpc_reflection", False, "Whether gRPC tells its services and their messages.", "bool"),
    Flag("monitoring_config_file", None, "Text file with a MonitoringConfig: whether and where REST has Prometheus's "
         "page."),  # fmt: skip
    Flag("ssl_config_file", None, "Text file with an SSLConfig: both ports are then encrypted."),
    Flag("grace_seconds", 30.0, "Seconds that a stop waits for the requests in progress.", "float", low=0),
)

# What one request may cost: the fields of serving.limits.Limits.
LIMITS = (
    Flag("max_message_bytes", 2**26, "Of a gRPC message.", "integer", low=1),
    Flag("max_message_fields", 2**18, "Fields, strings and nested messages in a gRPC message.", "integer", low=1),
    Flag("max_body_bytes", 2**26, "Of a REST body as it is sent.", "integer", low=1),
    Flag("max_inflated_bytes", 2**26, "Of a REST body once it is unpacked.", "integer", low=1),
    Flag("max_nesting", 32, "Of lists and objects in JSON.", "integer", low=1),
    Flag("max_json_values", 2**20, "Values, lists and objects in a REST body.", "integer", low=1),
    Flag("max_tensor_elements", 2**22, "Of one input tensor.", "integer", low=1),
    Flag("max_batch_size", 4096, "Rows of a request: texts, examples or instances.", "integer", low=1),
    Flag("max_text_bytes", 2**22, "Of one string.", "integer", low=1),
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
