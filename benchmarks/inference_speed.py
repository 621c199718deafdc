"""Milliseconds that a request takes, ours beside torch, ONNX Runtime, OpenVINO and KerasHub, whichever are installed.

    python benchmarks/inference_speed.py --output_dir=out [--checkpoint=minilm] [--peer_python=PYTHON] [--rounds=5]
    make bench ARGS=--parts=inference

Without --checkpoint it is a BERT-base with random weights and biases. PYTHON has torch, transformers, onnx and
onnxruntime, and perhaps openvino, which may have a Python of its own (--openvino_python); without it, ours stand beside
KerasHub alone.
Each is a process of its own, and they take turns on the same ids: one text of 24 pieces, and so on; "64 short" are 64
texts of 4 to 30 pieces in one request of ours, while the peers are given them sorted by length in batches of 16.

Prints a table of medians, how many times as fast ours are as the fastest peer of the same dtype, and what share of the
speed of the machine's own product of matrices each has. With --threads=1,2 each runs with one thread and with two, and
the better of both counts, in each column. --results, by default results.json in --output_dir, holds every time, the
instruction sets and the load. Exports and models are made once. Peers are of the dtypes in --forms: all at once of a
BERT-base take over 24 GB.
"""

import argparse
import os
import pathlib
import subprocess
import sys

import inference_table
import numpy as np
import scripts
from peers import ROOT, Peer, gpus, take_turns, write_batches

sys.path.insert(0, str(ROOT))

FORMS = (
    "float32-portable", "float32-cpu", "float32-litert", "bfloat16-portable", "bfloat16-cpu",
    "int8-portable", "int8-cpu", "int8-litert",
)  # fmt: skip
CASES = {"1 x 24": (1, 24, 20), "1 x 128": (1, 128, 8), "8 x 128": (8, 128, 2), "32 x 128": (32, 128, 1)}
if gpus():
    CASES["128 x 128"] = (128, 128, 2)
SHORT, BATCH = "64 short", 16
_TO_ONNX = """
import sys, torch
from transformers import BertForSequenceClassification
from onnxruntime.quantization import QuantType, quantize_dynamic
source, whole, small = sys.argv[1:]
names = ["input_ids", "input_mask", "segment_ids"]
ids = torch.ones([2, 8], dtype=torch.int64)
model = BertForSequenceClassification.from_pretrained(source, attn_implementation="eager").eval()
axes = {name: {0: "n", 1: "s"} for name in names} | {"logits": {0: "n"}}
torch.onnx.export(model, (ids, ids, torch.zeros_like(ids)), whole, input_names=names, output_names=["logits"],
                  dynamic_axes=axes, opset_version=17, dynamo=False)
quantize_dynamic(whole, small, weight_type=QuantType.QInt8)
"""


def main():
    options = _options()
    folder = pathlib.Path(options.output_dir).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    source, config = make_model(options.checkpoint, folder)
    entrants = _entrants(options, folder, source)
    files = _files(options, folder)
    os.environ.update({"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"})
    peers = {(name, threads): Peer(python, "inference_workers.py", kind, model, threads)
             for threads in options.threads.split(",") for name, (python, kind, model) in entrants.items()}  # fmt: skip
    keys = {(peer, case): files[_of(peer[0], case)] for case in [*CASES, SHORT] for peer in peers
            if not peer[0].startswith("product")}  # fmt: skip
    keys |= {(peer, "product"): files["product"] for peer in peers if peer[0].startswith("product")}
    try:
        seconds = take_turns(peers, keys, options.rounds)
    finally:
        for peer in peers.values():
            peer.end()
    per_turn = {key: np.reshape(each, [options.rounds, -1]) for key, each in seconds.items()}
    times = {key: each.sum(1) if key[1] == SHORT else np.median(each, 1) for key, each in per_turn.items()}
    results = options.results or folder / "results.json"
    inference_table.write(results, times, operations=_operations(config))
    inference_table.show(results)


def _options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--checkpoint", help="a Hugging Face directory of BERT's family")
    parser.add_argument("--peer_python", help="an interpreter with torch, transformers, onnx and onnxruntime")
    parser.add_argument("--peers", default="torch,onnxruntime,openvino,keras_hub", help="those that are wanted")
    parser.add_argument("--results", help="a file of JSON")
    parser.add_argument("--openvino_python", help="one with openvino; default: --peer_python, if it has it")
    parser.add_argument("--forms", default=",".join(FORMS), help="of our exports")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", default=str(len(os.sched_getaffinity(0))), help="of each, or several numbers")
    return parser.parse_args()


def make_model(checkpoint, folder, max_seq_length=128):
    """Returns the directory of a classifier as Hugging Face has it, and its configuration; makes it if it is not there.

    Args:
        checkpoint: a Hugging Face directory; None: a BERT-base with random weights.
        folder: gets the classifier twice, as Hugging Face has it and as `bert-tf export` takes it.
        max_seq_length: of texts.
    """
    import bert_tf
    from bert_tf.checkpoints import heads
    from bert_tf.checkpoints.assign_weights import assign_weights
    from bert_tf.checkpoints.loading import save_description
    from bert_tf.checkpoints.tf1 import write_tf1
    from bert_tf.models.config import EncoderConfig
    from bert_tf.models.sizes import BERT
    from bert_tf.tasks.base import TrainedTask
    from bert_tf.tasks.classification.task import ClassificationTask
    from bert_tf.tasks.registry import save_task
    from bert_tf.tokenization.wordpiece import WordPieceTokenizer

    trained, source = folder / "trained", folder / "huggingface"
    config = EncoderConfig.load(checkpoint) if checkpoint else EncoderConfig(**BERT["bert-base"])
    if not source.exists():
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(5, config.vocab_size))]
        tokenizer = WordPieceTokenizer.from_directory(checkpoint) if checkpoint else WordPieceTokenizer(pieces)
        task = ClassificationTask(config, 2, labels=["no", "yes"])
        model = task.build_model()
        if checkpoint:
            assign_weights(checkpoint, model.variables, (*heads.fresh(task), *heads.unused(task)))
        else:
            _shake(model)
        tokenizer.save(trained)
        save_description(trained, config, WordPieceTokenizer.from_directory(trained), task.labels)
        save_task(trained, TrainedTask(task, ("text",), max_seq_length))
        write_tf1(str(trained / "model.ckpt-1"), model.variables)
        bert_tf.save(bert_tf.load(str(trained)), str(source), "huggingface")
    return source, config


def _shake(model):
    """Moves every weight: grappler takes constant biases of zeros out of a graph, which no trained model has."""
    rng = np.random.default_rng(0)
    for variable in model.variables:
        variable.assign_add(rng.normal(0, 0.02, variable.shape))


def _operations(config):
    """Returns {case: operations of the products in the encoder}, of real pieces only."""
    h, inner, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    shapes = {case: [length] * rows for case, (rows, length, _) in CASES.items()} | {SHORT: _lengths()}
    return {case: sum(layers * 2 * s * (4 * h * h + 2 * h * inner + 2 * s * h) for s in lengths)
            for case, lengths in shapes.items()}  # fmt: skip


def _entrants(options, folder, source):
    """Returns {name: (interpreter, kind, model)}; makes what is not there."""
    ours = {}
    for form in options.forms.split(","):
        dtype, _, use = form.partition("-")
        make_export(folder, form)
        for how in ("_litert",) if use == "litert" else ("", "_batched"):
            kind = f"bert_tf{how}"
            ours[f"{kind} {dtype} {use}"] = (sys.executable, kind, str(folder / form / "1"))
    theirs = _others(options, folder, source)
    best = {f"product {dtype}": (sys.executable, "product", dtype) for dtype in ("float32", "bfloat16")}
    dtypes = {form.partition("-")[0] for form in options.forms.split(",")}
    return ours | {name: each for name, each in (theirs | best).items() if name.split()[1] in dtypes}


def make_export(folder, form):
    """Exports the model of `make_model` to `folder`/`form`, one of `FORMS`, if that is not there."""
    if not (folder / form).exists():
        dtype, _, use = form.partition("-")
        scripts.run("-m", "bert_tf", "export", f"--model={folder / 'trained'}", f"--export_dir={folder / form}",
                    f"--export_dtype={dtype}", f"--export_for={use}", *_calibration(folder, form))  # fmt: skip


def _others(options, folder, source):
    """Returns the same for the peers that are wanted and there."""
    wanted, python = options.peers.split(","), options.peer_python
    theirs = {}
    if "keras_hub" in wanted:
        theirs["keras_hub float32"] = (sys.executable, "keras_hub", str(source))
    if not python:
        return theirs
    if "torch" in wanted:
        for dtype in ("float32", "bfloat16"):
            theirs[f"torch {dtype}"] = (python, "torch", f"{source}:{dtype}")
    openvino = options.openvino_python or python
    runtimes = {"onnxruntime": "onnxruntime" in wanted, "openvino": "openvino" in wanted and has(openvino, "openvino")}
    if gpus() or not any(runtimes.values()):
        return theirs
    whole, small = make_onnx(python, source, folder)
    if runtimes["onnxruntime"]:
        theirs["onnxruntime float32"] = (python, "onnxruntime", whole)
        theirs["onnxruntime int8"] = (python, "onnxruntime", small)
    if runtimes["openvino"]:
        theirs["openvino float32"] = (openvino, "openvino", f"{whole}:f32")
        theirs["openvino bfloat16"] = (openvino, "openvino", f"{whole}:bf16")
    return theirs


def _calibration(folder, form):
    """Returns the flag for texts that set the ranges of integers: of random pieces, as the batches are."""
    if form != "int8-cpu":
        return []
    texts = np.random.default_rng(2).choice(words_of(folder), [256, 60])
    (folder / "texts.txt").write_text("\n".join(map(" ".join, texts)) + "\n", encoding="utf-8")
    return [f"--calibration_file={folder / 'texts.txt'}"]


def words_of(folder):
    """Returns words that are in the vocabulary of the model of `make_model`."""
    pieces = (folder / "trained" / "vocab.txt").read_text(encoding="utf-8").split("\n")
    return [piece for piece in pieces[1000:20000] if piece.isascii() and piece.isalnum()]


def make_onnx(python, source, folder):
    """Returns the .onnx files of a classifier, in float32 and in int8; the interpreter `python` makes them once."""
    whole, small = (str(folder / f"{name}.onnx") for name in ("float32", "int8"))
    if not os.path.exists(small):
        subprocess.run([python, "-c", _TO_ONNX, str(source), whole, small], check=True)
    return whole, small


def has(python, module):
    """Returns whether an interpreter can import a module."""
    return not subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode


def _lengths():
    return np.random.default_rng(0).integers(4, 31, 64).tolist()


def _of(name, case):
    return (case, "ours" if name.startswith("bert_tf") else "theirs")


def _files(options, folder):
    """Writes the batches; returns {(case, whose): [file of every turn]}. A turn is the same batches again."""
    rng, made = np.random.default_rng(1), {}

    def batch(lengths):
        mask = (np.arange(max(lengths)) < np.array(lengths)[:, np.newaxis]).astype(np.int32)
        ids = rng.integers(1000, 20000, mask.shape).astype(np.int32) * mask
        return {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(mask)}

    for case, (rows, length, times) in CASES.items():
        made[case, "ours"] = made[case, "theirs"] = [batch([length] * rows)] * times
    lengths = sorted(_lengths())
    made[SHORT, "ours"] = [batch(lengths)]
    made[SHORT, "theirs"] = [batch(lengths[start : start + BATCH]) for start in range(0, len(lengths), BATCH)]
    made["product"] = made["1 x 24", "ours"][:3]
    files = {}
    for number, (key, batches) in enumerate(made.items()):
        path = folder / f"batches-{number}.npz"
        write_batches(path, batches)
        files[key] = [path] * (options.rounds + 1)
    return files


if __name__ == "__main__":
    main()
