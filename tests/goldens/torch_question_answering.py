"""Writes torch Transformers' golden of question answering: BertForQuestionAnswering's scores, losses and gradients.

    PYTHON_WITH_TORCH tests/goldens/torch_question_answering.py FOLDER

FOLDER/question_answering becomes a model as Hugging Face writes it (config.json, model.safetensors with float16
numbers), and expected.safetensors: a batch under our names (int32 [B, S] and [B]), `start_logits` and `end_logits`
float32 [B, S], 0 in the padding, `losses` float32 [B], and `gradient/NAME` of their mean for every parameter, all
computed in float64. Each row is asked alone at its own length, since Transformers lets padding share in the softmax.
"""

import pathlib
import sys

import torch
from make_goldens import LENGTHS, random_inputs, randomized, save
from safetensors.torch import save_file
from torch_pretraining import SHAPE
from transformers import BertConfig, BertForQuestionAnswering


def random_batch(seed: int) -> dict[str, torch.Tensor]:
    """Returns rows with an answer of up to three pieces, but for the last row, which has none."""
    inputs = random_inputs(seed)
    start = torch.tensor([length // 2 for length in LENGTHS[:-1]] + [0])
    end = torch.minimum(start + 2, torch.tensor(LENGTHS) - 1) * (start > 0)
    names = {"input_ids": "input_ids", "input_mask": "attention_mask", "segment_ids": "token_type_ids"}
    batch = {ours: inputs[theirs] for ours, theirs in names.items()}
    return batch | {"start_positions": start.int(), "end_positions": end.int()}


def ask(model: BertForQuestionAnswering, batch: dict[str, torch.Tensor], row: int):
    """Returns what the model makes of one row without its padding."""
    ids, segments = (batch[name][row : row + 1, : LENGTHS[row]] for name in ("input_ids", "segment_ids"))
    start, end = (batch[name][row : row + 1].long() for name in ("start_positions", "end_positions"))
    return model(input_ids=ids, token_type_ids=segments, start_positions=start, end_positions=end)


def make(folder: pathlib.Path):
    model = BertForQuestionAnswering(BertConfig(**SHAPE, attn_implementation="eager"))
    model, batch = randomized(model, 3), random_batch(3)
    folder = folder / "question_answering"
    save(model, folder)
    model.double()
    asked = [ask(model, batch, row) for row in range(len(LENGTHS))]
    losses = torch.stack([outputs.loss for outputs in asked])
    losses.mean().backward()
    expected = {f"gradient/{key}": weight.grad.float() for key, weight in model.named_parameters()}
    for name in ("start_logits", "end_logits"):
        logits = torch.zeros(batch["input_ids"].shape)
        for row, outputs in enumerate(asked):
            logits[row, : LENGTHS[row]] = outputs[name][0].detach().float()
        expected[name] = logits
    save_file({**batch, **expected, "losses": losses.detach().float()}, folder / "expected.safetensors")


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[1]))
