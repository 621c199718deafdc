"""Prints our own frames from `train classifier` to the gradient and from a request to the graph.

    python -m tools.frames

A small model is trained, exported and served in this process; frames of other packages are not counted. A request of
the batched server passes from thread to thread: the frames of each are those in which it hands the request on.
"""

import json
import os
import pathlib
import runpy
import sys
import tempfile
import traceback
import unittest.mock

import tensorflow as tf

ROOT = pathlib.Path(__file__).resolve().parent.parent
_WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "fine", "poor", "film")
_CONFIG = {
    "vocab_size": len(_WORDS), "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 16, "max_position_embeddings": 16, "type_vocab_size": 2,
}  # fmt: skip


def own_frames() -> list[str]:
    """Returns the project's frames on this stack, outermost first, without those of tools and an event loop's start."""
    frames = []
    for frame in traceback.extract_stack():
        path = pathlib.Path(frame.filename)
        if path.parent.name == "asyncio" and frame.name == "_run":  # of a `Handle`: what the loop runs begins here
            frames = []
        elif path.is_relative_to(ROOT / "bert_tf") or path.parent == ROOT:
            frames.append(f"{path.relative_to(ROOT)}:{frame.lineno} {frame.name}")
    return frames


def recording(owner, name: str, stacks: list[list[str]]):
    """Returns a patch with which each call of a function leaves its stack in `stacks`."""
    function = getattr(owner, name)

    def recorded(*args, **kwargs):
        stacks.append(own_frames())
        return function(*args, **kwargs)

    return unittest.mock.patch.object(owner, name, recorded)


def train(folder: pathlib.Path) -> list[str]:
    """Trains and exports a classifier; returns the frames from the program to the gradient."""
    (folder / "vocab.txt").write_text("\n".join(_WORDS) + "\n")
    (folder / "bert_config.json").write_text(json.dumps(_CONFIG))
    (folder / "train.tsv").write_text("text\tlabel\n" + "fine film\tgood\npoor film\tbad\n" * 4)
    flags = {
        "train_file": folder / "train.tsv", "bert_config_file": folder / "bert_config.json",
        "vocab_file": folder / "vocab.txt", "output_dir": folder / "out", "export_dir": folder / "film",
        "max_seq_length": 8, "train_batch_size": 4, "num_train_epochs": 1, "do_train": "true", "do_export": "true",
    }  # fmt: skip
    stacks, argv = [], ["run_classifier.py", *(f"--{name}={value}" for name, value in flags.items())]
    with unittest.mock.patch.object(sys, "argv", argv), recording(tf.GradientTape, "gradient", stacks):
        try:
            runpy.run_path(str(ROOT / "run_classifier.py"), run_name="__main__")
        except SystemExit as end:
            if end.code:
                raise
    return stacks[0]


def answer(folder: pathlib.Path, batched: bool) -> dict[str, list[str]]:
    """Serves the classifier and asks it over REST and gRPC; returns {by which: the frames of all threads in turn}."""
    import asyncio

    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    from bert_tf.serving.client.channel import open_channel
    from bert_tf.serving.server.batching_limits import BatchingLimits
    from bert_tf.serving.server.batching_queue import LengthQueue
    from bert_tf.serving.server.server import serve
    from bert_tf.utils import tensorflow_internals
    from bert_tf.utils.proxies import open_local

    stacks, found = [], {}
    batches = BatchingLimits(batch_timeout_micros=0) if batched else None
    with (
        serve(str(folder / "film"), port=0, rest_api_port=0, batching=batches) as server,
        recording(asyncio.BaseEventLoop, "run_in_executor", stacks),
        recording(LengthQueue, "add", stacks),
        recording(tensorflow_internals, "run_session", stacks),
    ):
        body = json.dumps({"instances": ["fine film"]}).encode()
        url = f"http://localhost:{server.rest_port}/v1/models/default:predict"
        with open_local(url, body) as response:
            response.read()
        found["REST"], stacks[:] = sum(stacks, []), []
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "default"
        request.inputs["text"].CopyFrom(tf.make_tensor_proto(["fine film"]))
        with open_channel(f"localhost:{server.port}") as channel:
            prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(request)
        found["gRPC"] = sum(stacks, [])
    return found


def main():
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        paths = {"run_classifier to the gradient": train(folder)}
        for batched in (True, False):
            for api, frames in answer(folder, batched).items():
                paths[f"{api} request to the graph, {'batched' if batched else 'alone'}"] = frames
    for what, frames in paths.items():
        print(f"\n{what}: {len(frames)}", *frames, sep="\n  ")


if __name__ == "__main__":
    main()
