"""Writes what torch Transformers puts where texts say [MASK].

    PYTHON_WITH_TORCH tests/goldens/torch_fill_mask.py MODEL_DIRECTORY VOCAB.txt TEXTS.txt K OUT.json

The vocabulary's letter case counts. OUT is a JSON list with {"text": str, "token": [masks, K], "probability": [masks,
K]} for each text (one a line), the likeliest token first.
"""

import json
import pathlib
import sys

import torch
from transformers import BertForMaskedLM, BertTokenizer


def main(directory, vocab_file, texts_file, k, out):
    tokenizer = BertTokenizer(vocab_file, do_lower_case=False)
    model = BertForMaskedLM.from_pretrained(directory, attn_implementation="eager", dtype=torch.float32).eval()
    answers = []
    for text in pathlib.Path(texts_file).read_text(encoding="utf-8").splitlines():
        row = tokenizer(text, return_tensors="pt")
        with torch.inference_mode():
            logits = model(**row).logits[row["input_ids"] == tokenizer.mask_token_id]
        probability, ids = logits.softmax(-1).topk(int(k))
        tokens = [tokenizer.convert_ids_to_tokens(best) for best in ids.tolist()]
        rounded = [[round(p, 8) for p in row] for row in probability.tolist()]
        answers.append({"text": text, "token": tokens, "probability": rounded})
    lines = ",\n".join(json.dumps(answer) for answer in answers)
    pathlib.Path(out).write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
