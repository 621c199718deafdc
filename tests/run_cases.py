"""Runs a program with several command lines in one process, since starting TensorFlow takes seconds.

    python -m tests.run_cases run_squad

Reads cases from stdin, a line each: {"arguments": [...], "limit": bytes or null}; with `limit` no file can grow beyond
it, as on a full disk. Prints a line for each as soon as it has ended: {"status", "log", "written": the
files in its --output_dir that it made, changed or took away}. `scripts.Cases` is the other end.
"""

import json
import os
import pathlib
import resource
import sys
import tempfile
import traceback

from bert_tf.programs.main import start


def _status(name, arguments):
    try:
        start(name, arguments)
    except SystemExit as end:
        return 0 if end.code is None else end.code
    except Exception:  # what would end the program with a traceback is this case's result, not the end of the others
        traceback.print_exc()
        return 1
    return 0


def _files(arguments):
    """Returns {path: time of its last change} of what lies in the output directory."""
    folders = [flag.removeprefix("--output_dir=") for flag in arguments if flag.startswith("--output_dir=")]
    return {str(path): path.stat().st_mtime_ns for folder in folders for path in pathlib.Path(folder).rglob("*")}


def run(name, arguments, limit=None):
    """Returns what a case came to; its log is all that came over stdout and stderr, from C++ too."""
    kept, before = [os.dup(1), os.dup(2)], _files(arguments)
    room = resource.getrlimit(resource.RLIMIT_FSIZE)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit or room[0], room[1]))
        try:
            status = _status(name, arguments)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, room)
            sys.stdout.flush()
            for copy, stream in zip(kept, (1, 2), strict=True):
                os.dup2(copy, stream)
                os.close(copy)
        log.seek(0)
        text = log.read().decode("utf-8", "replace")
    written = sorted(path for path, _ in before.items() ^ _files(arguments).items())
    return {"status": status, "log": text, "written": written}


if __name__ == "__main__":
    program = sys.argv[1]  # a case has its own sys.argv
    for line in sys.stdin:
        print(json.dumps(run(program, **json.loads(line))), flush=True)
