"""Files next to a model's versions for tensorflow_model_server: settings that its flags read from files.

Once written, they belong to the user and are never overwritten.
"""

import os
import re

from absl import logging
from google.protobuf import text_format

from bert_tf.models.config import EncoderConfig
from bert_tf.utils.files import write_text

MODELS, BATCHING, MONITORING = "models.config", "batching_parameters.txt", "monitoring.config"

# On a CPU, small batches are as efficient as large ones; larger batches only add waiting time.
_TOKENS = 4096  # of the longest examples in a batch
_FEWEST, _MOST = 32, 256  # examples: our clients send 32 at a time, and larger requests are rejected
_OPERATIONS = 50e9  # per second on a CPU; a batch waits for more examples for a tenth of one example's time
_LONGEST_WAIT, _SHORTEST_WAIT = 10_000, 1_000  # microseconds


def server_files(export_dir: str, config: EncoderConfig, max_seq_length: int) -> dict[str, str]:
    """Returns {name of the file: text} for a model.

    Args:
        export_dir: where its versions are.
        config: configuration of its encoder.
        max_seq_length: its longest sequence.
    """
    return {
        MODELS: _models(os.path.abspath(export_dir)),
        BATCHING: _batching(config, max_seq_length),
        MONITORING: _MONITORING,
    }


def write_server_files(export_dir: str, texts: dict[str, str]) -> list[str]:
    """Writes those of `server_files` that do not exist yet, and logs which of the others differ.

    Returns:
        the paths of the new files.

    Raises:
        OSError: a file cannot be written; all new files are removed.
    """
    written = []
    try:
        for name, text in texts.items():
            path = os.path.join(export_dir, name)
            if not os.path.lexists(path):
                write_text(path, text)
                written.append(path)
            elif not _says(path, text):
                logging.info("Kept the existing %s; if you remove it, the next export writes one that fits the model.",
                path)
    except OSError:
        for path in written:
            os.remove(path)
        raise
    return written


def model_name(export_dir: str) -> str:
    """Returns the name under which `models.config` serves a model: its directory's name, as far as URLs allow it."""
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
    examples = min(_MOST, max(_FEWEST, _TOKENS // max_seq_length))
    wait = min(_LONGEST_WAIT, max(_SHORTEST_WAIT, round(1e5 * _work(config, max_seq_length) / _OPERATIONS)))
    return _BATCHING.format(examples=examples, wait=wait, tokens=max_seq_length)


def _work(config, length):
    """Estimates the number of operations for a sequence of this length in the encoder."""
    hidden, wide = config.hidden_size, config.intermediate_size
    of_token = 2 * (4 * hidden * hidden + 2 * hidden * wide) + 4 * length * hidden
    return config.num_hidden_layers * length * of_token


_MODELS_COMMENT = """\
# For the flag model_config_file of tensorflow_model_server. It requires the absolute path; in a container, the path
# inside it.
"""

_BATCHING = """\
# For the flag batching_parameters_file of tensorflow_model_server, next to the flag enable_batching.
# Chosen for examples of up to {tokens} tokens on CPUs. A GPU is for larger batches and longer waits.

# Examples in a batch. A single request with more is rejected.
max_batch_size {{ value: {examples} }}

# How long an example waits for others: a tenth of the model's time for the longest example.
batch_timeout_micros {{ value: {wait} }}

# Batches that may wait; further requests fail with UNAVAILABLE, so that no client waits for long.
max_enqueued_batches {{ value: 16 }}

# Concurrent batches. Each uses all cores; a second one fills the gaps.
num_batch_threads {{ value: 2 }}

# Do not set pad_variable_length_inputs. It pads with a tensor's first element, so that the padding of `ids` would be
# [CLS] with an input_mask of 1, and would count as tokens. Texts need no padding: the graph pads them.
"""

_MONITORING = """\
# For the flag monitoring_config_file of tensorflow_model_server: Prometheus finds the metrics at this path of the REST
# port.
prometheus_config {
  enable: true
  path: "/monitoring/prometheus/metrics"
}
"""
