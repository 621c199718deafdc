"""What pretraining is worth: one network fine-tuned on few labels, from a pretrained encoder and from random weights.

    python benchmarks/fine_tuning_gain.py --pretrained=pretrained --train_file=train.tsv --eval_file=test.tsv

Both are trained by run_classifier with the same flags, seeds and --num_examples first rows of the training file.
"""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from absl import app, flags

ROOT = pathlib.Path(__file__).resolve().parents[1]
FLAGS = flags.FLAGS
flags.DEFINE_string("pretrained", None, "What run_pretraining left in --output_dir.", required=True)
flags.DEFINE_string("train_file", None, "Tab-separated texts and labels, no header.", required=True)
flags.DEFINE_string("eval_file", None, "The same, to score on.", required=True)
flags.DEFINE_integer("num_examples", 1000, "Rows of the training file to train on.")
flags.DEFINE_integer("seeds", 5, "Runs from each start, of seeds 1, 2, ...")
flags.DEFINE_list("learning_rates", ["1e-4", "3e-4"], "Each start is given all of them, and judged by its best.")
flags.DEFINE_string("num_train_epochs", "5", "As in run_classifier.")


def accuracy(start, seed, learning_rate, train_file, folder):
    """Fine-tunes and scores one network; `start`: the flags that say where its weights come from."""
    command = [sys.executable, "-m", "bert_tf", "run_classifier", *start, "--do_train", "--do_eval", "--header=false"]
    command += [f"--train_file={train_file}", f"--eval_file={FLAGS.eval_file}", "--text_column=0", "--label_column=1"]
    command += ["--max_seq_length=64", "--train_batch_size=16", "--eval_batch_size=64", f"--seed={seed}"]
    command += [f"--learning_rate={learning_rate}", f"--num_train_epochs={FLAGS.num_train_epochs}"]
    done = subprocess.run([*command, f"--output_dir={folder}"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    with open(os.path.join(folder, "eval_results.txt"), encoding="utf-8") as file:
        scores = dict(line.strip().split(" = ") for line in file)
    return float(scores["eval_accuracy"])


def main(_):
    with open(FLAGS.train_file, encoding="utf-8") as file:
        rows = file.readlines()[: FLAGS.num_examples]
    shape = [f"--bert_config_file={FLAGS.pretrained}/bert_config.json", f"--vocab_file={FLAGS.pretrained}/vocab.txt"]
    starts = {"pretrained": [f"--init_checkpoint={FLAGS.pretrained}"], "random": shape}
    scores = {(name, rate): [] for name in starts for rate in FLAGS.learning_rates}
    with tempfile.TemporaryDirectory() as folder:
        train_file = os.path.join(folder, "train.tsv")
        pathlib.Path(train_file).write_text("".join(rows), encoding="utf-8")
        for seed in range(1, FLAGS.seeds + 1):
            for (name, rate), found in scores.items():
                out = os.path.join(folder, f"{name}-{rate}-{seed}")
                found.append(accuracy(starts[name], seed, rate, train_file, out))
                print(f"seed {seed}  {name:10}  rate {rate}  {found[-1]:.4f}", flush=True)
    best = {name: max((statistics.mean(scores[name, rate]), rate) for rate in FLAGS.learning_rates) for name in starts}
    print(f"{len(rows)} labels, {FLAGS.seeds} seeds, mean accuracy (and standard deviation) at the best rate of each:")
    for name, (mean, rate) in best.items():
        deviation = statistics.stdev(scores[name, rate]) if FLAGS.seeds > 1 else 0.0
        print(f"  {name:10}  {mean:.4f}  ({deviation:.4f})  rate {rate}")
    print(f"  gain: {100 * (best['pretrained'][0] - best['random'][0]):.1f} points")


if __name__ == "__main__":
    app.run(main)
