"""Torch Transformers on GLUE tasks by BERT's own recipe; adds its dev scores to torch_glue_scores.json.

    PYTHON_WITH_TORCH benchmarks/torch_glue.py MODEL GLUE_FOLDER --task=CoLA --seeds 1 2 3

The Python needs torch, transformers, scikit-learn and scipy. `benchmarks/glue_parity.py` compares ours with what is
kept.
"""

import argparse
import pathlib

import torch
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, matthews_corrcoef
from torch_recipe import add_recipe, keep, kept, outputs, recipe_of, train
from transformers import BertForSequenceClassification, BertTokenizerFast

CORRELATIONS = {"pearson": lambda a, b: pearsonr(a, b)[0], "spearman": lambda a, b: spearmanr(a, b)[0]}
# Task -> header?, columns of the texts, column of the label, label names or None for regression, metrics.
TASKS = {
    "CoLA": (False, (3,), 1, ("0", "1"), {"matthews": matthews_corrcoef}),
    "RTE": (True, (1, 2), 3, ("entailment", "not_entailment"), {"accuracy": accuracy_score}),
    "STS-B": (True, (7, 8), 9, None, CORRELATIONS),
}


def read(path, task, tokenizer):
    """Returns rows (ids, segments) and targets of a file."""
    header, columns, label, names, _ = TASKS[task]
    lines = [line.split("\t") for line in path.read_text(encoding="utf-8").rstrip("\n").split("\n")][header:]
    coded = tokenizer(*([line[c] for line in lines] for c in columns), truncation=True, max_length=128)
    targets = [names.index(line[label]) if names else float(line[label]) for line in lines]
    return list(zip(coded["input_ids"], coded["token_type_ids"], strict=True)), targets


def run(options, seed):
    """Returns {metric: score on dev} of one seed."""
    names, metrics = TASKS[options.task][3:]
    tokenizer = BertTokenizerFast.from_pretrained(options.model)
    folder = pathlib.Path(options.glue) / options.task
    rows, targets = read(folder / "train.tsv", options.task, tokenizer)
    torch.manual_seed(seed)
    model = BertForSequenceClassification.from_pretrained(options.model, num_labels=len(names) if names else 1)

    def loss_of(model, batch, examples):
        wanted = torch.tensor([targets[i] for i in examples])
        logits = model(**batch).logits.float()
        if names:
            return torch.nn.functional.cross_entropy(logits, wanted)
        return torch.nn.functional.mse_loss(logits[:, 0], wanted)

    recipe = recipe_of(options)
    train(model, rows, loss_of, recipe, seed)
    rows, targets = read(folder / "dev.tsv", options.task, tokenizer)
    answers = {i: out.logits[place].float() for i, out, place in outputs(model, rows, recipe)}
    answers = [answers[i].argmax().item() if names else answers[i].item() for i in range(len(rows))]
    return {name: float(metric(targets, answers)) for name, metric in metrics.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("glue")
    parser.add_argument("--task", choices=TASKS, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    add_recipe(parser, "torch_glue_scores.json", batch=32, rate=5e-5, epochs=3.0)
    options = parser.parse_args()
    entry = recipe_of(options) | {"max_seq_length": 128}
    before = kept(options.out).get(options.task, {})
    same = all(before.get(name) == value for name, value in entry.items())
    seeds = before["seeds"] if same else {}
    for seed in options.seeds:
        seeds[str(seed)] = run(options, seed)
        print(seed, seeds[str(seed)], flush=True)
        keep(options.out, options.task, entry | {"seeds": seeds})


if __name__ == "__main__":
    main()
