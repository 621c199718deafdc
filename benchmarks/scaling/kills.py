"""`pretrain data` killed by SIGKILL at random moments and repeated: the files are those of a run without kills.

    python benchmarks/scaling/kills.py --input_file=text.txt --vocab_file=vocab.txt --output_dir=out [--kills=10]

Tasks are made small, so that a few megabytes of text have as many of them as gigabytes otherwise, and runs are merged
twice. Every run is a fork of this process, so that TensorFlow is imported once.
"""

import json
import os
import pathlib
import random
import signal
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow_text  # noqa: F401  (imported once, for all forks)
from absl import app, flags

from bert_tf.pretraining.corpus import local_run, stages, units
from bert_tf.pretraining.corpus.job import CorpusJob
from bert_tf.pretraining.corpus.options import CorpusOptions
from bert_tf.utils.text_blocks import read_blocks

FLAGS = flags.FLAGS
flags.DEFINE_string("input_file", None, "Text in Google's format, some megabytes.")
flags.DEFINE_string("vocab_file", None, "A token per line.")
flags.DEFINE_string("output_dir", None, "Directory of the records; must not exist.")
flags.DEFINE_integer("kills", 10, "How often the run is killed, unless it ends before.")
flags.DEFINE_integer("seed", 0, "Of the moments.")

SMALL = {"_TASK_BYTES": 1 << 15, "BUCKET_BYTES": 1 << 20, "_MOST_RUNS": 8, "_MERGED": 4}


def make_tasks_small():
    for name, value in SMALL.items():
        setattr(local_run, name, value)
    stages.BUCKET_BYTES = SMALL["BUCKET_BYTES"]
    units.UNIT_TOKENS = 1 << 14
    local_run.read_blocks = lambda paths, formats, options: read_blocks(paths, formats, options, 1 << 15)


def start(folder):
    """Starts a run in a fork; returns its process id."""
    pid = os.fork()
    if pid:
        return pid
    try:
        options = CorpusOptions(max_seq_length=32, max_predictions_per_seq=5, dupe_factor=2)
        files = [str(folder / f"{number}.tfrecord") for number in range(2)]
        local_run.create_pretraining_data(
            CorpusJob([FLAGS.input_file], ["sentences"], files, FLAGS.vocab_file, options=options)
        )
        os._exit(0)
    finally:
        os._exit(1)


def finished_tasks(folder):
    """Returns {stage: number of finished tasks} of an interrupted run."""
    paths = sorted(folder.glob(".*.parts/*.json"))
    return {path.stem: json.loads(path.read_text()).get("done", 0) for path in paths if path.stem != "manifest"}


def ends_within(pid, seconds):
    """Waits for a run; returns whether it ended in this time."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            assert status == 0, status
            return True
        time.sleep(0.02)
    return False


def main(_):
    os.makedirs(FLAGS.output_dir)
    make_tasks_small()
    whole, killed = (pathlib.Path(FLAGS.output_dir) / name for name in ("whole", "killed"))
    rng, begin = random.Random(FLAGS.seed), time.monotonic()
    assert ends_within(start(whole), 1e6)
    seconds, kills = time.monotonic() - begin, 0
    while not ends_within(pid := start(killed), seconds * rng.uniform(0.1, 0.5) if kills < FLAGS.kills else 1e6):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        kills += 1
        print(f"killed {kills} times; finished tasks: {finished_tasks(killed)}", flush=True)
    names = sorted(path.name for path in whole.glob("*.tfrecord"))
    same = all((whole / name).read_bytes() == (killed / name).read_bytes() for name in names)
    print(f"{kills} kills, {len(names)} files, {'all the same' if same else 'DIFFERENT'}")


if __name__ == "__main__":
    flags.mark_flags_as_required(["input_file", "vocab_file", "output_dir"])
    app.run(main)
