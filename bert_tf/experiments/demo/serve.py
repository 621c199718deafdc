"""The demo's last act: the exported model behind a server, asked over gRPC as any program would ask it."""

import json
import pathlib
import shlex
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence

from bert_tf.utils.settings import command_line

MODEL_NAME = "reviews"
_PATIENCE = 120.0  # seconds until the server must answer


def ask(models: pathlib.Path, sentences: Sequence[str], log: pathlib.Path, python: str) -> list[dict]:
    """Starts the server on `models`, asks it through the client, stops it; prints both commands.

    Args:
        models: the model's directory, with a folder for each version.
        sentences: what to ask.
        log: file for what the server says.
        python: the interpreter, as it is to be printed.

    Returns:
        {"text", "label", "probabilities": {label: p}} for each sentence.

    Raises:
        ValueError: the server or the client fails; the message says where to look.
    """
    port, rest_port = _free_ports(2)
    asked = {"model_name": MODEL_NAME}
    there = {"model_base_path": models, "port": port, "rest_api_port": rest_port}
    server_command = ["-m", "bert_tf", "serve", *command_line(there | asked)]
    client_command = ["-m", "bert_tf", "ask", *command_line({"server": f"localhost:{port}"} | asked)]
    print(f"\n$ {shlex.join([python, *server_command])} &", flush=True)
    with open(log, "wb") as file:
        server = subprocess.Popen([sys.executable, *server_command], stdout=file, stderr=subprocess.STDOUT)
    try:
        _wait(server, rest_port, log)
        print(f"$ {shlex.join([python, *client_command, *sentences])}", flush=True)
        client = subprocess.run([sys.executable, *client_command, "--", *sentences], capture_output=True, text=True)
        if client.returncode:
            why = client.stderr.strip()
            raise ValueError(f"The client must end with status 0. Received {client.returncode}: {why}")
        print(client.stdout)
        return [json.loads(line) for line in client.stdout.splitlines()]
    finally:
        server.terminate()
        server.wait()


def _wait(server, rest_port, log):
    """Returns when the server says that its model is loaded."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        if server.poll() is not None:
            raise ValueError(f"The server must keep running. Received status {server.returncode}; {log} says why.")
        if _is_ready(rest_port):
            return
        time.sleep(0.2)
    raise ValueError(f"The server must answer within {_PATIENCE:.0f} s. Received nothing; look into {log}.")


def _is_ready(rest_port):
    try:
        with urllib.request.urlopen(f"http://localhost:{rest_port}/readyz", timeout=5) as response:
            return response.status == 200
    except OSError:  # nobody listens yet, or 503
        return False


def _free_ports(count):
    """Returns ports that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("localhost", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
