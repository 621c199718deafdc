"""Ours beside whatever peers are installed, training and answering ids and texts: one table, and every time in files.

    make bench                                            MiniLM, as `make demo` fetches it
    make bench ARGS="--checkpoint=bert-base --parts=inference --dtypes=float32"
    python benchmarks/bench.py --output_dir=out [--peer_python=PYTHON] [--rounds=5] [--dry_run]

PYTHON, by default that of BERT_TF_TORCH_PYTHON, or else this one, has what ours stands beside: torch with transformers,
onnx with onnxruntime, openvino, and aiohttp for servers; KerasHub is always there. Everything is a process of its own,
all take turns, and none spins while it waits. A ratio is that of medians, ours to the fastest peer of the same numbers,
each with the better of one thread and all; in brackets is how far it went in single turns. Exports are made anew, the
others' models once, in a folder of --output_dir that is named after the checkpoint.

On a GPU, training is compiled by XLA and batches are larger; on a machine without one the last line says so.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import zlib

import inference_table
from peers import ROOT, gpus

sys.path.insert(0, str(ROOT))
PARTS = ("training", "inference", "text")
DTYPES = ("float32", "bfloat16", "int8")
_OF_LITERT = ("float32", "int8")
# What each peer needs; the model of the last two is made by torch.
MODULES = {"torch": ("transformers",), "onnxruntime": ("torch", "transformers", "onnx")}
MODULES["openvino"] = (*MODULES["onnxruntime"], "onnxruntime")


def main():
    options = _options()
    folder = options.folder
    has_all = options.checkpoint and (options.train_file or "training" not in options.parts)
    if not options.dry_run and not has_all:
        _fetch_demo()
    print(f"Beside: {', '.join(options.peers)}, keras_hub. Devices: {', '.join(gpus()) or 'processor'}.")
    runs = {(part, dtype): _command(options, part, dtype) for dtype in options.dtypes for part in options.parts}
    rows = {}
    for (part, dtype), command in runs.items():
        if not command:
            print(f"{part}, {dtype}: nothing is measured of these together.")
            continue
        print(f"{part}, {dtype}: {' '.join(command)}", flush=True)
        if not options.dry_run:
            subprocess.run([sys.executable, str(ROOT / "benchmarks" / command[0]), *command[1:]], check=True)
            found = _ratios(part, folder / f"{part}-{dtype}.json")
            rows |= {dtype: rows.get(dtype, {}) | found} if found else {}
    if not options.dry_run:
        _write(folder / "bench.json", rows)
    if not gpus():
        print("There is no GPU here. On one: float32 and bfloat16, training compiled by XLA, rows of 1 to 128 x 128.")


def _options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output_dir", default=str(ROOT / "build" / "bench"))
    parser.add_argument("--checkpoint", help="a Hugging Face directory, or bert-base: random weights, answering only")
    parser.add_argument("--train_file", help="texts and labels for training; default: the demo's")
    parser.add_argument("--peer_python", default=os.environ.get("BERT_TF_TORCH_PYTHON", sys.executable))
    parser.add_argument("--parts", type=_some_of(PARTS), default=PARTS, help=", ".join(PARTS))
    parser.add_argument("--dtypes", type=_some_of(DTYPES), help="default: those that the machine gains by")
    parser.add_argument("--threads", type=lambda text: sorted(map(int, text.split(","))), help="default: one, and all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dry_run", action="store_true", help="only say what would be run")
    options = parser.parse_args()
    options.dtypes = options.dtypes or _dtypes()
    options.peers = _peers(options.peer_python)
    source = pathlib.Path(options.checkpoint or "minilm")
    number = f"-{zlib.crc32(os.fsencode(source.resolve())):08x}" if source.is_dir() else ""
    options.folder = pathlib.Path(options.output_dir).resolve() / f"{source.name}{number}"
    options.folder.mkdir(parents=True, exist_ok=True)
    return options


def _fetch_demo():
    """Puts the weights and the texts that are measured where `make demo` puts them, unless they are there."""
    from bert_tf.experiments.demo import data

    data.prepare_weights(ROOT / "demo" / "weights" / "minilm")
    data.prepare_text(ROOT / "demo" / "data")


def _some_of(names):
    def read(text):
        if unknown := set(text.split(",")) - set(names):
            raise argparse.ArgumentTypeError(f"must be among {', '.join(names)}, not {', '.join(sorted(unknown))}")
        return text.split(",")

    return read


def _dtypes():
    from bert_tf.utils import resources

    if gpus():
        return ["float32", "bfloat16"]
    return ["float32", *["bfloat16"] * resources.computes_bfloat16(), *["int8"] * resources.permits_int8()]


def _peers(python):
    """Returns which peers an interpreter has."""
    code = "import importlib.util as u, json, sys; print(json.dumps([n for n in sys.argv[1:] if u.find_spec(n)]))"
    wanted = {name: {name, *others} for name, others in MODULES.items()}
    there = set(json.loads(subprocess.check_output([python, "-c", code, *set().union(*wanted.values())])))
    return [name for name, modules in wanted.items() if modules <= there]


def _command(options, part, dtype):
    """Returns the script and its flags, or None where there is nothing to measure."""
    results = f"--results={options.folder / f'{part}-{dtype}.json'}"
    rounds, peers, base = f"--rounds={options.rounds}", options.peers, options.checkpoint == "bert-base"
    checkpoint = [f"--checkpoint={options.checkpoint}"] if options.checkpoint and not base else []
    if part == "training":
        precision = {"float32": "float32", "bfloat16": "mixed_bfloat16"}.get(dtype)
        others = ",".join(["keras_hub", *[name for name in peers if name == "torch"]])
        flags = [f"--precision={precision}", f"--peers={others}", f"--torch_python={options.peer_python}", rounds]
        flags += [f"--train_file={os.path.abspath(options.train_file)}"] if options.train_file else []
        return ["training_speed.py", *checkpoint, *flags, results] if precision and not base else None
    if part == "text" and gpus():  # on which exports for CPUs are not served
        return None
    forms = [f"{dtype}-portable"] if gpus() else [f"{dtype}-cpu", *[f"{dtype}-litert"] * (dtype in _OF_LITERT)]
    folder = options.folder / "text" if part == "text" else options.folder  # whose model reads longer texts
    for form in forms * (not options.dry_run):
        shutil.rmtree(folder / form, ignore_errors=True)  # what an older version of the code has exported
    threads = options.threads or sorted({1, len(os.sched_getaffinity(0))})
    flags = [f"--output_dir={folder}", rounds, f"--peer_python={options.peer_python}",
             f"--threads={','.join(map(str, threads))}"]  # fmt: skip
    if not checkpoint and not base:
        from training_speed import minilm

        checkpoint = [f"--checkpoint={minilm()}"]
    if part == "text":
        runtimes = ",".join(name for name in peers if name != "torch")
        return ["text_speed.py", *checkpoint, *flags, f"--dtypes={dtype}", f"--peers={runtimes}", results]
    flags += [f"--forms={','.join(forms)}", f"--peers={','.join(['keras_hub', *peers])}"]
    return ["inference_speed.py", *checkpoint, *flags, results]


def _ratios(part, path):
    """Returns {column: (ratio, lowest, highest)} of a file of results."""
    facts = json.loads(path.read_text(encoding="utf-8"))
    if part == "training":
        return {name: tuple(ratio) for name, ratio in facts["ratios"].items()}
    return inference_table.ratios(facts)


def _write(path, rows):
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    print(f"\n| ours to the fastest other | {' | '.join(columns)} |\n|---{'|---' * len(columns)}|")
    for dtype, row in rows.items():
        cells = (f"{row[c][0]:.2f} ({row[c][1]:.2f} to {row[c][2]:.2f})" if c in row else "" for c in columns)
        print(f"| {dtype} | {' | '.join(cells)} |")
    path.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    if not rows:
        print("There is nothing to compare with: --peer_python has none of the peers.")
        return
    all_ = [ratio for row in rows.values() for ratio, *_ in row.values()]
    print(f"\nFirst in {sum(each >= 1 for each in all_)} of {len(all_)}; the median is {statistics.median(all_):.2f}.")
    print(f"Every time, with instruction sets and load: {path.parent}")


if __name__ == "__main__":
    main()
