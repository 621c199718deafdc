"""CPU time to read one unit of documents from the sorted runs of a corpus, before and after they are merged.

    python benchmarks/scaling/sorted_runs.py --output_dir=runs [--runs=100,500,2500]

A run is what `pretrain data` makes of 4 MB of text: 2,500 are those of 10 GB. There is one unit per run, so
what one takes, times the number of runs and passes, is the time for reading.
"""

import os
import time

import numpy as np
from absl import app, flags

from bert_tf.data.ragged import Ragged
from bert_tf.pretraining.corpus import external_sort

FLAGS = flags.FLAGS
flags.DEFINE_string("output_dir", None, "Directory of the runs; must not exist.")
flags.DEFINE_list("runs", ["100", "500", "2500"], "Numbers of runs.")
flags.DEFINE_integer("merged", 32, "Runs that are merged at a time.")

NAMES = ["ids", "tokens", "sentences"]
DOCUMENTS, SENTENCES, TOKENS = 600, 20, 40  # of a run, of a document, of a document


def write_run(path, rng):
    keys = np.sort(rng.integers(0, 2**64 - 1, DOCUMENTS, np.uint64))
    columns = {
        "ids": np.zeros(DOCUMENTS, np.int64),
        "tokens": Ragged.of_lengths(np.zeros(DOCUMENTS * TOKENS, np.int32), np.full(DOCUMENTS, TOKENS)),
        "sentences": Ragged.of_lengths(np.ones(DOCUMENTS * SENTENCES, np.int32), np.full(DOCUMENTS, SENTENCES)),
    }
    external_sort.write_sorted(path, keys, columns)


def milliseconds(runs, of):
    """Returns the CPU time to read a unit, the mean of three."""
    begin = time.process_time()
    for unit in range(3):
        external_sort.read_sorted(runs, NAMES, *external_sort.bounds(unit, of))
    return 1000 * (time.process_time() - begin) / 3


def main(_):
    os.makedirs(FLAGS.output_dir)
    rng, runs = np.random.default_rng(0), []
    for number in map(int, FLAGS.runs):
        while len(runs) < number:
            runs.append(os.path.join(FLAGS.output_dir, f"{len(runs):08d}"))
            write_run(runs[-1], rng)
        print(f"{number} runs: {milliseconds(runs, number):.0f} ms per unit", flush=True)
    begin, merged = time.process_time(), []
    for first in range(0, len(runs), FLAGS.merged):
        merged.append(os.path.join(FLAGS.output_dir, f"merged-{first:08d}"))
        external_sort.merge_runs(runs[first : first + FLAGS.merged], NAMES, merged[-1], 1 << 26)
    print(f"merged to {len(merged)} runs in {time.process_time() - begin:.1f} s")
    print(f"{len(merged)} merged runs: {milliseconds(merged, len(runs)):.0f} ms per unit")


if __name__ == "__main__":
    flags.mark_flag_as_required("output_dir")
    app.run(main)
