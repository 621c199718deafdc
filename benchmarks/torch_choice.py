"""Torch Transformers' BertForMultipleChoice by BERT's own recipe, for `next_sentence_choice.py`; prints its accuracy.

    PYTHON_WITH_TORCH benchmarks/torch_choice.py MODEL TRAIN.jsonl TEST.jsonl BATCH RATE EPOCHS MAX_SEQ_LENGTH SEED
"""

import json
import pathlib
import sys

import torch
from torch_recipe import tensors, train
from transformers import BertForMultipleChoice, BertTokenizerFast


def read(path, tokenizer, length):
    """Returns of each question its choices' rows (ids, segments), and the number of the right one."""
    lines = [json.loads(line) for line in pathlib.Path(path).read_text(encoding="utf-8").split("\n") if line]
    rows = []
    for line in lines:
        contexts = [line["context"]] * len(line["choices"])
        coded = tokenizer(contexts, line["choices"], truncation=True, max_length=length)
        rows.append(list(zip(coded["input_ids"], coded["token_type_ids"], strict=True)))
    return rows, [line["label"] for line in lines]


def logits_of(model, questions):
    """Returns float32 [B, choices] of questions that have equally many."""
    batch = tensors([row for rows in questions for row in rows])
    shape = len(questions), len(questions[0]), -1
    return model(**{name: values.view(shape) for name, values in batch.items()}).logits.float()


def main():
    model_path, train_file, test_file = sys.argv[1:4]
    batch, rate, epochs, length, seed = (float(word) for word in sys.argv[4:])
    tokenizer = BertTokenizerFast.from_pretrained(model_path)
    rows, labels = read(train_file, tokenizer, int(length))
    torch.manual_seed(int(seed))
    model = BertForMultipleChoice.from_pretrained(model_path)

    def loss_of(model, _, examples):
        wanted = torch.tensor([labels[i] for i in examples])
        return torch.nn.functional.cross_entropy(logits_of(model, [rows[i] for i in examples]), wanted)

    # What is trained on is what `loss_of` lays out; a question's length is that of all its rows.
    joined = [tuple([piece for row in each for piece in row[part]] for part in (0, 1)) for each in rows]
    recipe = {"batch": int(batch), "rate": rate, "epochs": epochs, "precision": "float32"}
    train(model, joined, loss_of, recipe, int(seed))
    model.eval()
    rows, labels = read(test_file, tokenizer, int(length))
    right = 0
    for start in range(0, len(rows), 16):
        with torch.no_grad():
            best = logits_of(model, rows[start : start + 16]).argmax(-1).tolist()
        right += sum(a == b for a, b in zip(best, labels[start : start + 16], strict=True))
    print(f"torch: accuracy {right / len(rows):.4f} of {len(rows)} questions", flush=True)


if __name__ == "__main__":
    main()
