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
    Flag("ui", False, "Serve a page to try the models on, at / of the REST port.", "bool"),
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
