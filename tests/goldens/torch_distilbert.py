"""Writes the golden of DistilBERT: a small seeded DistilBertForMaskedLM of torch Transformers, and what it computes.

    PYTHON_WITH_TORCH tests/goldens/torch_distilbert.py FOLDER

The model becomes a directory as Hugging Face writes it, its numbers in float16, with a file more,
expected.safetensors: input_ids, attention_mask, int32 [B, S]; float32 hidden_states [layers + 1, B, S, H] (the
embeddings' output first), and mlm_logits [B, P, V] of the first P places of each row.
"""

import pathlib
import sys

import torch
from make_goldens import random_inputs, randomized, save
from safetensors.torch import save_file
from transformers import DistilBertConfig, DistilBertForMaskedLM

SHAPE = {
    "vocab_size": 200,
    "dim": 24,
    "hidden_dim": 40,
    "n_layers": 2,
    "n_heads": 3,
    "max_position_embeddings": 20,
}
PLACES = 3


def make(folder: pathlib.Path):
    model = DistilBertForMaskedLM(DistilBertConfig(**SHAPE, attn_implementation="eager")).eval()
    model, inputs = randomized(model, seed=7), random_inputs(7)
    del inputs["token_type_ids"]
    with torch.inference_mode():
        outputs = model(**inputs, output_hidden_states=True)
    save(model, folder / "distilbert", but=("vocab_projector.weight",))
    logits = outputs.logits[:, :PLACES].contiguous()
    expected = {"hidden_states": torch.stack(outputs.hidden_states), "mlm_logits": logits}
    save_file({**inputs, **expected}, folder / "distilbert" / "expected.safetensors")


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[1]))
