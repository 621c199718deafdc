"""Torch Transformers' BERT fine-tuned on the batches of a file, without dropout: the losses of a run's first steps.

    PYTHON_WITH_TORCH tests/goldens/torch_fine_tuning.py MODEL BATCHES.npz OUT.npz

MODEL is a directory as Hugging Face writes it, of an encoder. BATCHES.npz holds the features [steps, B, S] under our
names; what is aimed at, [steps, B]: `label_ids`, `label_values` or `start_positions` and `end_positions`; the head's
weights by Hugging Face's names, as in `head/classifier.weight`; and the numbers learning_rate, num_warmup_steps,
num_train_steps. OUT.npz holds `losses` float32 [steps], each of the model before that step.
"""

import sys

import numpy as np
import torch
from torch_pretraining import trained
from transformers import BertForQuestionAnswering, BertForSequenceClassification

INPUTS = {"input_ids": "input_ids", "input_mask": "attention_mask", "segment_ids": "token_type_ids"}


def encoder_with(head: dict[str, torch.Tensor], path: str):
    """Returns the model of those weights and the encoder in `path`, which must have all others."""
    sizes = {"num_labels": len(head["classifier.bias"])} if "classifier.bias" in head else {}
    model_class = BertForSequenceClassification if sizes else BertForQuestionAnswering
    without_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model, info = model_class.from_pretrained(path, **sizes, **without_dropout, output_loading_info=True)
    assert set(info["missing_keys"]) == set(head), info
    model.load_state_dict(head, strict=False)
    return model


def loss_of(model, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Returns Transformers' own loss; of questions with the padding kept out of the softmax, where it leaves it in."""
    width = int(batch["input_mask"].sum(1).max())
    inputs = {theirs: batch[ours][:, :width] for ours, theirs in INPUTS.items()}
    if "start_positions" not in batch:
        aims = batch["label_ids"].long() if "label_ids" in batch else batch["label_values"]
        return model(**inputs, labels=aims).loss
    outputs, padding = model(**inputs), inputs["attention_mask"] == 0
    both = [
        torch.nn.functional.cross_entropy(logits.masked_fill(padding, -torch.inf), batch[f"{side}_positions"].long())
        for side, logits in (("start", outputs.start_logits), ("end", outputs.end_logits))
    ]
    return sum(both) / 2


def main(path: str, batches_file: str, out: str):
    data = {key: torch.from_numpy(value) for key, value in np.load(batches_file).items()}
    names = ("learning_rate", "num_warmup_steps", "num_train_steps")
    peak, warm_up, steps = (data.pop(name).item() for name in names)
    head = {key.removeprefix("head/"): data.pop(key) for key in list(data) if key.startswith("head/")}
    batches = [{key: value[step] for key, value in data.items()} for step in range(len(data["input_ids"]))]
    np.savez(out, losses=trained(encoder_with(head, path), loss_of, batches, peak, warm_up, steps))


if __name__ == "__main__":
    main(*sys.argv[1:])
