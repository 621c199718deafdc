"""Does a reranker find a paragraph that an embedder does not? Ours beside a CrossEncoder by the same recipe.

    python benchmarks/reranking.py MODEL WIKITEXT --output_dir=out [--torch=PYTHON_WITH_SENTENCE_TRANSFORMERS]

MODEL is a sentence encoder, and WIKITEXT has train.raw.gz and valid.raw.gz. A query is the first sentence of a
paragraph; its documents are the rest of the paragraph and 29 rests of other paragraphs: in one test those that MODEL
finds most similar to the query, in the other any. MRR@10 is computed by MODEL's cosines, and by a reranker that starts
from MODEL and is trained on other paragraphs: alone, and combined with the cosines at equal weight (`combine_scores`).
Its negatives are rests drawn at random, and --hard_negatives of the 29 most similar ones. MODEL reads as much of a text
as its files say, the reranker --max_seq_length tokens of both. The files stay in --output_dir, and so does what was
trained. The same command continues where it was stopped.
"""

import argparse
import json
import pathlib
import random
import subprocess

import numpy as np
import scripts
from paragraph_pairs import pairs

from bert_tf.evaluation.cosine_similarity import unit
from bert_tf.evaluation.ranking import rank_documents, ranking_metrics
from bert_tf.inference.predictor import Predictor
from bert_tf.inference.reranker import Reranker, combine_scores
from bert_tf.inference.sentence_encoder import SentenceEncoder

DOCUMENTS = 30


def rows_of(path, count, seed):
    """Returns `count` pairs of first sentence and rest of a file, drawn at random; all of them if there are fewer."""
    rows = pairs(path)
    return random.Random(seed).sample(rows, min(count, len(rows)))


def similarities(rows, encoder):
    """Returns the cosines [query, rest] of all pairs."""
    first, rests = (unit(encoder([row[part] for row in rows])) for part in (0, 1))
    return first @ rests.T


def most_similar(cosines):
    """Returns, for each query, the places of the `DOCUMENTS - 1` rests that are most similar to it, without its own."""
    nearest = (np.argsort(-row)[:DOCUMENTS].tolist() for row in cosines)
    return [[other for other in places if other != number][: DOCUMENTS - 1] for number, places in enumerate(nearest)]


def random_others(rows, count, seed):
    """Returns, for each query, the places of `count` rests of others."""
    rng = random.Random(seed)
    drawn = (rng.sample(range(len(rows) - 1), count) for _ in rows)
    return [[place + (place >= number) for place in places] for number, places in enumerate(drawn)]


def with_documents(rows, others):
    """Returns the queries, each with its relevant document first, and then those at `others`."""
    made = []
    for number, places in enumerate(others):
        chosen = [number, *places]
        relevances = [1] + [0] * len(places)
        made.append({"query": rows[number][0], "documents": [rows[place][1] for place in chosen],
                     "relevances": relevances, "document_ids": list(map(str, chosen))})  # fmt: skip
    return made


def training_queries(rows, encoder, options):
    """Returns the queries to train on, with random and hard negatives."""
    others = random_others(rows, options.negatives, options.seed)
    if options.hard_negatives:
        rng = random.Random(options.seed)
        hard = most_similar(similarities(rows, encoder))
        others = [few + rng.sample([place for place in many if place not in few], options.hard_negatives)
                  for few, many in zip(others, hard, strict=True)]  # fmt: skip
    return with_documents(rows, others)


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
    parser.add_argument("--queries", type=int, nargs=2, default=(15_000, 300), help="to train on, and to score on")
    parser.add_argument("--negatives", type=int, default=2, help="of a query in training, drawn at random")
    parser.add_argument("--hard_negatives", type=int, default=1, help="more, drawn from the 29 most similar ones")
    parser.add_argument("--bias_correction", action=argparse.BooleanOptionalAction, default=True, help="of Adam")
    parser.add_argument("--precision", default="mixed_bfloat16", help="of training: this or float32")
    for name, default in (("batch", 8), ("rate", 2e-4), ("epochs", 1.0), ("max_seq_length", 96), ("seed", 1)):
        parser.add_argument(f"--{name}", type=type(default), default=default)
    options = parser.parse_args()
    folder, encoder = options.output_dir.resolve(), SentenceEncoder(options.model)
    folder.mkdir(parents=True, exist_ok=True)
    train = folder / "train.jsonl"
    write(train, training_queries(rows_of(options.wikitext / "train.raw.gz", options.queries[0], options.seed),
                                  encoder, options))  # fmt: skip
    rows = rows_of(options.wikitext / "valid.raw.gz", options.queries[1], options.seed)
    cosines = similarities(rows, encoder)
    others = {"most similar": most_similar(cosines), "random": random_others(rows, DOCUMENTS - 1, options.seed)}
    tests, result = {}, {}
    for name, places in others.items():
        made, file = with_documents(rows, places), folder / f"{name.replace(' ', '_')}.jsonl"
        write(file, made)
        found = [row[[number, *few]] for (number, few), row in zip(enumerate(places), cosines, strict=True)]
        tests[file] = made, found
        result[file.stem] = {"embedder": metrics(made, found)}
    scored = {"reranker": train_ours(options, folder, train, tests)}
    if options.torch:
        scored["CrossEncoder"] = train_theirs(options, train, tests)
    for name, logits in scored.items():
        for file, (made, found) in tests.items():
            both = [combine_scores(*pair, 0.5) for pair in zip(logits[file], found, strict=True)]
            result[file.stem] |= {name: metrics(made, logits[file]), f"{name} and embedder": metrics(made, both)}
    print(json.dumps(result, indent=1))


def train_ours(options, folder, train, tests):
    """Trains a reranker by `train reranker`; returns {test: logits [query, document]}."""
    trained = folder / options.loss
    scripts.run("-m", "bert_tf", "run_reranker", f"--init_checkpoint={options.model}", f"--train_file={train}",
                f"--output_dir={trained}", "--do_train", f"--train_batch_size={options.batch}",
                f"--learning_rate={options.rate}", f"--num_train_epochs={options.epochs}", f"--seed={options.seed}",
                f"--loss={options.loss}", f"--precision={options.precision}",
                f"--bias_correction={options.bias_correction}",
                f"--max_seq_length={options.max_seq_length}")  # fmt: skip
    predictor, reranker = Predictor(trained), Reranker(trained)
    return {file: [reranker.to_logits(answer["scores"]) for answer in predictor(list(map(texts_of, made)), 1)]
            for file, (made, _) in tests.items()}  # fmt: skip


def texts_of(each):
    return each["query"], each["documents"]


def train_theirs(options, train, tests):
    """Trains a CrossEncoder by the same recipe; returns {test: logits [query, document]}."""
    script = pathlib.Path(__file__).with_name("torch_reranking.py")
    recipe = [options.batch, options.rate, options.epochs, options.max_seq_length, options.seed,
              options.precision.removeprefix("mixed_"), options.bias_correction]
    subprocess.run([*map(str, [options.torch, script, options.model, train, *recipe, *tests])], check=True)
    return {file: json.loads(file.with_suffix(".scores.json").read_text(encoding="utf-8")) for file in tests}


if __name__ == "__main__":
    main()
