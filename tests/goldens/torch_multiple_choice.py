"""Torch Transformers' classes for multiple choice: makes small seeded models, or asks those in folders.

    PYTHON_WITH_TORCH tests/goldens/torch_multiple_choice.py make FOLDER
    PYTHON_WITH_TORCH tests/goldens/torch_multiple_choice.py ask DIRECTORY ...

`make` writes FOLDER/CASE as Hugging Face writes a model, of each of CASES, and in it inputs.npz: our features of one
question, int32 [1, N, S], and `logits` float32 [1, N]. `ask` computes the logits of models from the inputs.npz in
their directories, and prints them all as JSON; it fails where a weight is missing or left over.
"""

import json
import pathlib
import sys

import numpy as np
import torch
import transformers
from make_goldens import randomized
from torch_families import _inputs, _model

_ROBERTA = {"pad_token_id": 1, "type_vocab_size": 1}
CASES = {
    "bert": ("BertForMultipleChoice", {}),
    "albert": ("AlbertForMultipleChoice", {"embedding_size": 8}),
    "distilbert": ("DistilBertForMultipleChoice", {}),
    "electra": ("ElectraForMultipleChoice", {"embedding_size": 8}),
    "ernie": ("ErnieForMultipleChoice", {}),
    "roberta": ("RobertaForMultipleChoice", _ROBERTA),
}
_NAMES = {"input_ids": "input_ids", "input_mask": "attention_mask", "segment_ids": "token_type_ids"}


def logits(model, features):
    """Returns float32 [1, N] of our features."""
    inputs = {theirs: torch.as_tensor(features[ours]) for ours, theirs in _NAMES.items()}
    if "DistilBert" in type(model).__name__:
        del inputs["token_type_ids"]
    with torch.inference_mode():
        return model.eval()(**inputs).logits


def make(folder):
    for seed, (case, (name, changes)) in enumerate(CASES.items()):
        model = randomized(_model(name, changes), seed, torch.float32)
        inputs = _inputs(model, seed)
        features = {ours: inputs[theirs].numpy()[np.newaxis] for ours, theirs in _NAMES.items()}
        model.save_pretrained(folder / case)
        np.savez(folder / case / "inputs.npz", **features, logits=logits(model, features).numpy())


def ask(directories):
    found = []
    for directory in directories:
        (name,) = json.loads(pathlib.Path(directory, "config.json").read_text())["architectures"]
        model, info = getattr(transformers, name).from_pretrained(directory, output_loading_info=True)
        assert not info["missing_keys"] and not info["unexpected_keys"], (directory, info)
        found.append(logits(model, np.load(pathlib.Path(directory, "inputs.npz"))).tolist())
    print(json.dumps(found))


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[2])) if sys.argv[1] == "make" else ask(sys.argv[2:])
