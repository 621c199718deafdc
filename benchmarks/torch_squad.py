"""Torch Transformers on SQuAD 1.1 by BERT's own recipe; keeps its dev scores in torch_squad_scores.json.

    PYTHON_WITH_TORCH benchmarks/torch_squad.py MODEL TRAIN.json DEV.json --questions=8000

The Python needs torch and transformers. Windows are google-research/bert's: each begins `stride` pieces after the one
before. `benchmarks/squad_parity.py` compares ours with what is kept.
"""

import argparse
import json
import pathlib

import torch
from torch_recipe import add_recipe, keep, outputs, recipe_of, train
from transformers import BertForQuestionAnswering, BertTokenizerFast
from transformers.data.metrics.squad_metrics import compute_exact, compute_f1

LENGTH, STRIDE, QUESTION, LONGEST, BEST = 384, 128, 64, 30, 20


def read(path, limit=None):
    """Returns (question, context, answers) of the first `limit` questions."""
    articles = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["data"]
    paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
    found = [(qa["question"], p["context"], qa["answers"]) for p in paragraphs for qa in p["qas"]]
    return found[:limit]


def windows(questions, tokenizer):
    """Returns rows (ids, segments), and of each row the question, where its context begins, the pieces' offsets."""
    contexts = sorted({context for _, context, _ in questions})
    coded = tokenizer(contexts, add_special_tokens=False, return_offsets_mapping=True)
    coded = dict(zip(contexts, zip(coded["input_ids"], coded["offset_mapping"], strict=True), strict=True))
    rows, origins = [], []
    for number, (question, context, _) in enumerate(questions):
        head = tokenizer(question, add_special_tokens=False)["input_ids"][:QUESTION]
        head = [tokenizer.cls_token_id, *head, tokenizer.sep_token_id]
        ids, offsets = coded[context]
        room, start = LENGTH - len(head) - 1, 0
        while True:
            part = ids[start : start + room]
            rows.append((head + part + [tokenizer.sep_token_id], [0] * len(head) + [1] * (len(part) + 1)))
            origins.append((number, len(head), offsets[start : start + room]))
            if start + len(part) == len(ids):
                break
            start += min(len(part), STRIDE)
    return rows, origins


def target(answer, first, offsets):
    """Returns the places of the answer's first and last piece in a row; 0, 0 where it is not wholly there."""
    begin, end = answer["answer_start"], answer["answer_start"] + len(answer["text"])
    inside = [place for place, (a, b) in enumerate(offsets) if b > begin and a < end]
    if not inside or offsets[inside[0]][0] > begin or offsets[inside[-1]][1] < end:
        return 0, 0
    return first + inside[0], first + inside[-1]


def best_span(start, end, first, offsets):
    """Returns (score, from, to in the context) of the best span of the context in one row."""
    start, end = start[first : first + len(offsets)], end[first : first + len(offsets)]
    sums = start[:, None] + end[None]
    allowed = torch.ones_like(sums).triu().tril(LONGEST - 1) > 0
    best = sums.masked_fill(~allowed, -torch.inf).argmax().item()
    a, b = divmod(best, len(offsets))
    return sums[a, b].item(), offsets[a][0], offsets[b][1]


def evaluate(model, questions, tokenizer, recipe):
    rows, origins = windows(questions, tokenizer)
    best = {}
    for row, out, place in outputs(model, rows, recipe):
        number, first, offsets = origins[row]
        span = best_span(out.start_logits[place].float(), out.end_logits[place].float(), first, offsets)
        best[number] = max(best.get(number, span), span)
    exact, f1 = [], []
    for number, (_, context, answers) in enumerate(questions):
        _, a, b = best[number]
        exact.append(max(compute_exact(gold["text"], context[a:b]) for gold in answers))
        f1.append(max(compute_f1(gold["text"], context[a:b]) for gold in answers))
    return {"exact": 100 * sum(exact) / len(exact), "f1": 100 * sum(f1) / len(f1), "windows": len(rows)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("train")
    parser.add_argument("dev")
    parser.add_argument("--questions", type=int, default=8000)
    parser.add_argument("--dev_questions", type=int)
    parser.add_argument("--seed", type=int, default=1)
    add_recipe(parser, "torch_squad_scores.json", batch=16, rate=1e-4, epochs=2.0)
    options = parser.parse_args()
    recipe = recipe_of(options)
    tokenizer = BertTokenizerFast.from_pretrained(options.model)
    questions = read(options.train, options.questions)
    rows, origins = windows(questions, tokenizer)
    targets = [target(questions[n][2][0], first, offsets) for n, first, offsets in origins]
    torch.manual_seed(options.seed)
    model = BertForQuestionAnswering.from_pretrained(options.model)

    def loss_of(model, batch, examples):
        starts, ends = torch.tensor([targets[i] for i in examples]).T
        out, loss = model(**batch), torch.nn.functional.cross_entropy
        return (loss(out.start_logits.float(), starts) + loss(out.end_logits.float(), ends)) / 2

    train(model, rows, loss_of, recipe, options.seed)
    entry = {"questions": options.questions, "seed": options.seed, **recipe}
    entry |= {"max_seq_length": LENGTH, "doc_stride": STRIDE, "train_windows": len(rows)}
    scores = evaluate(model, read(options.dev, options.dev_questions), tokenizer, recipe)
    print(scores)
    keep(options.out, "squad-1.1", entry | scores)


if __name__ == "__main__":
    main()
