"""The last step of the demo: serving the exported model, and querying it over gRPC as any client would."""

import json
import os
import pathlib
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence

from bert_tf.utils.ports import free_ports
from bert_tf.utils.proxies import open_local
from bert_tf.utils.settings import command_line

MODEL_NAME = "reviews"
_SERVE_PATIENCE = 120.0  # seconds until the server must respond


def ask_models(models: pathlib.Path, sentences: Sequence[str], log: pathlib.Path, python: str) -> list[dict]:
    """Starts a server for `models`, queries it with the client and stops it; prints both commands.

    Args:
        models: the model's directory, with one directory per version.
        sentences: the texts to classify.
        log: file for the server's output.
        python: the interpreter, as printed.

    Returns:
        {"text", "label", "probabilities": {label: p}} for each sentence.

    Raises:
        ValueError: the server or the client fails; the message names the log.
    """
    port, rest_port = free_ports(2)
    asked = {"model_name": MODEL_NAME}
    there = {"model_base_path": models, "port": port, "rest_api_port": rest_port}
    server_command = ["-m", "bert_tf", "serve", *command_line(there | asked)]
    client_command = ["-m", "bert_tf", "client", "ask", *command_line({"server": f"localhost:{port}"} | asked)]
    print(f"\n$ {shlex.join([python, *server_command])} &", flush=True)
    with open(log, "wb") as file:
        server = subprocess.Popen([sys.executable, *server_command], stdout=file, stderr=subprocess.STDOUT)
    try:
        _wait_until_ready(server, rest_port, log)
        print(f"$ {shlex.join([python, *client_command, *sentences])}", flush=True)
        command = [sys.executable, *client_command, "--", *sentences]
        in_utf8 = {**os.environ, "PYTHONIOENCODING": "utf-8"}
        client = subprocess.run(command, env=in_utf8, capture_output=True, encoding="utf-8", errors="replace")
        if client.returncode:
            why = client.stderr.strip()
            raise ValueError(f"The client failed with status {client.returncode}: {why}")
        print(client.stdout)
        return [json.loads(line) for line in client.stdout.splitlines()]
    finally:
        server.terminate()
        server.wait()


def _wait_until_ready(server, rest_port, log):
    """Waits until the server reports that its model is loaded."""
    end = time.monotonic() + _SERVE_PATIENCE
    while time.monotonic() < end:
        if server.poll() is not None:
            raise ValueError(f"The server stopped with status {server.returncode}; see {log}.")
        if _is_ready(rest_port):
            return
        time.sleep(0.2)
    raise ValueError(f"The server did not respond within {_SERVE_PATIENCE:.0f} s; see {log}.")


def _is_ready(rest_port):
    try:
        with open_local(f"http://localhost:{rest_port}/readyz", timeout=5) as response:
            return response.status == 200
    except OSError:  # no server is listening yet, or 503
        return False
