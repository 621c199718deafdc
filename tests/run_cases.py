"""Runs a program with several command lines in one process, since starting TensorFlow takes seconds.

    python -m tests.run_cases run_squad        by default run_classifier

Reads from stdin a JSON list of {"arguments": [...], "limit": bytes or null}; with `limit` no file can grow beyond it,
as on a full disk. Prints a JSON list of {"status": ..., "log": ...}.
"""

import json
import os
import resource
import sys
import tempfile

from bert_tf.programs.main import start

NAME = (sys.argv[1:] or ["run_classifier"])[0]


def _status(arguments):
    try:
        start(NAME, arguments)
    except SystemExit as end:
        return 0 if end.code is None else end.code
    return 0


def run(case):
    """Returns the exit status and all that came over stdout and stderr, from C++ too."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    kept = [os.dup(1), os.dup(2)]
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        if case.get("limit"):
            resource.setrlimit(resource.RLIMIT_FSIZE, (case["limit"], before[1]))
        try:
            status = _status(case["arguments"])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            sys.stdout.flush()
            os.dup2(kept[0], 1)
            os.dup2(kept[1], 2)
        log.seek(0)
        return {"status": status, "log": log.read().decode("utf-8", "replace")}


if __name__ == "__main__":
    json.dump([run(case) for case in json.load(sys.stdin)], sys.stdout)
