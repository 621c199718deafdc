"""What bias correction and batches sorted by length do to fine-tuning on small training sets; prints a table.

    python benchmarks/small_sets.py --model=MINILM --glue_dir=glue --sst_dir=sst2-tutorial --output_dir=out

RTE, STS-B and 1,000 labels of SST-2 (train.tsv and test.tsv of --sst_dir: text and label, without a header), each with
and without bias correction, with batches out of pools of 50, of 4 and of 1 (which is no sorting), with five seeds: 90
runs. The same command goes on where it was stopped; --only_report makes the table of the runs that are there.

A run stalls until the mean loss of its last ten lines of history.jsonl is below nine tenths of what guessing costs: the
entropy of the training labels, or the variance of the scores. One that does not get there in half of its steps counts
as stalled.
"""

import collections
import csv
import itertools
import json
import math
import os
import pathlib
import statistics
import time

import scripts
from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("model", None, "The encoder to start from.", required=True)
flags.DEFINE_string("glue_dir", None, "GLUE's folders, with RTE and STS-B.", required=True)
flags.DEFINE_string("sst_dir", None, "The folder with SST-2 as text and label.", required=True)
flags.DEFINE_string("output_dir", None, "Where the runs go.", required=True)
flags.DEFINE_list("seeds", ["1", "2", "3", "4", "5"], "Runs of each cell.")
flags.DEFINE_list("sets", ["rte", "sts-b", "sst-2"], "Some of the sets.")
flags.DEFINE_list("pools", ["50", "4", "1"], "Batches that are sorted together.")
flags.DEFINE_float("num_train_epochs", 3.0, "Of each run.")
flags.DEFINE_string("learning_rate", "5e-5", "Of each run.")
flags.DEFINE_integer("train_batch_size", 32, "Of each run.")
flags.DEFINE_string("precision", "mixed_bfloat16", "Of each run.")
flags.DEFINE_bool("only_report", False, "Make no run.")

LABELS = 1000
LINES = 10  # of the history whose mean loss is looked at
LEARNED = 0.9  # of the loss of guessing
HEADER = "| Set | Bias correction | Sorted together | Score | Standard deviation | Lowest | Stalled | Seconds |"


def sets():
    """Returns {name: (flags of `train classifier` that name it, metrics of its score, targets to train on)}."""
    small = pathlib.Path(FLAGS.output_dir, f"sst-2-{LABELS}.tsv")
    lines = pathlib.Path(FLAGS.sst_dir, "train.tsv").read_text(encoding="utf-8").splitlines()[:LABELS]
    small.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    columns = ["--header=false", "--text_column=0", "--label_column=1"]
    files = [f"--train_file={small}", f"--eval_file={FLAGS.sst_dir}/test.tsv", *columns]
    glue = {name: pathlib.Path(FLAGS.glue_dir, name.upper()) for name in ("rte", "sts-b")}
    named = {name: [f"--task_name={name}", f"--data_dir={folder}"] for name, folder in glue.items()}
    scores = [float(score) for score in column(glue["sts-b"] / "train.tsv", "score")]
    return {
        "rte": (named["rte"], ["eval_accuracy"], column(glue["rte"] / "train.tsv", "label")),
        "sts-b": (named["sts-b"], ["eval_pearson", "eval_spearman"], scores),
        "sst-2": (files, ["eval_accuracy"], [line.split("\t")[1] for line in lines]),
    }


def column(path, name):
    """Returns the values of a column of a .tsv file of GLUE, which has no quotes."""
    with open(path, encoding="utf-8", newline="") as file:
        return [row[name] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if row[name]]


def loss_of_guessing(targets):
    """Returns the least mean loss of answers that do not look at the text."""
    if isinstance(targets[0], float):
        return statistics.pvariance(targets)
    counts = collections.Counter(targets).values()
    return -sum(n / len(targets) * math.log(n / len(targets)) for n in counts)


def first_learned(folder, guess):
    """Returns at what share of its steps a run had learned something; 1 or more: never."""
    lines = [json.loads(line) for line in (folder / "history.jsonl").read_text(encoding="utf-8").splitlines()]
    train = [(line["step"], line["loss"]) for line in lines if line["kind"] == "train" and line["loss"] is not None]
    for end in range(LINES, len(train) + 1):
        if statistics.fmean(loss for _, loss in train[end - LINES : end]) < LEARNED * guess:
            return train[end - 1][0] / train[-1][0]
    return math.inf


def run(name, data, corrects, pool, seed):
    """Returns the folder of a run, which is made if it was not; None where it is not there and shall not be made."""
    out = pathlib.Path(FLAGS.output_dir, name, f"correction-{str(corrects).lower()}_pool-{pool}", f"seed-{seed}")
    if (out / "done").exists() or FLAGS.only_report:
        return out if (out / "done").exists() else None
    start = time.time()
    recipe = [f"--num_train_epochs={FLAGS.num_train_epochs}", f"--learning_rate={FLAGS.learning_rate}"]
    recipe += [f"--train_batch_size={FLAGS.train_batch_size}", f"--precision={FLAGS.precision}", "--max_seq_length=128"]
    recipe += [f"--bias_correction={corrects}", f"--bucket_batches={pool}", f"--seed={seed}", "--eval_batch_size=64"]
    recipe += [f"--init_checkpoint={FLAGS.model}", f"--output_dir={out}", "--do_train", "--do_eval"]
    scripts.run("-m", "bert_tf", "run_classifier", *data, *recipe, "--keep_checkpoints=1")
    for checkpoint in out.glob("model.ckpt-*"):
        checkpoint.unlink()  # 90 of them would fill a disk
    (out / "done").write_text(f"{time.time() - start}\n", encoding="utf-8")
    return out


def row(name, data, metrics, guess, corrects, pool):
    """Returns a line of the table, after making the runs that it lacks; None: there is none."""
    folders = [run(name, data, corrects, pool, seed) for seed in FLAGS.seeds]
    folders = [folder for folder in folders if folder]
    if not folders:
        return None
    found = [statistics.fmean(100 * scripts.scores(folder)[metric] for metric in metrics) for folder in folders]
    stalled = sum(first_learned(folder, guess) > 0.5 for folder in folders)
    seconds = statistics.fmean(float((folder / "done").read_text(encoding="utf-8")) for folder in folders)
    deviation = f"{statistics.stdev(found):.2f}" if len(found) > 1 else ""
    cells = [name, "yes" if corrects else "no", pool, f"{statistics.fmean(found):.2f}", deviation, f"{min(found):.2f}"]
    return f"| {' | '.join(cells)} | {stalled} of {len(found)} | {seconds:.0f} |"


def main(_):
    os.makedirs(FLAGS.output_dir, exist_ok=True)
    print(f"{HEADER}\n{'|---' * (HEADER.count('|') - 1)}|")
    there = sets()
    for name in FLAGS.sets:
        data, metrics, targets = there[name]
        for corrects, pool in itertools.product((False, True), FLAGS.pools):
            if line := row(name, data, metrics, loss_of_guessing(targets), corrects, pool):
                print(line, flush=True)


if __name__ == "__main__":
    app.run(main)
