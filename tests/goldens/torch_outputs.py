"""Writes what torch Transformers makes of texts with a BERT directory, tokenizer and encoder alike.

    PYTHON_WITH_TORCH tests/goldens/torch_outputs.py MODEL_DIRECTORY TEXTS.txt OUT.npz

OUT holds, of all n texts (one a line) end to end: `splits` int64 [n + 1], `input_ids` int32 [splits[-1]],
`sequence_output` float32 [splits[-1], H]; and `pooled_output` float32 [n, H].
"""

import pathlib
import sys

import numpy as np
import torch
from transformers import BertModel, BertTokenizer


def main(directory, texts_file, out):
    texts = pathlib.Path(texts_file).read_text(encoding="utf-8").splitlines()
    tokenizer = BertTokenizer.from_pretrained(directory)
    model = BertModel.from_pretrained(directory, attn_implementation="eager", dtype=torch.float32).eval()
    ids, tokens, pooled = [], [], []
    for text in texts:
        row = tokenizer(text, return_tensors="pt")
        with torch.inference_mode():
            outputs = model(**row)
        ids.append(row["input_ids"][0].numpy().astype(np.int32))
        tokens.append(outputs.last_hidden_state[0].numpy())
        pooled.append(outputs.pooler_output[0].numpy())
    splits = np.cumsum([0] + [len(row) for row in ids])
    parts = {"input_ids": np.concatenate(ids), "sequence_output": np.concatenate(tokens)}
    np.savez(out, splits=splits, pooled_output=np.stack(pooled), **parts)


if __name__ == "__main__":
    main(*sys.argv[1:])
