"""Does a reranker find a paragraph that an embedder does not? Ours beside a CrossEncoder by the same recipe.

    python benchmarks/reranking.py MODEL WIKITEXT --output_dir=out [--torch=PYTHON_WITH_SENTENCE_TRANSFORMERS]

MODEL is a sentence encoder, and WIKITEXT has train.raw.gz and valid.raw.gz. A query is the first sentence of a
paragraph; its documents are the rest of the paragraph and the 29 rests of other paragraphs that MODEL finds most
similar to the query. MRR@10 is computed by MODEL's cosines, and by a reranker that starts from MODEL and is trained on
other paragraphs, with some of their 29 documents. The files stay in --output_dir, and so does what was trained. The
same command continues where it was stopped.
"""

import argparse
import json
import pathlib
import random
import subprocess

import numpy as np
import scripts
from paragraph_pairs import pairs

from bert_tf.evaluation.metrics import unit
from bert_tf.evaluation.ranking import rank_documents, ranking_metrics
from bert_tf.inference.sentence_encoder import SentenceEncoder

DOCUMENTS = 30


def queries(path, count, encoder, seed):
    """Returns `count` queries with `DOCUMENTS` documents each, the relevant one first, and the cosines of these."""
    rows = pairs(path)
    rows = random.Random(seed).sample(rows, min(count, len(rows)))
    first, rests = (unit(encoder([row[part] for row in rows])) for part in (0, 1))
    made, similar = [], []
    for number, cosines in enumerate(first @ rests.T):
        others = [other for other in np.argsort(-cosines).tolist() if other != number][: DOCUMENTS - 1]
        chosen = [number, *others]
        documents = [rows[place][1] for place in chosen]
        relevances = [1] + [0] * len(others)
        made.append({"query": rows[number][0], "documents": documents, "relevances": relevances,
                     "document_ids": list(map(str, chosen))})  # fmt: skip
        similar.append(cosines[chosen].tolist())
    return made, similar


def with_few_negatives(made, count, seed):
    """Returns the queries with the relevant document and `count` others, drawn at random."""
    rng, found = random.Random(seed), []
    for each in made:
        chosen = [0, *rng.sample(range(1, len(each["documents"])), count)]
        lists = {name: [values[place] for place in chosen] for name, values in each.items() if name != "query"}
        found.append({"query": each["query"], **lists})
    return found


def metrics(made, scores):
    """Returns the metrics of scores [query, document]."""
    rows = zip(made, scores, strict=True)
    return ranking_metrics(
        [[each["relevances"][place] for place in rank_documents(row, each["document_ids"])] for each, row in rows]
    )


def write(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("wikitext", type=pathlib.Path)
    parser.add_argument("--output_dir", type=pathlib.Path, required=True)
    parser.add_argument("--torch", help="a Python with torch and sentence-transformers, to train theirs too")
    parser.add_argument("--loss", default="binary_cross_entropy", help="of ours; theirs has binary_cross_entropy")
    parser.add_argument("--queries", type=int, nargs=2, default=(2000, 500), help="to train on, and to score on")
    parser.add_argument("--negatives", type=int, default=7, help="of a query in training")
    for name, default in (("batch", 4), ("rate", 5e-5), ("epochs", 1.0), ("max_seq_length", 128), ("seed", 1)):
        parser.add_argument(f"--{name}", type=type(default), default=default)
    options = parser.parse_args()
    folder, encoder = options.output_dir.resolve(), SentenceEncoder(options.model)
    folder.mkdir(parents=True, exist_ok=True)
    train, _ = queries(options.wikitext / "train.raw.gz", options.queries[0], encoder, options.seed)
    test, cosines = queries(options.wikitext / "valid.raw.gz", options.queries[1], encoder, options.seed)
    files = folder / "train.jsonl", folder / "test.jsonl"
    write(files[0], with_few_negatives(train, options.negatives, options.seed))
    write(files[1], test)
    result = {"queries": [len(train), len(test)], "embedder": metrics(test, cosines)}
    recipe = [options.batch, options.rate, options.epochs, options.max_seq_length, options.seed]
    scripts.run("-m", "bert_tf", "run_reranker", f"--init_checkpoint={options.model}", f"--train_file={files[0]}",
                f"--eval_file={files[1]}", f"--output_dir={folder / options.loss}", "--do_train", "--do_eval",
                f"--train_batch_size={options.batch}", f"--learning_rate={options.rate}",
                f"--num_train_epochs={options.epochs}", f"--max_seq_length={options.max_seq_length}",
                f"--seed={options.seed}", f"--loss={options.loss}", "--eval_batch_size=4")  # fmt: skip
    ours = scripts.scores(folder / options.loss)
    result["reranked"] = {name: ours[f"eval_{name}"] for name in result["embedder"]}
    if options.torch:
        script = pathlib.Path(__file__).with_name("torch_reranking.py")
        words = [options.torch, script, options.model, *files, folder / "scores.json", *recipe]
        subprocess.run([*map(str, words)], check=True)
        scores = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
        result["by a CrossEncoder"] = metrics(test, scores)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
