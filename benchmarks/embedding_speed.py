"""From strings to pooled vectors in an .npz: ours beside sentence-transformers on torch, in turns, on the same texts.

    python benchmarks/embedding_speed.py --torch=PYTHON MODEL TEXTS.txt ... [--texts=10000] [--rounds=5] [--threads=N]

PYTHON has sentence-transformers, MODEL is a sentence-transformers directory, and TEXTS are files of a text a line, of
which as many are drawn as are asked for. Both compute in float32 on the same number of threads, and both are warm.
Prints the seconds of each round, and the median of the ratios.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
_WORK = """
import json, sys, time
import numpy as np
{load}
texts = json.load(open(sys.argv[2], encoding="utf-8"))
encode(texts[:200])
for line in sys.stdin:
    start = time.perf_counter()
    np.savez(sys.argv[3], embeddings=encode(texts))
    print(time.perf_counter() - start, flush=True)
"""
_OURS = """
import tensorflow as tf
tf.config.threading.set_intra_op_parallelism_threads(int(sys.argv[4]))
from bert_tf.inference.sentence_encoder import SentenceEncoder
encode = SentenceEncoder(sys.argv[1])
"""
_THEIRS = """
import torch
torch.set_num_threads(int(sys.argv[4]))
from sentence_transformers import SentenceTransformer
model = SentenceTransformer(sys.argv[1], device="cpu")
encode = lambda texts: model.encode(texts, show_progress_bar=False)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--torch", required=True)
    parser.add_argument("--texts", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        texts = pathlib.Path(folder, "texts.json")
        texts.write_text(json.dumps(_drawn(options.files, options.texts)), encoding="utf-8")
        peers = {
            name: _start(python, load, options.model, texts, f"{folder}/{name}.npz", options.threads)
            for name, python, load in (("ours", sys.executable, _OURS), ("theirs", options.torch, _THEIRS))
        }
        rounds = [{name: _seconds(peer) for name, peer in peers.items()} for _ in range(options.rounds)]
        for peer in peers.values():
            peer.kill()
    for each in rounds:
        print("  ".join(f"{name} {seconds:.2f} s" for name, seconds in each.items()))
    ratio = statistics.median(each["theirs"] / each["ours"] for each in rounds)
    print(f"{options.texts} texts: {ratio:.2f} times as fast as sentence-transformers (median of {options.rounds})")


def _drawn(files, count):
    lines = [line for file in files for line in pathlib.Path(file).read_text(encoding="utf-8").split("\n") if line]
    return random.Random(0).choices(lines, k=count)


def _start(python, load, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [python, "-c", _WORK.format(load=load), *map(str, arguments)]
    return subprocess.Popen(command, stdin=-1, stdout=-1, stderr=subprocess.DEVNULL, text=True, env=environment)


def _seconds(peer):
    peer.stdin.write("go\n")
    peer.stdin.flush()
    answer = peer.stdout.readline()
    if not answer:
        raise RuntimeError(f"it ended with {peer.wait()}")
    return float(answer)


if __name__ == "__main__":
    main()
