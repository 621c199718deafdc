"""Rival implementations measured fairly: each in a process of its own, taking turns on the very same batches."""

import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]


class Peer:
    """A process that `serve`s; of the file benchmarks/`script`, run by the interpreter `python`."""

    def __init__(self, python, script, *arguments):
        from bert_tf.utils import onednn  # not in a peer: it would turn oneDNN on there

        command = [python, str(ROOT / "benchmarks" / script), *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
        if "keras_hub" in arguments and environment.get(onednn.VARIABLE) == onednn.OURS:
            del environment[onednn.VARIABLE]  # bert_tf has set it for itself; KerasHub leaves TensorFlow as it is
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )

    def seconds(self, file):
        """Trains on the batches in `file` and returns the seconds of each step."""
        try:
            self.process.stdin.write(f"{file}\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            said = self.process.stderr.read()[-3000:]
            raise RuntimeError(f"{self.process.args} ended with status {self.process.wait()}: {said}")
        return json.loads(answer)

    def most_memory(self):
        """Returns the most bytes that it has had in memory by now (Linux)."""
        lines = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))

    def end(self):
        self.process.kill()


@functools.cache
def gpus():
    """Returns the names of the GPUs that the driver knows."""
    if not shutil.which("nvidia-smi"):
        return []
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [] if done.returncode else done.stdout.splitlines()


def machine():
    """Returns what machine this is, for a file of results."""
    from bert_tf.utils import resources

    sets = sorted(resources.instruction_sets())
    return {"processor": resources.name(), "instruction_sets": sets, "gpus": gpus(), "load": os.getloadavg()}


def write_batches(path, batches):
    """Writes a list of batches, {name: array}, as `serve` reads them."""
    np.savez(path, **{f"{i}/{name}": values for i, batch in enumerate(batches) for name, values in batch.items()})


def read_batches(path):
    """Returns the list of batches of a file."""
    batches = {}
    with np.load(path) as file:
        for key in file.files:
            number, name = key.split("/")
            batches.setdefault(int(number), {})[name] = file[key]
    return [batches[number] for number in sorted(batches)]


def take_turns(peers, files, rounds):
    """Returns {key of files: [seconds of every step]}; turn 0 is for warming up and counts for nothing.

    Args:
        peers: {name: Peer}.
        files: {(name of the peer, whatever tells its measurements apart): [file of every turn, 0 to rounds]}.
        rounds: turns that count.
    """
    seconds = {key: [] for key in files}
    for turn in range(rounds + 1):
        for key in files:
            new = peers[key[0]].seconds(files[key][turn])
            seconds[key] += new if turn else []
        print(f"turn {turn} of {rounds}", file=sys.stderr, flush=True)
    return seconds


def serve(make_step):
    """Answers each line `file.npz` of standard input with a line of JSON, the seconds of every step on its batches.

    Args:
        make_step: called once, returns a function of a batch that makes a training step and returns its loss.
    """
    answers, sys.stdout = sys.stdout, sys.stderr  # what a library prints must not be taken for an answer
    step = make_step()
    for line in sys.stdin:
        seconds = []
        for batch in read_batches(line.strip()):
            start = time.perf_counter()
            loss = step(batch)
            seconds.append(time.perf_counter() - start)
            assert np.isfinite(loss), loss
        print(json.dumps(seconds), file=answers, flush=True)


def keras_hub_backbone(path, precision):
    """Returns KerasHub's BertBackbone of the shape that a configuration describes, with random weights."""
    import keras
    import keras_hub

    from bert_tf.models.config import EncoderConfig

    keras.config.set_dtype_policy(precision)
    c = EncoderConfig.load(path)
    return keras_hub.models.BertBackbone(
        vocabulary_size=c.vocab_size,
        num_layers=c.num_hidden_layers,
        num_heads=c.num_attention_heads,
        hidden_dim=c.hidden_size,
        intermediate_dim=c.intermediate_size,
        dropout=c.hidden_dropout_prob,
        max_sequence_length=c.max_position_embeddings,
        num_segments=c.type_vocab_size,
    )
