"""Torch Transformers as a tagger by BERT's own recipe; adds its scores to torch_ner_scores.json, seed by seed.

    PYTHON_WITH_TORCH benchmarks/torch_ner.py MODEL TRAIN DEV TEST --task=CoNLL-2003 --rates 5e-5 1e-4 2e-4

The Python needs torch and transformers. Files are CoNLL's: a word a line, its text in the first column and its tag in
the last. With several rates each is tried for an epoch with the first seed, and the best on DEV trains all seeds. A
word's tag is learnt and read at its first piece; a word beyond the row's end is O.
"""

import argparse
import pathlib

import torch
from torch_recipe import add_recipe, keep, kept, outputs, recipe_of, train
from transformers import BertForTokenClassification, BertTokenizerFast

LENGTH = 128


def read(path):
    """Returns [(words, tags)] of the sentences of a column file."""
    sentences = [([], [])]
    for line in pathlib.Path(path).read_text(encoding="utf-8").split("\n"):
        columns = line.split()
        if not columns:
            sentences.append(([], []))
        elif columns[0] != "-DOCSTART-":
            sentences[-1][0].append(columns[0])
            sentences[-1][1].append(columns[-1])
    return [sentence for sentence in sentences if sentence[0]]


def coded(sentences, tokenizer):
    """Returns rows (ids, segments), and of each row {word: place of its first piece}."""
    pieces = tokenizer([words for words, _ in sentences], is_split_into_words=True, truncation=True, max_length=LENGTH)
    firsts = []
    for row in range(len(sentences)):
        places = {}
        for place, word in enumerate(pieces.word_ids(row)):
            if word is not None:
                places.setdefault(word, place)
        firsts.append(places)
    return list(zip(pieces["input_ids"], pieces["token_type_ids"], strict=True)), firsts


def entities(tags):
    """Returns {(first word, word after the last, type)} of a sentence, as conlleval finds them.

    Between two words an entity ends, begins, or both, where the type changes, after E, S and O, and before B, S and O.
    So any mixture of IOB1, IOB2 and BIOES is read.
    """
    found, begin = set(), 0
    before, kind_before = "O", ""
    for place, tag in enumerate([*tags, "O"]):
        now, _, kind = tag.partition("-")
        if before in ("E", "S", "O") or now in ("B", "S", "O") or kind != kind_before:
            if before != "O":
                found.add((begin, place, kind_before))
            begin = place
        before, kind_before = now, kind
    return found


def conlleval(gold, guessed):
    """Returns precision, recall and F1 of whole entities; both are lists of the sentences' tags."""
    pairs = [(entities(a), entities(b)) for a, b in zip(gold, guessed, strict=True)]
    right = sum(len(a & b) for a, b in pairs)
    precision = right / max(1, sum(len(b) for _, b in pairs))
    recall = right / max(1, sum(len(a) for a, _ in pairs))
    return {"precision": precision, "recall": recall, "f1": 2 * precision * recall / max(precision + recall, 1e-12)}


def evaluate(model, sentences, labels, tokenizer, recipe):
    rows, firsts = coded(sentences, tokenizer)
    guessed = [["O"] * len(words) for words, _ in sentences]
    for i, out, place in outputs(model, rows, recipe):
        best = out.logits[place].argmax(-1).tolist()
        for word, piece in firsts[i].items():
            guessed[i][word] = labels[best[piece]]
    return conlleval([tags for _, tags in sentences], guessed)


def run(options, recipe, seed, splits):
    """Returns {split: scores} of one seed for the named splits."""
    tokenizer = BertTokenizerFast.from_pretrained(options.model)
    sentences = read(options.train)
    labels = sorted({tag for _, tags in sentences for tag in tags})
    rows, firsts = coded(sentences, tokenizer)
    targets = [[-100] * len(ids) for ids, _ in rows]
    for (_, tags), places, wanted in zip(sentences, firsts, targets, strict=True):
        for word, piece in places.items():
            wanted[piece] = labels.index(tags[word])
    torch.manual_seed(seed)
    model = BertForTokenClassification.from_pretrained(options.model, num_labels=len(labels))

    def loss_of(model, batch, examples):
        width = batch["input_ids"].shape[1]
        wanted = torch.tensor([targets[i] + [-100] * (width - len(targets[i])) for i in examples])
        return torch.nn.functional.cross_entropy(model(**batch).logits.float().flatten(0, 1), wanted.flatten())

    train(model, rows, loss_of, recipe, seed)
    return {name: evaluate(model, read(getattr(options, name)), labels, tokenizer, recipe) for name in splits}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("train")
    parser.add_argument("dev")
    parser.add_argument("test")
    parser.add_argument("--task", required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--rates", type=float, nargs="+", help="the best of these after an epoch, in place of --rate")
    add_recipe(parser, "torch_ner_scores.json", batch=32, rate=1e-4, epochs=3.0)
    options = parser.parse_args()
    recipe, tried = recipe_of(options), {}
    for rate in options.rates or ():
        tried[rate] = run(options, recipe | {"rate": rate, "epochs": 1.0}, options.seeds[0], ["dev"])["dev"]["f1"]
        print(f"{rate:g}", tried[rate], flush=True)
    if tried:
        recipe["rate"] = max(tried, key=tried.get)
    entry = recipe | {"max_seq_length": LENGTH}
    before = kept(options.out).get(options.task, {})
    same = all(before.get(name) == value for name, value in entry.items())
    tried = {f"{rate:g}": f1 for rate, f1 in tried.items()} or (before.get("dev_f1_after_one_epoch") if same else None)
    entry |= {"dev_f1_after_one_epoch": tried} if tried else {}
    seeds = before["seeds"] if same else {}
    for seed in options.seeds:
        seeds[str(seed)] = run(options, recipe, seed, ["dev", "test"])
        print(seed, seeds[str(seed)], flush=True)
        keep(options.out, options.task, entry | {"seeds": dict(sorted(seeds.items()))})


if __name__ == "__main__":
    main()
