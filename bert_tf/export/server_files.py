"""What stands beside a model's versions for tensorflow_model_server: the settings that its flags take as files.

They are the user's as soon as they are there: none is written over.
"""

import os
import re

from absl import logging
from google.protobuf import text_format

from bert_tf.models.config import EncoderConfig
from bert_tf.utils.files import write_text

MODELS, BATCHING, MONITORING = "models.config", "batching_parameters.txt", "monitoring.config"

# A processor computes few rows at a time as fast as many; more of them only make each other wait.
_PIECES = 4096  # of the longest rows in a batch
_FEWEST, _MOST = 32, 256  # rows: clients of ours send 32 examples at a time, and a larger request is refused
_OPERATIONS = 50e9  # a second, of a processor; what a batch waits for more rows is a tenth of what one row takes
_LONGEST_WAIT, _SHORTEST_WAIT = 10_000, 1_000  # microseconds


def server_files(export_dir: str, config: EncoderConfig, max_seq_length: int) -> dict[str, str]:
    """Returns {name of the file: text} for a model.

    Args:
        export_dir: where its versions are.
        config: of its encoder.
        max_seq_length: its longest row.
    """
    return {
        MODELS: _models(os.path.abspath(export_dir)),
        BATCHING: _batching(config, max_seq_length),
        MONITORING: _MONITORING,
    }


def write_server_files(export_dir: str, texts: dict[str, str]) -> list[str]:
    """Writes those of `server_files` that are not there yet, and says which of the others say something else.

    Returns:
        the paths that were written.

    Raises:
        OSError: one cannot be written; none of them is left.
    """
    written = []
    try:
        for name, text in texts.items():
            path = os.path.join(export_dir, name)
            if not os.path.lexists(path):
                write_text(path, text)
                written.append(path)
            elif not _says(path, text):
                logging.info("%s was kept as it is; without it, an export writes what fits the model.", path)
    except OSError:
        for path in written:
            os.remove(path)
        raise
    return written


def model_name(export_dir: str) -> str:
    """Returns the name under which `models.config` serves a model: that of its folder, as far as a URL takes it."""
    name = os.path.basename(os.path.abspath(export_dir))
    return re.sub(r"[^\w.-]+", "_", name, flags=re.ASCII).strip("_") or "model"


def _says(path, text):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read() == text
    except (OSError, UnicodeDecodeError):
        return False


def _models(base_path):
    from tensorflow_serving.config import model_server_config_pb2

    config = model_server_config_pb2.ModelServerConfig()
    config.model_config_list.config.add(name=model_name(base_path), base_path=base_path, model_platform="tensorflow")
    return _MODELS_COMMENT + text_format.MessageToString(config)


def _batching(config, max_seq_length):
    rows = min(_MOST, max(_FEWEST, _PIECES // max_seq_length))
    wait = min(_LONGEST_WAIT, max(_SHORTEST_WAIT, round(1e5 * _work(config, max_seq_length) / _OPERATIONS)))
    return _BATCHING.format(rows=rows, wait=wait, pieces=max_seq_length)


def _work(config, length):
    """Returns the operations that a row of this length costs in the encoder, near enough."""
    hidden, wide = config.hidden_size, config.intermediate_size
    of_piece = 2 * (4 * hidden * hidden + 2 * hidden * wide) + 4 * length * hidden
    return config.num_hidden_layers * length * of_piece


_MODELS_COMMENT = """\
# For the flag model_config_file of tensorflow_model_server. It wants the absolute path: in a container, the one inside.
"""

_BATCHING = """\
# For the flag batching_parameters_file of tensorflow_model_server, beside the flag enable_batching.
# Chosen for rows of up to {pieces} word pieces on processors. A GPU is for larger batches and longer waits.

# Examples in a batch. A single request with more is refused.
max_batch_size {{ value: {rows} }}

# How long an example waits for others: a tenth of what the model takes for one long row.
batch_timeout_micros {{ value: {wait} }}

# Batches that may wait; what comes then is refused with UNAVAILABLE, so that nobody waits for long.
max_enqueued_batches {{ value: 16 }}

# Batches at a time. Each uses all cores; a second one fills the gaps.
num_batch_threads {{ value: 2 }}

# pad_variable_length_inputs must stay out. It pads with a tensor's first element, so that the padding of `ids` would be
# [CLS] with an input_mask of 1, and be read. Texts need no padding: the graph does it.
"""

_MONITORING = """\
# For the flag monitoring_config_file of tensorflow_model_server: Prometheus finds the metrics at this path of the REST
# port.
prometheus_config {
  enable: true
  path: "/monitoring/prometheus/metrics"
}
"""
