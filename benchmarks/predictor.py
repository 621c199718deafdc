"""`bert_tf.Predictor` beside the `pipeline` of torch Transformers: from start to the first answer, and 1,000 texts.

    python benchmarks/predictor.py MODEL TEXTS.txt [--torch=PYTHON] [--rounds=5] [--threads=N]

MODEL is a Hugging Face directory with a text classifier, TEXTS has a text a line, and PYTHON, by default that of
BERT_TF_TORCH_PYTHON, has torch and transformers; without it, only ours is measured. Each round starts each of them in a
process of its own, in turns: our Predictor of the directory, our Predictor of its export, and the pipeline, in float32
on the same number of threads. The first answer includes Python's start and all imports; the 1,000 texts are warm, in
batches of 64, which we make of texts of similar lengths. Prints the seconds of each round, and the median of the
ratios.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
_TEXTS = 1000
_WORK = """
import json, sys, time
threads = int(sys.argv[3])
{load}
texts = json.load(open(sys.argv[2], encoding="utf-8"))
answer(texts[0])
print("first", flush=True)
answer(texts[:64])
start = time.perf_counter()
assert len(answer(texts)) == len(texts)
print(time.perf_counter() - start, flush=True)
"""
_OURS = """
import tensorflow as tf
tf.config.threading.set_intra_op_parallelism_threads(threads)
import bert_tf
answer = bert_tf.Predictor(sys.argv[1])
"""
_THEIRS = """
import torch, transformers
torch.set_num_threads(threads)
pipe = transformers.pipeline("text-classification", sys.argv[1], device="cpu")
answer = lambda texts: pipe(texts, batch_size=64, truncation=True, top_k=None)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("texts")
    parser.add_argument("--torch", default=os.environ.get("BERT_TF_TORCH_PYTHON"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        texts = pathlib.Path(folder, "texts.json")
        lines = list(filter(None, pathlib.Path(options.texts).read_text(encoding="utf-8").split("\n")))
        texts.write_text(json.dumps([lines[n % len(lines)] for n in range(_TEXTS)]), encoding="utf-8")
        command = ["-m", "bert_tf", "export", f"--model={options.model}", f"--export_dir={folder}/export"]
        subprocess.run([sys.executable, *command], check=True, cwd=ROOT)
        peers = {"ours": (sys.executable, _OURS, options.model), "export": (sys.executable, _OURS, f"{folder}/export")}
        peers |= {"pipeline": (options.torch, _THEIRS, options.model)} if options.torch else {}
        rounds = []
        for _ in range(options.rounds):
            rounds.append({name: _seconds(*peer, texts, options.threads) for name, peer in peers.items()})
            each = rounds[-1].items()
            print("  ".join(f"{name} {first:.2f} s, {many:.2f} s" for name, (first, many) in each), flush=True)
    if not options.torch:
        print("There is no Python with torch (--torch or BERT_TF_TORCH_PYTHON), so the pipeline was not measured.")
        return
    for name in ("ours", "export"):
        first, many = (statistics.median(each["pipeline"][n] / each[name][n] for each in rounds) for n in (0, 1))
        print(f"{name}: first answer {first:.2f} times as fast as the pipeline, {_TEXTS} texts {many:.2f} times")


def _seconds(python, load, *arguments):
    """Returns the seconds from the start of a process to its first answer, and those of all texts."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [python, "-c", _WORK.format(load=load), *map(str, arguments)]
    start = time.perf_counter()
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, **streams, text=True, env=environment) as peer:
        if not peer.stdout.readline():
            raise RuntimeError(f"{python} ended with {peer.wait()}")
        first = time.perf_counter() - start
        return first, float(peer.stdout.readline())


if __name__ == "__main__":
    main()
