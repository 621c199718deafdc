"""Requests that TensorFlow Serving runs before it announces a version, so that the first user does not wait."""

from bert_tf.export.requests import prediction_log, signature_inputs, write_logs
from bert_tf.export.served import ServedModel

_FILE = "tf_serving_warmup_requests"
_ROWS = (1, 8)


def write_requests(directory: str, served: ServedModel):
    """Writes `assets.extra/tf_serving_warmup_requests` of the SavedModel in `directory`.

    Each signature is asked about one example and about several, short ones and such as fill the longest row.
    """
    write_logs(directory, _FILE, _logs(served))


def _logs(served):
    for words in (None, served.max_seq_length):
        for rows in _ROWS:
            for signature, inputs in signature_inputs(served, served.samples(rows, words)).items():
                yield prediction_log(signature, inputs)
