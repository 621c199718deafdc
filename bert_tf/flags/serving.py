"""Flags of serving: tensorflow_model_server's names for the server, and the client's."""

from bert_tf.settings import Flag

SERVE = (
    Flag("model_base_path", None, "Folder with a numbered folder for each version.", required=True),
    Flag("model_name", "default", "Name of the model in requests."),
    Flag("port", 8500, "For gRPC; 0 takes any free one and says which.", "integer", low=0, high=65535),
    Flag("rest_api_port", 8501, "For REST; 0 takes any free one and says which.", "integer", low=0, high=65535),
    Flag("host", "127.0.0.1", "Address to listen on: this machine only, unless you say 0.0.0.0 (there is no "
         "password)."),  # fmt: skip
    Flag("file_system_poll_wait_seconds", 1.0, "Seconds between checks for new versions; 0: once.", "float", low=0),
)

_CONNECTION = (
    Flag("server", "localhost:8500", "host:port of the server, for gRPC."),
    Flag("model_name", "default", "Which of its models."),
    Flag("timeout", 10.0, "Seconds after which a request gives up.", "float", low=0),
    Flag("tls", False, "Encrypt the connection, and trust the certificate authorities that gRPC brings.", "bool"),
    Flag("tls_root_file", None, "Encrypt the connection, and trust these certificates (PEM)."),
    Flag("tls_key_file", None, "Key by which this client proves who it is (PEM)."),
    Flag("tls_certificate_file", None, "Certificate that goes with the key (PEM)."),
)

ASK = (
    *_CONNECTION,
    Flag("inputs", [], "Names of the texts that an example has, such as question,context: arguments come in this "
         "order, lines are tab-separated. Default: the model is asked which it takes.", "list"),  # fmt: skip
    Flag("pair", False, "The same as --inputs=text_a,text_b: the model compares two texts.", "bool"),
    Flag("choices", False, "The same as --inputs=context,choices: the model chooses. All arguments, or all texts of a "
         "line, are then one example: the context and its choices.", "bool"),  # fmt: skip
)

LOAD_TEST = (
    *_CONNECTION,
    Flag("input_file", None, "Texts, an example a line, with tabs where the model takes several; also packed (.gz).",
         required=True),  # fmt: skip
    Flag("signature", "", "Which signature is asked; default: serving_default."),
    Flag("rest", False, "Ask over REST; --server is then the host and port of that.", "bool"),
    Flag("callers", None, "How many callers ask, each as soon as it has its answer; default 8 where there is no "
         "--rate.", "integer", low=1),  # fmt: skip
    Flag("rate", [], "Requests a second on average, at random times that no answer delays; several with commas "
         "between are tried in turn.", "list"),  # fmt: skip
    Flag("seconds", 10.0, "How long each of these lasts.", "float", low=0.1),
    Flag("warm_up_seconds", 2.0, "How long callers ask before anything is counted.", "float", low=0),
    Flag("batch_size", 1, "Examples of a request.", "integer", low=1),
    Flag("seed", 0, "Of the order of the examples and of the times of --rate.", "integer", low=0),
    Flag("output_dir", None, "Writes load_test.json and load_test.html there; default: the figures are only printed."),
)
