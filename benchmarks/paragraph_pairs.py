"""Pairs of text without labels: does a paragraph's first sentence find the rest of it, before and after training?

    python benchmarks/paragraph_pairs.py --model=MINILM --data_dir=wikitext2 --output_dir=out

`train embedder` trains with in-batch negatives on paragraphs of the training file, and counts on those of the
validation file how often a first sentence finds its own rest among all of them; once untrained, once trained, with the
same pooling. Both are printed as JSON. The same command goes on where it was stopped.
"""

import gzip
import json
import pathlib
import random
import sys
import time

import scripts
from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("model", None, "The encoder to start from.", required=True)
flags.DEFINE_string("data_dir", None, "WikiText-2: train.raw.gz and valid.raw.gz.", required=True)
flags.DEFINE_string("output_dir", None, "Where the runs go.", required=True)
flags.DEFINE_string("layers", "second_to_last", "As in run_embedder.")
flags.DEFINE_integer("num_train", 2000, "Paragraphs to train on, drawn at random.", lower_bound=1)
flags.DEFINE_integer("num_eval", 1000, "Paragraphs to score on, drawn at random.", lower_bound=1)
flags.DEFINE_integer("max_seq_length", 64, "As in run_embedder.")
flags.DEFINE_integer("train_batch_size", 32, "As in run_embedder.")
flags.DEFINE_float("num_train_epochs", 1, "As in run_embedder.")
flags.DEFINE_float("learning_rate", 5e-5, "As in run_embedder.")
flags.DEFINE_integer("seed", 1, "Of the drawing and of training.")

_SHORTEST = 20  # characters of a sentence, and of the rest


def pairs(path):
    """Returns (first sentence, the rest) of every paragraph of two sentences or more; headings begin with "="."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    cut = [line.split(" . ", 1) for line in lines if line and not line.startswith("=")]
    cut = [(f"{parts[0]} .", parts[1]) for parts in cut if len(parts) == 2]
    return [pair for pair in cut if min(map(len, pair)) >= _SHORTEST]


def write_files(out):
    """Writes train.jsonl and dev.jsonl, and returns how many pairs each has."""
    counts = {}
    for name, split, most in (("train", "train", FLAGS.num_train), ("dev", "valid", FLAGS.num_eval)):
        rows = pairs(pathlib.Path(FLAGS.data_dir, f"{split}.raw.gz"))
        rows = random.Random(FLAGS.seed).sample(rows, min(most, len(rows)))
        lines = [json.dumps({"text_a": a, "text_b": b}, ensure_ascii=False) for a, b in rows]
        (out / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        counts[name] = len(rows)
    return counts


def run(out, name, *flags):
    """Runs `train embedder` and returns its scores, and the seconds that it took."""
    begin = time.monotonic()
    scripts.run(
        *("-m", "bert_tf", "run_embedder", f"--init_checkpoint={FLAGS.model}", f"--output_dir={out / name}"),
        *(f"--eval_file={out / 'dev.jsonl'}", "--do_eval", "--eval_batch_size=32", f"--layers={FLAGS.layers}"),
        *(f"--max_seq_length={FLAGS.max_seq_length}", *flags),
    )
    return {**scripts.scores(out / name), "seconds": round(time.monotonic() - begin)}


def main(_):
    out = pathlib.Path(FLAGS.output_dir).resolve()
    out.mkdir(parents=True, exist_ok=True)
    result = {"pairs": write_files(out), "untrained": run(out, "untrained")}
    recipe = ("train_batch_size", "num_train_epochs", "learning_rate", "seed")
    settings = [f"--{name}={getattr(FLAGS, name)}" for name in recipe]
    result["trained"] = run(out, "trained", f"--train_file={out / 'train.jsonl'}", "--do_train", *settings)
    print(json.dumps(result, indent=1))
    if result["trained"]["eval_recall_at_1"] <= result["untrained"]["eval_recall_at_1"]:
        sys.exit("recall@1 did not rise")


if __name__ == "__main__":
    app.run(main)
