"""The masked-LM loss of torch Transformers' models on batches of records, and its gradient.

    PYTHON_WITH_TORCH tests/goldens/torch_masked_lm_loss.py FOLDER...

Each FOLDER holds a model as Hugging Face writes it and batch.npz: input_ids, input_mask, segment_ids [B, S],
masked_lm_positions, masked_lm_ids, masked_lm_weights [B, M]. Prints a JSON list of [loss, norm of the gradient of the
word embeddings], one pair for each folder, computed in float64. The families of torch_rotary_families.py need
Transformers 5.
"""

import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file


def as_gte(folder: pathlib.Path, copy: pathlib.Path):
    """Writes a directory with model_type "new" as that of the class of Transformers 5 that computes the same."""
    from torch_rotary_families import rope_parameters

    config = json.loads((folder / "config.json").read_text(encoding="utf-8")) | {"model_type": "gte"}
    factor = (config.pop("rope_scaling", None) or {}).get("factor")
    form = (factor, config.pop("rope_theta"), True)
    config["rope_parameters"] = rope_parameters(form, config["hidden_size"] // config["num_attention_heads"])
    (copy / "config.json").write_text(json.dumps(config), encoding="utf-8")
    weights = load_file(folder / "model.safetensors").items()
    renamed = {f"gte.{name[4:]}" if name.startswith("new.") else name: array for name, array in weights}
    save_file(renamed, copy / "model.safetensors", {"format": "pt"})


def model_of(folder: pathlib.Path) -> transformers.PreTrainedModel:
    """Returns the model of a directory in float64, with all of its weights."""
    with tempfile.TemporaryDirectory() as copy:
        if json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"] == "new":
            as_gte(folder, pathlib.Path(copy))
            folder = copy
        model, said = transformers.AutoModelForMaskedLM.from_pretrained(
            folder, attn_implementation="eager", output_loading_info=True
        )
    assert not said["missing_keys"] and not said["mismatched_keys"], said
    return model.double().eval()


def loss_of(folder: pathlib.Path) -> list[float]:
    """Returns the mean loss over the predictions, and the norm of its gradient for the word embeddings."""
    batch = {name: torch.tensor(values) for name, values in np.load(folder / "batch.npz").items()}
    model = model_of(folder)
    labels = torch.full(batch["input_ids"].shape, -100, dtype=torch.int64)
    for row, weights in enumerate(batch["masked_lm_weights"] > 0):
        labels[row, batch["masked_lm_positions"][row, weights].long()] = batch["masked_lm_ids"][row, weights].long()
    inputs = {"input_ids": batch["input_ids"].long(), "attention_mask": batch["input_mask"].long()}
    if model.config.to_dict().get("type_vocab_size"):
        inputs["token_type_ids"] = batch["segment_ids"].long()
    loss = model(**inputs, labels=labels).loss
    loss.backward()
    gradient = model.get_input_embeddings().weight.grad
    return [loss.item(), gradient.norm().item()]


if __name__ == "__main__":
    print(json.dumps([loss_of(pathlib.Path(folder)) for folder in sys.argv[1:]]))
