"""The masked-LM loss of torch Transformers' models on batches of records, and its gradient.

    PYTHON_WITH_TORCH tests/goldens/torch_masked_lm_loss.py FOLDER...

Each FOLDER holds a model as Hugging Face writes it and batch.npz: input_ids, input_mask, segment_ids [B, S],
masked_lm_positions, masked_lm_ids, masked_lm_weights [B, M]. Prints a JSON list of [loss, norm of the gradient of the
word embeddings], one pair for each folder, computed in float64.
"""

import json
import pathlib
import sys

import numpy as np
import torch
import transformers


def loss_of(folder: pathlib.Path) -> list[float]:
    """Returns the mean loss over the predictions, and the norm of its gradient for the word embeddings."""
    batch = {name: torch.tensor(values) for name, values in np.load(folder / "batch.npz").items()}
    model, said = transformers.AutoModelForMaskedLM.from_pretrained(
        folder, attn_implementation="eager", output_loading_info=True
    )
    assert not said["missing_keys"] and not said["mismatched_keys"], said
    model = model.double().eval()
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
