"""What hard negatives, Matryoshka losses and a reranker's scores gain over in-batch negatives alone.

    python benchmarks/embedding_recipes.py MODEL WIKITEXT --output_dir=out [--seeds=1,2,3]

WIKITEXT has train.raw.gz and valid.raw.gz. As in paragraph_pairs.py, the first sentence of a paragraph must find the
rest of it. `train embedder` trains every variant on the same pairs. On paragraphs of the validation file, cosines rank
all rests for each first sentence, with all dimensions and with the leading ones:

    in_batch    the rests of the other paragraphs of the batch are the negatives
    hard        in addition, the most similar texts that `data mine-negatives` finds for each query
    matryoshka  as in_batch, with the mean of the losses over several numbers of dimensions
    distilled   margin MSE: negatives chosen by a reranker that was trained on the negatives of hard, and its logits

hard and distilled leave out the queries for which no negative was found. Prints recall@1 and the mean of 1 / rank as
Markdown: of MODEL, then means over the seeds with standard deviations. The same command continues where it was stopped.
"""

import argparse
import json
import pathlib
import random
import statistics
import sys

import scripts
from paragraph_pairs import pairs

from bert_tf.evaluation.retrieval import ranks, retrieval
from bert_tf.inference.sentence_encoder import SentenceEncoder

DIMS = (384, 128, 64, 32)
RESCORED = 20  # texts of each query that the reranker chooses from: it reads a query with each of them
DIMS_FLAG = f"--matryoshka_dims={','.join(map(str, DIMS))}"


def main():
    options = _options()
    folder = options.output_dir.resolve()
    check_settings(options, folder)
    write_pairs(options, folder)
    mine(options, folder)
    scores = {"untrained": [evaluate(folder, options.model, folder / "untrained.json")]}
    for seed in options.seeds:
        for name, flags in variants(options, folder).items():
            out = folder / f"{name}-{seed}"
            embedder(options, out, f"--init_checkpoint={options.model}", "--do_train", f"--seed={seed}", *flags)
            scores.setdefault(name, []).append(evaluate(folder, out, folder / f"{name}-{seed}.json"))
    show(scores)


def _options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a sentence encoder of 384 dimensions")
    parser.add_argument("wikitext", type=pathlib.Path)
    parser.add_argument("--output_dir", type=pathlib.Path, required=True)
    parser.add_argument("--seeds", type=lambda text: [int(word) for word in text.split(",")], default=[1, 2, 3])
    parser.add_argument("--paragraphs", type=int, nargs=2, default=(1000, 1000), help="to train on, and to score on")
    for name, default in (("negatives", 1), ("batch", 32), ("rate", 2e-5), ("epochs", 1.0), ("max_seq_length", 64)):
        parser.add_argument(f"--{name}", type=type(default), default=default)
    return parser.parse_args()


def check_settings(options, folder):
    """Ends the program if what is in the folder was made with other options; the seeds may differ."""
    settings = {name: str(value) for name, value in vars(options).items() if name not in ("output_dir", "seeds")}
    path = folder / "settings.json"
    if path.exists() and (before := json.loads(path.read_text(encoding="utf-8"))) != settings:
        sys.exit(f"{folder} was made with other options: {before}. Pass these, or another --output_dir.")
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(settings), encoding="utf-8")


def write_pairs(options, folder):
    """Writes train.jsonl and dev.jsonl, and the texts among which negatives are mined, passages.txt."""
    for name, split, count in zip(("train", "dev"), ("train", "valid"), options.paragraphs, strict=True):
        rows = pairs(options.wikitext / f"{split}.raw.gz")
        rows = random.Random(0).sample(rows, min(count, len(rows)))
        lines = [json.dumps({"text_a": a, "text_b": b}, ensure_ascii=False) for a, b in rows]
        (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        if name == "train":
            (folder / "passages.txt").write_text("".join(f"{rest}\n" for _, rest in rows), encoding="utf-8")


def mine(options, folder):
    """Writes mined.jsonl, trains a reranker on it, and writes scored.jsonl with the reranker's scores."""
    index = folder / "passages.index"
    if not index.exists():
        scripts.run("-m", "bert_tf", "embed", f"--model={options.model}", f"--input_file={folder / 'passages.txt'}",
                    f"--index_dir={index}")  # fmt: skip
    command = ["-m", "bert_tf", "mine_negatives", f"--index_dir={index}", f"--input_file={folder / 'train.jsonl'}",
               f"--num_negatives={options.negatives}"]  # fmt: skip
    if not (folder / "mined.jsonl").exists():
        scripts.run(*command, f"--output_file={folder / 'mined.jsonl'}")
    scripts.run("-m", "bert_tf", "run_reranker", f"--init_checkpoint={options.model}", "--do_train", "--seed=0",
                f"--train_file={folder / 'mined.jsonl'}", f"--output_dir={folder / 'reranker'}", "--num_train_epochs=2",
                "--max_seq_length=128", "--train_batch_size=8")  # fmt: skip
    if not (folder / "scored.jsonl").exists():
        scripts.run(*command, f"--output_file={folder / 'scored.jsonl'}", f"--rerank={folder / 'reranker'}",
                    f"--range_max={RESCORED}")  # fmt: skip


def variants(options, folder):
    """Returns {name: flags of `train embedder`}."""
    return {
        "in_batch": [f"--train_file={folder / 'train.jsonl'}"],
        "hard": [f"--train_file={folder / 'mined.jsonl'}"],
        "matryoshka": [f"--train_file={folder / 'train.jsonl'}", DIMS_FLAG],
        "distilled": [f"--train_file={folder / 'scored.jsonl'}", "--loss=margin_mse",
                      "--temperature=0.05"],  # for differences of logits
    }  # fmt: skip


def embedder(options, out, *flags):
    """Runs `train embedder` with the flags that all runs share."""
    scripts.run("-m", "bert_tf", "run_embedder", f"--output_dir={out}", f"--max_seq_length={options.max_seq_length}",
                f"--train_batch_size={options.batch}", f"--learning_rate={options.rate}", "--precision=auto",
                f"--num_train_epochs={options.epochs}", *flags)  # fmt: skip


def evaluate(folder, model, path):
    """Returns the metrics of a model on dev.jsonl, for all dimensions and for the leading ones; kept in a file."""
    if not path.exists():
        rows = [json.loads(line) for line in (folder / "dev.jsonl").read_text(encoding="utf-8").splitlines()]
        encoder = SentenceEncoder(str(model))
        firsts, rests = (encoder([row[name] for row in rows]) for name in ("text_a", "text_b"))
        found = {}
        for dim in DIMS:
            metrics = retrieval(ranks(firsts[:, :dim], rests[:, :dim]))
            found |= {f"recall@1, {dim}": metrics["recall_at_1"], f"MRR, {dim}": metrics["mrr"]}
        path.write_text(json.dumps(found), encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))


def show(scores):
    """Prints a table of {variant: metrics of each seed}, in percent."""
    metrics = list(scores["untrained"][0])
    print(f"| | {' | '.join(metrics)} |\n|---{'|---' * len(metrics)}|")
    for name, runs in scores.items():
        cells = []
        for metric in metrics:
            values = [100 * run[metric] for run in runs]
            spread = f" ({statistics.stdev(values):.1f})" if len(values) > 1 else ""
            cells.append(f"{statistics.fmean(values):.1f}{spread}")
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
