"""Memory does not grow with the corpus."""

import os
import random
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.pretraining.corpus import support


def _write_corpus(path, sentences, megabytes):
    """Documents of twenty sentences drawn from real ones, each with a number of its own."""
    rng, written, number = random.Random(0), 0, 0
    with open(path, "w", encoding="utf-8") as file:
        while written < megabytes * 1_000_000:
            lines = rng.choices(sentences, k=20)
            number += 1
            written += file.write(f"{number} {lines[0]}\n" + "\n".join(lines[1:]) + "\n\n")


def _peak_of_run(corpus, output, vocab_file):
    """Megabytes of the largest process of a run."""
    command = [
        sys.executable, "-m", "bert_tf", "create_pretraining_data", f"--input_file={corpus}", "--dupe_factor=1",
        "--input_format=sentences", f"--output_file={output}", f"--vocab_file={vocab_file}", "--num_workers=2",
    ]  # fmt: skip
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss / 1000


@pytest.mark.slow
def test_peak_memory_of_1_gb_is_that_of_100_mb(tmp_path, minilm):
    sentences = []
    for path in support.corpus("gutenberg"):
        with open(path, encoding="utf-8", errors="ignore") as file:
            sentences += [line.strip() for line in file if len(line) > 30]
    peaks = []
    for megabytes in (100, 1000):
        corpus = tmp_path / "corpus.txt"
        _write_corpus(corpus, sentences, megabytes)
        peaks.append(_peak_of_run(corpus, tmp_path / "records.tfrecord", f"{minilm}/vocab.txt"))
    print(f"\npeak memory: {peaks[0]:.0f} MB for 100 MB of text, {peaks[1]:.0f} MB for 1 GB")
    assert peaks[1] < 1.1 * peaks[0]
