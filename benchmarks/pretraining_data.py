"""Pretraining records a second, beside google-research/bert's algorithm in plain Python: same corpus and options.

    python benchmarks/pretraining_data.py [--corpus=FOLDER,FOLDER] [--megabytes=20] [--dupe_factors=1,10] [--rounds=3]

Machines are noisy: the two take turns, each held to one core, and what counts is the ratio of medians. Then ours with
one worker and with two, which take turns as well, free to use all cores.

- whole run: from the command to its end, the import of TensorFlow included.
- without start-up: the plain version's own clock, begun after its imports and the vocabulary; from ours, the time of
  the same command on a corpus of a few lines is subtracted, the mean of one right before and one right after. Start-up
  varies by some tenths of a second, so give enough --megabytes for ours to take ten times that.
"""

import collections
import contextlib
import itertools
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

from absl import app, flags

ROOT = pathlib.Path(__file__).resolve().parents[1]
DATA = pathlib.Path(os.environ.get("BERT_TF_DATA", pathlib.Path.home() / ".cache" / "bert_tf_data"))
TINY = "One sentence.\nAnother one.\n\nA second document.\nIt ends here.\n"
sys.path.insert(0, str(ROOT))
FLAGS = flags.FLAGS
flags.DEFINE_list("corpus", [f"{DATA}/gutenberg", f"{DATA}/wikitext2"], "Files, globs or folders of text.")
flags.DEFINE_string("document_start", "^= [^=].*[^=] =$", "As in create_pretraining_data; default: wikitext's titles.")
flags.DEFINE_string("vocab_file", f"{DATA}/minilm/vocab.txt", "A piece a line.")
flags.DEFINE_float("megabytes", 20, "Text for both; a smaller corpus is repeated, of a larger one documents are drawn.")
flags.DEFINE_float("workers_megabytes", 100, "Text for one worker and two; 0: do not compare them.")
flags.DEFINE_list("dupe_factors", ["1", "10"], "Compared one after the other; the first one serves for the workers.")
flags.DEFINE_integer("max_seq_length", 128, "Pieces in a row.")
flags.DEFINE_integer("max_predictions_per_seq", 20, "Masked pieces in a row, at most.")
flags.DEFINE_integer("rounds", 3, "Turns that each has.")

Result = collections.namedtuple("Result", ["records", "seconds", "inner"])  # inner: seconds without start-up


def read_documents():
    """Returns the documents of --corpus in random order: lists of sentences."""
    from bert_tf.utils import documents, text_blocks, text_files

    options = documents.TextOptions(document_start=FLAGS.document_start)
    paths = text_files.find_text_files(FLAGS.corpus)
    found = collections.defaultdict(list)
    for block in text_blocks.read_blocks(paths, [text_files.guess_format(path) for path in paths], options):
        for part in documents.read_documents(block, options, collections.Counter()):
            found[part.file, part.line] += (" ".join(sentence.split()) for sentence in part.sentences)
    found = list(found.values())
    random.Random(0).shuffle(found)
    return found


def write_corpus(path, documents, megabytes):
    """Writes about so much text in Google's format, over and over the same if need be. Returns the path."""
    size = 0
    with open(path, "w", encoding="utf-8") as file:
        for sentence in itertools.chain.from_iterable([*document, ""] for document in itertools.cycle(documents)):
            size += file.write(f"{sentence}\n")
            if size >= megabytes * 1e6:
                return path


@contextlib.contextmanager
def one_core():
    """What is started inside this runs on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def run(program, corpus, output, dupe_factor, *more):
    """Runs a program on a corpus; returns the seconds, and what it printed."""
    options = [f"--{name}={FLAGS[name].value}" for name in ("vocab_file", "max_seq_length", "max_predictions_per_seq")]
    files = [f"--input_file={corpus}", f"--output_file={output}", f"--dupe_factor={dupe_factor}"]
    start = time.perf_counter()
    done = subprocess.run([sys.executable, *program, *files, *options, *more], capture_output=True, text=True, cwd=ROOT)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return seconds, done.stdout


def run_plain(folder, dupe_factor):
    """Google's algorithm on the smaller corpus."""
    program = [str(ROOT / "benchmarks/plain_pretraining_data.py")]
    seconds, printed = run(program, folder / "corpus", folder / "plain.tfrecord", dupe_factor)
    made = json.loads(printed.splitlines()[-1])
    return Result(made["records"], seconds, sum(made["seconds"].values()))


def run_ours(folder, dupe_factor, corpus="corpus", workers=1):
    """Ours on one of the corpora, between two runs on one of a few lines."""
    program, output = ["-m", "bert_tf", "create_pretraining_data"], folder / "ours.tfrecord"
    more = [f"--num_workers={workers}", "--input_format=sentences"]
    before, seconds, after = (
        run(program, folder / name, output.with_stem(name), dupe_factor, *more)[0] for name in ("tiny", corpus, "tiny")
    )
    return Result(count_records(output.with_stem(corpus)), seconds, seconds - (before + after) / 2)


def count_records(path):
    """Steps from one record to the next: its length, a checksum of that, the record, a checksum of it."""
    number = 0
    with open(path, "rb") as file:
        while length := file.read(8):
            file.seek(int.from_bytes(length, "little") + 8, os.SEEK_CUR)
            number += 1
    return number


def take_turns(runs):
    """Returns {name: its Results, one a turn}."""
    results = {name: [] for name in runs}
    for turn in range(FLAGS.rounds):
        for name, go in runs.items():
            results[name].append(go())
        print(f"turn {turn + 1} of {FLAGS.rounds}", file=sys.stderr, flush=True)
    return results


def report(title, results):
    """Prints records, seconds and records a second of two, and the ratio of the second to the first."""
    print(f"{title}\n  {'':10} {'records':>9}    {'whole run':^22}    {'without start-up':^22}")
    for name, turns in results.items():
        records, *times = map(statistics.median, zip(*turns, strict=True))
        columns = "    ".join(f"{seconds:8.2f} s {records / seconds:10.0f}/s" for seconds in times)
        print(f"  {name:10} {records:9.0f}    {columns}")
    base, name = results
    for title, which in (("whole runs", "seconds"), ("without start-up", "inner")):
        first, second = ([r.records / getattr(r, which) for r in results[key]] for key in (base, name))
        ratio = statistics.median(second) / statistics.median(first)
        turns = [b / a for a, b in zip(first, second, strict=True)]
        print(f"  {name} / {base}, {title}: {ratio:.2f} (turns: {min(turns):.2f} to {max(turns):.2f})", flush=True)


def main(_):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "tiny").write_text(TINY)
        documents = read_documents()
        write_corpus(folder / "corpus", documents, FLAGS.megabytes)
        print(f"{FLAGS.megabytes:g} MB of {len(documents)} documents, max_seq_length {FLAGS.max_seq_length}")
        for n in map(int, FLAGS.dupe_factors):
            with one_core():
                found = take_turns(
                    {"plain": lambda n=n: run_plain(folder, n), "bert_tf": lambda n=n: run_ours(folder, n)}
                )
            report(f"dupe_factor {n}, one core", found)
        if FLAGS.workers_megabytes:
            write_corpus(folder / "large", documents, FLAGS.workers_megabytes)
            n = int(FLAGS.dupe_factors[0])
            runs = {f"{w} worker(s)": lambda w=w: run_ours(folder, n, "large", w) for w in (1, 2)}
            report(f"dupe_factor {n}, {FLAGS.workers_megabytes:g} MB, {os.cpu_count()} cores", take_turns(runs))


if __name__ == "__main__":
    app.run(main)
