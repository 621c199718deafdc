"""Tries a .tflite file in a child process: LiteRT verifies only parts of it, and a damaged one can end the process."""

import contextlib
import hashlib
import os
import signal
import subprocess
import sys

import numpy as np

from bert_tf.utils.litert_runner import interpreter_class

_MARK = b"TFL3"  # at byte 4
_LIMIT_S = 600  # for the import of TensorFlow and a run of each signature
_FILLS = 0, -1, 2**31 - 1  # of integer inputs: LiteRT should reject ids that are not in the vocabulary
_passed = set()  # SHA-256 of files that this process has tried


def check_litert(data: bytes):
    """Raises ValueError if the bytes are not a .tflite file, or if LiteRT crashes when it loads and runs them.

    Errors that LiteRT raises are not raised here, because the caller's interpreter raises them again. A file is tried
    once per process, which takes the time to import TensorFlow.
    """
    if data[4:8] != _MARK:
        raise ValueError("the file is not a LiteRT model")
    if (digest := hashlib.sha256(data).digest()) in _passed:
        return
    if (status := _run_in_child(data)) < 0:
        raise ValueError(f"the file is damaged: a trial run in a child process ended with {_name(-status)}")
    _passed.add(digest)


def _run_in_child(data):
    """Returns the exit status of a child process that runs all signatures; -N for the signal N."""
    command = [sys.executable, "-m", "bert_tf.utils.litert_trial"]
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    try:
        return subprocess.run(command, input=data, capture_output=True, env=quiet, timeout=_LIMIT_S).returncode
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"a trial run in a child process took longer than {_LIMIT_S} s") from error


def _name(number):
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def run_all_signatures(data: bytes):
    """Loads a model and runs its graph and each of its signatures with zeros and extreme ids; only a crash matters."""
    for fill in _FILLS:
        with contextlib.suppress(ValueError, RuntimeError):
            interpreter = interpreter_class()(model_content=data, num_threads=1)
            interpreter.allocate_tensors()
            for detail in interpreter.get_input_details():  # of the first graph, which a file without signatures has
                interpreter.set_tensor(detail["index"], _filled(detail, fill))
            interpreter.invoke()
            for name in interpreter.get_signature_list():
                run = interpreter.get_signature_runner(name)
                run(**{key: _filled(each, fill) for key, each in run.get_input_details().items()})


def _filled(detail, fill):
    kind = np.dtype(detail["dtype"]).kind
    return np.full(detail["shape"], fill if kind == "i" else 0, detail["dtype"])


if __name__ == "__main__":
    run_all_signatures(sys.stdin.buffer.read())
