"""sentence-transformers' CrossEncoder by BERT's own recipe, for `reranking.py`; writes the logits of all documents.

    PYTHON_WITH_TORCH benchmarks/torch_reranking.py MODEL TRAIN.jsonl BATCH RATE EPOCHS MAX_SEQ_LENGTH SEED PRECISION
        BIAS_CORRECTION TEST.jsonl ...

The logits of TEST.jsonl are written to TEST.scores.json.
"""

import json
import pathlib
import sys

import torch
from sentence_transformers import CrossEncoder
from torch_recipe import tensors, train


def read(path):
    """Returns the queries of a file."""
    return [json.loads(line) for line in pathlib.Path(path).read_text(encoding="utf-8").split("\n") if line]


def pairs_of(each):
    return [(each["query"], document) for document in each["documents"]]


def main():
    model_path, train_file = sys.argv[1:3]
    batch, rate, epochs, length, seed = (float(word) for word in sys.argv[3:8])
    precision, bias_correction, *test_files = sys.argv[8:]
    torch.manual_seed(int(seed))
    scorer = CrossEncoder(model_path, num_labels=1, max_length=int(length), device="cpu")
    model, tokenizer, queries = scorer.model, scorer.tokenizer, read(train_file)
    rows = []  # of each query, those of its documents
    for each in queries:
        coded = tokenizer(*map(list, zip(*pairs_of(each), strict=True)), truncation=True, max_length=int(length),
                          return_token_type_ids=True)  # fmt: skip
        rows.append(list(zip(coded["input_ids"], coded["token_type_ids"], strict=True)))

    def loss_of(model, _, examples):
        logits = model(**tensors([row for i in examples for row in rows[i]])).logits.float().squeeze(-1)
        wanted = torch.tensor([float(value) for i in examples for value in queries[i]["relevances"]])
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, wanted)

    # What is trained on is what `loss_of` lays out; a query's length is that of all its rows.
    joined = [tuple([piece for row in each for piece in row[part]] for part in (0, 1)) for each in rows]
    recipe = {"batch": int(batch), "rate": rate, "epochs": epochs, "precision": precision,
              "bias_correction": bias_correction == "True"}  # fmt: skip
    train(model, joined, loss_of, recipe, int(seed))
    model.eval()
    for file in map(pathlib.Path, test_files):
        scores = [scorer.predict(pairs_of(each), activation_fn=torch.nn.Identity(), show_progress_bar=False).tolist()
                  for each in read(file)]  # fmt: skip
        file.with_suffix(".scores.json").write_text(json.dumps(scores), encoding="utf-8")


if __name__ == "__main__":
    main()
