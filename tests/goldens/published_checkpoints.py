"""Writes a small seeded model and tokenizer for each combination of the table of published checkpoints.

    PYTHON_WITH_TORCH tests/goldens/published_checkpoints.py CASES FOLDER

CASES is JSON: [{"model_type", "class", "tokenizer", "keys"}]. FOLDER/N is made for the N-th, with FOLDER/N.npz, what
Transformers computes with it, as transformers_folders.py writes both.
"""

import json
import pathlib
import sys

import numpy as np
import torch
import transformers
import transformers_folders as folders

_POSITIONS = 514


def _model(case, tokenizer, seed):
    kind = getattr(transformers, case["class"])
    shape = {**folders._SHAPE, "num_hidden_layers": 2, "max_position_embeddings": _POSITIONS, **case["keys"]}
    shape |= {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    shape |= {"embedding_size": 8} if case["model_type"] in ("electra", "albert") else {}
    if case["model_type"] == "distilbert":
        shape = {folders._TO_DISTILBERT.get(key, key): value for key, value in shape.items()}
    model = kind(kind.config_class(**shape, attn_implementation="eager")).eval()
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        weight.data = 1 + 0.3 * noise if name.endswith(("LayerNorm.weight", "norm.weight")) else 0.3 * noise
    return model


def write(cases: list[dict], folder: pathlib.Path):
    """Writes the folders and what Transformers computes."""
    sources = folder / "sources"
    sources.mkdir(parents=True)
    makers = folders._tokenizers(sources)
    for n, case in enumerate(cases):
        tokenizer = makers[case["tokenizer"]]()
        if case["keys"].get("type_vocab_size") == 1:  # a BertTokenizer has segments, but RoBERTa's classes have one
            tokenizer.model_input_names = ["input_ids", "attention_mask"]
        model = _model(case, tokenizer, n)
        model.save_pretrained(folder / str(n))
        tokenizer.save_pretrained(folder / str(n))
        batch = folders._batch(tokenizer)
        found = {key: value.numpy() for key, value in batch.items()} | folders._outputs(model, batch)
        for i, each in enumerate(folders._encodings(tokenizer)):
            found[f"ids {i}"] = each["input_ids"]
            found |= {f"types {i}": each["token_type_ids"]} if "token_type_ids" in each else {}
        np.savez(folder / f"{n}.npz", **found, texts=folders.TEXTS, pair=folders.PAIR)


if __name__ == "__main__":
    write(json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")), pathlib.Path(sys.argv[2]))
