"""What fine-tuning in bfloat16 costs in quality and saves in time, beside float32; prints a table.

    python benchmarks/training_precision.py --model=MINILM --glue_dir=glue --sst_dir=sst2-tutorial \\
        --ner_dir=NCBI-disease --output_dir=out

RTE, MRPC, STS-B, SST-2 (train.tsv and test.tsv of --sst_dir: text and label, without a header) and named entities
(train.txt and dev.txt of --ner_dir, in CoNLL's columns), each in both precisions with the same seeds, in turns. The
table has the means, the mean difference of the pairs with its standard error, and the ratio of the examples per second
(the median of the pairs). The same command goes on where it was stopped.
"""

import json
import math
import os
import pathlib
import statistics

import scripts
from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("model", None, "The encoder to start from.", required=True)
flags.DEFINE_string("glue_dir", None, "GLUE's folders, with RTE, MRPC and STS-B.", required=True)
flags.DEFINE_string("sst_dir", None, "The folder with SST-2 as text and label.", required=True)
flags.DEFINE_string("ner_dir", None, "The folder with words and tags.", required=True)
flags.DEFINE_string("output_dir", None, "Where the runs go.", required=True)
flags.DEFINE_list("seeds", ["1", "2", "3"], "Pairs of runs of each set.")
flags.DEFINE_float("num_train_epochs", 1.0, "Of each run.")
flags.DEFINE_integer("max_seq_length", 64, "Of each run.")

PRECISIONS = ("float32", "mixed_bfloat16")
COLUMNS = ("--header=false", "--text_column=0", "--label_column=1")


def sets():
    """Returns {name: (command, flags that name the data, metric)}."""
    glue = {"rte": "eval_accuracy", "mrpc": "eval_f1", "sts-b": "eval_pearson"}
    found = {
        name: ("run_classifier", [f"--task_name={name}", f"--data_dir={FLAGS.glue_dir}/{name.upper()}"], metric)
        for name, metric in glue.items()
    }
    sst, ner = FLAGS.sst_dir, FLAGS.ner_dir
    files = [f"--train_file={sst}/train.tsv", f"--eval_file={sst}/test.tsv", *COLUMNS]
    found["sst-2"] = ("run_classifier", files, "eval_accuracy")
    found["ner"] = ("run_tagger", [f"--train_file={ner}/train.txt", f"--eval_file={ner}/dev.txt"], "eval_f1")
    return found


def run(command, data, out, precision, seed):
    """Returns (scores, examples per second) of a run, which is made if it was not."""
    if not (out / "eval_results.txt").exists():
        recipe = [f"--num_train_epochs={FLAGS.num_train_epochs}", f"--max_seq_length={FLAGS.max_seq_length}"]
        recipe += ["--learning_rate=5e-5" if command == "run_classifier" else "--learning_rate=1e-4"]
        recipe += [f"--init_checkpoint={FLAGS.model}", f"--output_dir={out}", "--do_train", "--do_eval"]
        recipe += [f"--precision={precision}", f"--seed={seed}", "--keep_checkpoints=1", "--overwrite_output_dir"]
        scripts.run("-m", "bert_tf", command, *data, *recipe)
    lines = (out / "history.jsonl").read_text(encoding="utf-8").splitlines()
    rates = [line["examples_per_second"] for line in map(json.loads, lines) if line["kind"] == "train"]
    return scripts.scores(out), statistics.median(rates)


def main(_):
    os.makedirs(FLAGS.output_dir, exist_ok=True)
    print("| Set | Metric | float32 | bfloat16 | Difference | Standard error | Speed, bfloat16 to float32 |")
    print(f"|{'---|' * 7}")
    for name, (command, data, metric) in sets().items():
        pairs, ratios = [], []
        for seed in FLAGS.seeds:
            home = pathlib.Path(FLAGS.output_dir, name, seed)
            runs = [run(command, data, home / precision, precision, seed) for precision in PRECISIONS]
            pairs.append([100 * scores[metric] for scores, _ in runs])
            ratios.append(runs[1][1] / runs[0][1])
        means = [f"{statistics.fmean(each):.2f}" for each in zip(*pairs, strict=True)]
        gains = [bfloat16 - float32 for float32, bfloat16 in pairs]
        error = f"{statistics.stdev(gains) / math.sqrt(len(gains)):.2f}" if len(gains) > 1 else ""
        cells = [name, metric, *means, f"{statistics.fmean(gains):+.2f}", error, f"{statistics.median(ratios):.2f}"]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    app.run(main)
