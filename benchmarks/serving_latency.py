"""What a request costs beyond the computing: one text, asked in turns in this process and over gRPC of the server.

    python benchmarks/serving_latency.py [EXPORT_DIR [TEXT]]

EXPORT_DIR has a numbered folder per version, whose default signature takes `text`; without it, a stand-in of a few
milliseconds is exported and asked. The server is a process of its own. Prints medians, their ratio and difference, and
what a gRPC call costs that does nothing: the least that any server in Python takes on this machine at this time.
"""

import multiprocessing
import os
import pathlib
import sys
import tempfile
import time
from concurrent import futures

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import grpc
import numpy as np

from bert_tf.serving.client.client import Client
from bert_tf.utils.proxies import exempt_local

_ROUNDS, _WARM = 400, 40
_TEXT = "A warm, funny and beautifully acted film that I would gladly see again."


def export_stand_in(folder):
    """Writes version 1 of a model that maps text to two probabilities through a dozen matrices."""
    import tensorflow as tf

    class StandIn(tf.Module):
        def __init__(self):
            self.table = tf.Variable(tf.random.stateless_normal([1000, 512], (0, 1)))
            self.layers = [tf.Variable(tf.random.stateless_normal([512, 512], (0, i)) * 0.04) for i in range(12)]

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
        def text(self, text):
            ids = tf.strings.to_hash_bucket_fast(tf.strings.bytes_split(text).to_tensor(), 1000)
            x = tf.gather(self.table, ids)  # [batch, bytes, 512]
            for layer in self.layers:
                x = tf.tanh(x @ layer)
            return {"probabilities": tf.nn.softmax(tf.reduce_mean(x, 1)[:, :2])}

    module = StandIn()
    tf.saved_model.save(module, f"{folder}/1", {"serving_default": module.text})


def run_server(base_path, pipe):
    """Serves the model, and an empty call on a port of its own, until the other end of the pipe says so."""
    from bert_tf.serving.server.server import serve

    method = grpc.unary_unary_rpc_method_handler(lambda request, context: request)
    empty = grpc.server(futures.ThreadPoolExecutor(4))
    empty.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("empty", {"Call": method}),))
    empty_port = empty.add_insecure_port("127.0.0.1:0")
    empty.start()
    with serve(base_path, rest_api_port=None) as server:
        pipe.send((server.port, empty_port))
        pipe.recv()
    empty.stop(None)


def measure(base_path, text, port, empty_port):
    """Returns the milliseconds of each call, numpy [rounds, 3]: in process, over gRPC, an empty one over gRPC."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  the ops of the tokenizers

    newest = max(int(name) for name in os.listdir(base_path) if name.isdigit())
    model = tf.saved_model.load(f"{base_path}/{newest}")  # kept: its signatures do not keep it
    signature = model.signatures["serving_default"]
    with Client(f"127.0.0.1:{port}") as client, grpc.insecure_channel(f"127.0.0.1:{empty_port}") as channel:
        empty = channel.unary_unary("/empty/Call")

        def here():
            return {name: value.numpy() for name, value in signature(text=tf.constant([text])).items()}

        def over_grpc():
            return client.predict({"text": [text]})

        mine, theirs = here()["probabilities"], over_grpc()["probabilities"]
        np.testing.assert_allclose(theirs, mine, atol=1e-5)
        rows = [[_milliseconds(call) for call in (here, over_grpc, lambda: empty(b""))] for _ in range(_WARM + _ROUNDS)]
    return np.array(rows[_WARM:])


def _milliseconds(call):
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def main():
    exempt_local()
    base_path, text = [*sys.argv[1:], *[None, _TEXT][len(sys.argv) - 1 :]]
    with tempfile.TemporaryDirectory() as folder:
        if base_path is None:
            export_stand_in(folder)
        context = multiprocessing.get_context("spawn")
        pipe, other = context.Pipe()
        process = context.Process(target=run_server, args=(base_path or folder, other), daemon=True)  # ends with us
        process.start()
        times = measure(base_path or folder, text, *pipe.recv())
        pipe.send("stop")
        process.join()
    here, over_grpc, empty = np.median(times, 0)
    print(f"in process {here:.2f} ms, over gRPC {over_grpc:.2f} ms: {over_grpc / here:.2f} times, "
          f"{over_grpc - here:+.2f} ms (medians of {_ROUNDS} in turns)")  # fmt: skip
    # Each pair is one moment of the machine, so the differences vary less than the times do.
    differences = times[:, 1] - times[:, 0]
    print(f"difference per pair: median {np.median(differences):+.2f} ms, 90th percentile "
          f"{np.percentile(differences, 90):+.2f} ms; an empty gRPC call takes {empty:.2f} ms")  # fmt: skip


if __name__ == "__main__":
    main()
