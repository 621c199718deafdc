"""Golden requests: what the model answered when it was exported, kept beside it, so that any server can be held to it.

`serving/verification.py` asks them again.
"""

from collections.abc import Callable, Mapping

from bert_tf.export.requests import prediction_log, signature_inputs, write_logs
from bert_tf.export.served import ServedModel
from bert_tf.names import GOLDEN_REQUESTS

_ROWS = 4


def write_goldens(directory: str, served: ServedModel, functions: Mapping[str, Callable]):
    """Writes `assets.extra/golden_requests` of the SavedModel in `directory`: requests with the responses to them.

    Args:
        directory: the SavedModel's.
        served: the model, still in memory: its files have no part in the responses.
        functions: what `served.signatures` returned.
    """
    write_logs(directory, GOLDEN_REQUESTS, _logs(served, functions))


def _logs(served, functions):
    for rows, words in ((_ROWS, None), (1, None), (1, served.max_seq_length)):
        for signature, inputs in signature_inputs(served, served.samples(rows, words)).items():
            yield prediction_log(signature, inputs, functions[signature](*inputs.values()))
