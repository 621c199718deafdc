"""Runs run_pretraining.py with several command lines in one process, since starting TensorFlow takes seconds.

Reads from stdin a JSON list of lists of arguments. Prints a JSON list of {"status", "log", "seconds" of CPU time,
"written": the files in its --output_dir that a case made, changed or took away}.
"""

import json
import os
import pathlib
import sys
import tempfile
import time
import traceback

from bert_tf.programs.main import start


def _status(arguments):
    try:
        start("run_pretraining", arguments)
    except SystemExit as end:
        return 0 if end.code is None else end.code
    except Exception:  # what would end the script with a traceback is this case's result, not the end of the others
        traceback.print_exc()
        return 1
    return 0


def _files(arguments):
    """Returns {path: time of its last change} of what lies in the output directory."""
    folders = [flag.removeprefix("--output_dir=") for flag in arguments if flag.startswith("--output_dir=")]
    return {str(path): path.stat().st_mtime_ns for folder in folders for path in pathlib.Path(folder).rglob("*")}


def run(arguments):
    """Returns the exit status and all that came over stdout and stderr, from C++ too."""
    kept, begin, before = [os.dup(1), os.dup(2)], time.process_time(), _files(arguments)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        try:
            status = _status(arguments)
        finally:
            sys.stdout.flush()
            os.dup2(kept[0], 1)
            os.dup2(kept[1], 2)
            for copy in kept:
                os.close(copy)
        log.seek(0)
        text = log.read().decode("utf-8", "replace")
    written = sorted(path for path, _ in before.items() ^ _files(arguments).items())
    return {"status": status, "log": text, "seconds": time.process_time() - begin, "written": written}


if __name__ == "__main__":
    json.dump([run(arguments) for arguments in json.load(sys.stdin)], sys.stdout)
