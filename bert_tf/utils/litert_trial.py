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
_LIMIT_S = 600  # for the import of the interpreter, often with TensorFlow, and a run of each signature
_FILLS = 0, -1, 2**31 - 1  # of integer inputs: LiteRT should reject ids that are not in the vocabulary
_DONE = b"All signatures were run."  # what the child says last: a status of 0 may be that of some other program
_CRASHES = signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT  # others come from outside
_MOST_SAID = 300  # characters of an error
_passed = set()  # SHA-256 of files that this process has tried


class UntriedError(OSError):
    """A trial that did not come to its end for a reason that is not known to be the file: it may be repeated."""


def check_litert(data: bytes):
    """Tries a file in a child process, once in this process: it takes the time to import TensorFlow, or ai-edge-litert.

    Errors that LiteRT raises are not raised here, because the caller's interpreter raises them again.

    Raises:
        ValueError: the bytes are not a .tflite file, or LiteRT crashes when it loads and runs them.
        UntriedError: that is not known, for example because memory ran out, and the file must not be loaded.
    """
    if data[4:8] != _MARK:
        raise ValueError("the file is not a LiteRT model")
    if (digest := hashlib.sha256(data).digest()) in _passed:
        return
    status, said = _run_in_child(data)
    if status:
        raise _explain(status, said)
    _passed.add(digest)


def _run_in_child(data):
    """Returns the exit status of a child process that runs all signatures, -N for the signal N, and its errors."""
    command = [sys.executable or "python", "-m", "bert_tf.utils.litert_trial"]
    # The child finds the modules where this process does, which may have changed its path.
    path = os.pathsep.join(each for each in sys.path if each)
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "PYTHONPATH": path}
    try:
        done = subprocess.run(command, input=data, capture_output=True, env=quiet, timeout=_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise UntriedError(f"a trial run in a child process took longer than {_LIMIT_S} s") from error
    except OSError as error:
        raise UntriedError(f"no child process could be started for a trial run: {command[0]}: {error}") from error
    if not done.returncode and not done.stdout.endswith(_DONE):
        raise UntriedError(f"{command[0]}, started for a trial run, did not run it as Python does")
    return done.returncode, done.stderr.decode("utf-8", "replace")


def _explain(status, said):
    """Returns the error for a child that did not come to its end."""
    child, last = "a trial run in a child process", said.strip().rpartition("\n")[2][:_MOST_SAID]
    if status == -signal.SIGKILL:
        return UntriedError(f"{child} was killed (SIGKILL), as systems do when memory runs out; give it more memory")
    if "MemoryError" in last or "std::bad_alloc" in said:
        return UntriedError(f"{child} ran out of memory ({last}); give it more memory")
    if -status in _CRASHES:
        return ValueError(f"the file is damaged: {child} ended with {_name(-status)}")
    how = _name(-status) if status < 0 else f"status {status}"
    return UntriedError(f"{child} ended with {how}" + (f": {last}" if last else ""))


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
    dtype = np.dtype(detail["dtype"])
    extreme = min(fill, np.iinfo(dtype).max) if dtype.kind == "i" else 0
    return np.full(detail["shape"], extreme, dtype)


if __name__ == "__main__":
    run_all_signatures(sys.stdin.buffer.read())
    sys.stdout.buffer.write(_DONE)
