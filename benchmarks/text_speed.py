"""Milliseconds from a text to its answer, in process and over REST, ours beside others behind `tokenizers`.

    python benchmarks/text_speed.py --output_dir=out [--checkpoint=minilm] [--peer_python=PYTHON] [--rounds=5]
    make bench ARGS="--parts=text --dtypes=int8"

Ours are `bert_tf.Predictor`, `bert_tf.lite.Predictor` and `bert-tf serve` with each engine, with and without batching;
PYTHON has the peers: torch, transformers and onnx, which make their model, tokenizers, onnxruntime or openvino, and for
the server of text_server.py aiohttp. Each is a process of its own, and they take turns on the same texts, which are new
in each turn. Texts have 24 or 128 words, or 4 to 30 for several callers, with a comma or a period after every eighth;
REST is asked over one connection that is kept.

Prints what text_table.py prints: medians, CPU time, ratios to the fastest peer of the same dtype, memory, and seconds
from start to first answer. --threads=1,2 starts each with one thread and with two, and the better of both counts in
each column; a server with one thread computes as many requests at a time as there are cores. All entrants of one dtype
run until the end: of MiniLM with --threads=1,2, they take some 10 GB.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

import inference_table
import numpy as np
import text_table
from inference_speed import has, make_export, make_model, make_onnx, words_of
from peers import ROOT, take_turns
from text_entrants import InProcess, OverRest, Request, memory
from text_workers import MAX_SEQ_LENGTH

sys.path.insert(0, str(ROOT))

DTYPES = ("float32", "bfloat16", "int8")
CASES = {"24": (24, 24), "128": (128, 128), text_table.CALLERS: (4, 30)}  # fewest and most words of a text
TEXTS = {"24": 20, "128": 10, text_table.CALLERS: 320}  # in a turn
CALLERS = 32
_TOLERANCE = {"float32": 1e-3, "bfloat16": 0.05, "int8": 0.05}  # of probabilities
_TO_TOKENIZER = """
import sys
from transformers import BertTokenizerFast
BertTokenizerFast.from_pretrained(sys.argv[1]).backend_tokenizer.save(sys.argv[2])
"""


def main():
    options = _options()
    folder = pathlib.Path(options.output_dir).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    source, _ = make_model(options.checkpoint, folder, MAX_SEQ_LENGTH)
    starts = _starts(options, folder, source)
    files = _write_texts(options, folder)
    os.environ.update({"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"})
    entrants = {}
    try:
        for key, start in starts.items():
            entrants[key] = start(files["first"])
            print(f"{' '.join(key)} threads: answers after {entrants[key].first[0]:.1f} s", file=sys.stderr, flush=True)
        _check_answers(entrants)
        keys = {(key, request[0].case): request for key, entrant in entrants.items()
                for request in files["rest" if isinstance(entrant, OverRest) else "process"]}  # fmt: skip
        seconds = take_turns(entrants, keys, options.rounds)
        _write(options.results or folder / "results.json", seconds, entrants, options.rounds)
    finally:
        for entrant in entrants.values():
            entrant.end()
    text_table.show(options.results or folder / "results.json")


def _options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--checkpoint", help="a Hugging Face directory of BERT's family; default: random weights")
    parser.add_argument("--peer_python", help="an interpreter with the peers")
    parser.add_argument("--peers", default="onnxruntime,openvino", help="those that are wanted")
    parser.add_argument("--dtypes", default=",".join(DTYPES), help="of ours and of the peers")
    parser.add_argument("--results", help="a file of JSON")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", default=str(len(os.sched_getaffinity(0))), help="of each, or several numbers")
    return parser.parse_args()


def _starts(options, folder, source):
    """Returns {(name, threads): function of a file of texts that starts an entrant}; makes the models that lack."""
    starts = {}
    for threads in options.threads.split(","):
        for dtype in options.dtypes.split(","):
            starts |= _our_starts(folder, dtype, threads)
            starts |= _peer_starts(options, folder, source, dtype, threads) if options.peer_python else {}
    return starts


def _our_starts(folder, dtype, threads):
    # An export for CPUs in int8 has LiteRT's model in it.
    litert = {"float32": "float32-litert", "int8": "int8-cpu"}.get(dtype)
    forms = {"saved_model": f"{dtype}-cpu"} | ({"litert": litert} if litert else {})
    for form in forms.values():
        make_export(folder, form)
    version = folder / forms["saved_model"] / "1"
    starts = {"Predictor": _worker(sys.executable, "predictor", version, threads)}
    if litert:
        starts["lite.Predictor"] = _worker(sys.executable, "lite_predictor", folder / litert / "1", threads)
    for engine, form in forms.items():
        for batching in ([], ["--enable_batching"]):
            name = " ".join(["serve", *["litert"] * (engine == "litert"), *["batched"] * bool(batching)])
            command = [sys.executable, "-m", "bert_tf", "serve", f"--model_base_path={folder / form}",
                       "--model_name=model", "--port=0", f"--tensorflow_intra_op_parallelism={threads}",
                       f"--engine={'litert' if engine == 'litert' else 'auto'}", *batching]  # fmt: skip
            starts[name] = _server(folder / f"bert_tf-{dtype}-{name}-{threads}.log", command, "--rest_api_port=")
    return {(f"bert_tf {dtype} {name}", threads): start for name, start in starts.items()}


def _peer_starts(options, folder, source, dtype, threads):
    python, wanted = options.peer_python, options.peers.split(",")
    whole, small = make_onnx(python, source, folder)
    if not (folder / "tokenizer.json").exists():
        subprocess.run([python, "-c", _TO_TOKENIZER, str(source), str(folder / "tokenizer.json")], check=True)
    models = {
        ("onnxruntime", "float32"): whole,
        ("onnxruntime", "int8"): small,
        ("openvino", "float32"): f"{whole}:f32",
        ("openvino", "bfloat16"): f"{whole}:bf16",
    }
    starts = {}
    for kind in (each for each in wanted if (each, dtype) in models and has(python, each)):
        model = models[kind, dtype]
        starts[f"{kind} {dtype}", threads] = _worker(python, kind, model, threads)
        for most, name in ((1, "aiohttp"), (CALLERS, "aiohttp batched")) if has(python, "aiohttp") else ():
            command = [python, ROOT / "benchmarks" / "text_server.py", kind, model, threads]
            log = folder / f"{kind}-{dtype}-{name}-{threads}.log"
            starts[f"{kind} {dtype} {name}", threads] = _server(log, command, "", most)
    return starts


def _worker(python, *arguments):
    return lambda first: InProcess(python, arguments, first)


def _server(log, command, port_flag, *arguments):
    """Returns the function that starts a server; `port_flag` stands before the port, `arguments` behind it."""
    from bert_tf.utils.ports import free_ports

    def start(first):
        (port,) = free_ports(1)
        return OverRest([*command, f"{port_flag}{port}", *arguments], port, first, log)

    return start


def _write_texts(options, folder):
    """Writes the texts; returns {"first": a file, "process" and "rest": [the requests of every turn, of each case]}."""
    rng, words = np.random.default_rng(1), words_of(folder)

    def write(name, fewest, most, number):
        path = folder / f"texts-{name.replace(' ', '-')}.json"
        texts = [_text(rng.choice(words, rng.integers(fewest, most + 1))) for _ in range(number)]
        path.write_text(json.dumps(texts), encoding="utf-8")
        return path

    turns = range(options.rounds + 1)
    made = {case: [write(f"{case}-{turn}", *CASES[case], TEXTS[case]) for turn in turns] for case in CASES}
    alone = {where: [[Request(f"{where} {case}", file) for file in made[case]] for case in ("24", "128")]
             for where in ("text 1 x", "REST 1 x")}  # fmt: skip
    together = [Request(text_table.CALLERS, file, CALLERS) for file in made[text_table.CALLERS]]
    return {"first": write("first", 24, 24, 4), "process": alone["text 1 x"], "rest": [*alone["REST 1 x"], together]}


def _text(words):
    """Returns words with a comma or a period after every eighth, and at the end."""
    marks = ["," if number % 16 == 8 else "." if number % 16 == 0 else "" for number in range(1, len(words))]
    return " ".join(word + mark for word, mark in zip(words, [*marks, "."], strict=True))


def _check_answers(entrants):
    """Raises ValueError if the entrants of a dtype do not answer the same: they would not be comparable."""
    expected = {}
    for (name, threads), entrant in entrants.items():
        dtype = name.split()[1]
        other, answers = expected.setdefault(dtype, (name, np.array(entrant.answers)))
        if (error := np.abs(answers - entrant.answers).max()) > _TOLERANCE[dtype]:
            raise ValueError(f"The probabilities of {name} ({threads} threads) are {error:.4f} off those of {other}.")


def _write(path, seconds, entrants, rounds):
    """Writes the file of results, with what each process has taken of the machine."""
    times = {key: np.median(np.reshape(each, [rounds, -1]), 1) for key, each in seconds.items()}
    cpu, processes = {}, {}
    for (name, threads), entrant in entrants.items():
        for case, each in entrant.cpu.items():
            cpu.setdefault(name, {}).setdefault(case, {})[threads] = [1e3 * cost for cost in each[1:]]
        rss, private = memory(entrant.process.pid)
        facts = {"first_seconds": entrant.first[0], "first_cpu_seconds": entrant.first[1]}
        processes.setdefault(name, {})[threads] = facts | {"rss_mib": rss / 2**20, "private_mib": private / 2**20}
    inference_table.write(path, times, cpu_milliseconds=cpu, processes=processes)


if __name__ == "__main__":
    main()
