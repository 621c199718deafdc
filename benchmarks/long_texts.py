"""Long texts read through windows, against their beginnings alone: 20 Newsgroups, documents over 256 word pieces.

    python benchmarks/long_texts.py --model=MINILM --data_dir=r8 --output_dir=out

`train classifier` trains on documents of the training file and is scored on those of the test file, once with
--long_text=truncate and once with --long_text=window, all else being equal; both accuracies are printed as JSON. The
same command goes on where it was stopped.
"""

import json
import pathlib
import sys
import time

import scripts
from absl import app, flags

sys.path.insert(0, str(scripts.ROOT))
FLAGS = flags.FLAGS
flags.DEFINE_string("model", None, "The encoder to start from.", required=True)
flags.DEFINE_string("data_dir", None, "20 Newsgroups: 20newsgroups-train.tab and -test.tab.", required=True)
flags.DEFINE_string("output_dir", None, "Where the runs go.", required=True)
flags.DEFINE_integer("longer_than", 256, "Word pieces of the shortest document, less one.")
flags.DEFINE_integer("num_train", 1000, "Documents to train on, drawn at random; 0: all.", lower_bound=0)
flags.DEFINE_integer("num_eval", 500, "Documents to score on, drawn at random; 0: all.", lower_bound=0)
flags.DEFINE_integer("max_seq_length", 128, "As in run_classifier.")
flags.DEFINE_integer("doc_stride", 96, "As in run_classifier.")
flags.DEFINE_integer("train_batch_size", 8, "As in run_classifier.")
flags.DEFINE_integer("num_train_epochs", 3, "As in run_classifier.")
flags.DEFINE_float("learning_rate", 1e-4, "As in run_classifier.")
flags.DEFINE_string("precision", "mixed_bfloat16", "As in run_classifier.")
flags.DEFINE_integer("seed", 1, "Of the drawing and of training.")


def read_tab(path):
    """Returns (category, text) of each document in a file of Orange's format: three lines say what the columns are."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    assert lines[0].split("\t") == ["Category", "Text"], lines[0]
    return [tuple(line.split("\t")) for line in lines[3:] if line]


def long_ones(rows, tokenizer, most):
    """Returns `most` of the documents that are long enough, in a random order that the seed decides."""
    import numpy as np

    chunks = [rows[start : start + 1000] for start in range(0, len(rows), 1000)]
    pieces = [tokenizer.tokenize([text for _, text in chunk]).row_lengths().numpy() for chunk in chunks]
    chosen = np.flatnonzero(np.concatenate(pieces) > FLAGS.longer_than)
    chosen = np.random.default_rng(FLAGS.seed).permutation(chosen)[: most or None]
    return [rows[i] for i in chosen]


def write_files(out):
    """Writes train.tsv and dev.tsv, and returns how many documents each has."""
    from bert_tf.tokenization.wordpiece import WordPieceTokenizer

    tokenizer, counts = WordPieceTokenizer.from_directory(FLAGS.model), {}
    for name, split, most in (("train", "train", FLAGS.num_train), ("dev", "test", FLAGS.num_eval)):
        rows = long_ones(read_tab(pathlib.Path(FLAGS.data_dir, f"20newsgroups-{split}.tab")), tokenizer, most)
        lines = ["text\tlabel", *(f"{text}\t{category}" for category, text in rows)]
        (out / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        counts[name] = len(rows)
    return counts


def accuracy(out, how):
    """Returns the accuracy with --long_text=`how`, and the minutes that training and scoring took."""
    files = [f"--train_file={out}/train.tsv", f"--eval_file={out}/dev.tsv", f"--init_checkpoint={FLAGS.model}"]
    same = ("max_seq_length", "train_batch_size", "num_train_epochs", "learning_rate", "precision", "seed")
    options = [f"--{name}={FLAGS[name].value}" for name in same]
    if how == "window":  # some 50 rows at a time need much memory; the result does not depend on the parts
        options += [f"--doc_stride={FLAGS.doc_stride}", "--gradient_accumulation_steps=2"]
    begin = time.monotonic()
    scripts.run("-m", "bert_tf", "run_classifier", *files, f"--output_dir={out}/{how}", "--do_train", "--do_eval",
                f"--long_text={how}", *options)  # fmt: skip
    return scripts.scores(out / how)["eval_accuracy"], (time.monotonic() - begin) / 60


def main(_):
    out = pathlib.Path(FLAGS.output_dir)
    out.mkdir(parents=True, exist_ok=True)
    result = {"documents": write_files(out)}
    for how in ("truncate", "window"):
        value, minutes = accuracy(out, how)
        result[how] = {"accuracy": value, "minutes": round(minutes, 1)}
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    app.run(main)
