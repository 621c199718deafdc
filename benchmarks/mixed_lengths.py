"""Servers of several exports, asked for texts of many lengths: every request another number of rows and pieces.

    python benchmarks/mixed_lengths.py TEXTS.txt EXPORT_DIR ... [--rounds=3] [--requests=500]

oneDNN makes a kernel for each shape and keeps the last thousand, so what is fast for one shape over and over need not
be so for all. TEXTS has a text a line; a text of a request is its first words, 1 to `--most_words` of them. Each server
answers the same requests, one after the other over gRPC, in turns; others for each round, so that most shapes are new.
Prints the median milliseconds of a request, for one text and for 1 to 32, and its ratio to the first export's.
"""

import argparse
import contextlib
import pathlib
import random
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from benchmarks.serving_load import running
from bert_tf.serving import Client

_SERVER = f"{sys.executable} -m bert_tf serve --tensorflow_intra_op_parallelism=1"
_MOST_TEXTS = {"one text": 1, "1 to 32 texts": 32}


def _requests(options, texts, most_texts, seed):
    draw = random.Random(seed)

    def text():
        return " ".join(draw.choice(texts).split()[: draw.randint(1, options.most_words)])

    number = options.requests if most_texts == 1 else options.requests // 4
    return [[text() for _ in range(draw.randint(1, most_texts))] for _ in range(number)]


def _milliseconds(client, requests):
    start = time.perf_counter()
    for texts in requests:
        client.predict({"text": texts})
    return 1e3 * (time.perf_counter() - start) / len(requests)


def main(argv=None):
    """Measures and prints a line for each export."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts")
    parser.add_argument("exports", nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--most_words", type=int, default=90)
    options = parser.parse_args(argv)
    texts = [line for line in pathlib.Path(options.texts).read_text(encoding="utf-8").splitlines() if line.strip()]
    with contextlib.ExitStack() as stack:
        clients = {
            export: stack.enter_context(Client(stack.enter_context(running(_SERVER, export)), "model"))
            for export in options.exports
        }
        for name, most_texts in _MOST_TEXTS.items():
            found = {export: [] for export in clients}
            for turn in range(options.rounds):
                requests = _requests(options, texts, most_texts, turn)
                for export, client in clients.items():
                    found[export].append(_milliseconds(client, requests))
            first = found[options.exports[0]]
            for export, times in found.items():
                ratio = statistics.median(a / b for a, b in zip(first, times, strict=True))
                turns = ", ".join(f"{each:.1f}" for each in times)
                print(f"{name:15} {export:40} {turns} ms, {ratio:.2f} times as fast as the first", flush=True)


if __name__ == "__main__":
    main()
