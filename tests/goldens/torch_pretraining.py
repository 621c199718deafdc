"""Torch Transformers' models for pretraining: goldens of one step, and a short training run with BERT's own Adam.

    PYTHON_WITH_TORCH tests/goldens/torch_pretraining.py make FOLDER
    PYTHON_WITH_TORCH tests/goldens/torch_pretraining.py train FOLDER BATCHES.npz OUT.npz

`make` writes FOLDER/CASE for each of CASES as Hugging Face writes a model (config.json, model.safetensors with float16
numbers), and expected.safetensors: a batch under our names (int32 [B, S], [B, M], [B, 1]; float32 masked_lm_weights),
float32 `masked_lm_loss` and `next_sentence_loss` [], and `gradient/NAME` of their sum for every parameter, computed in
float64. ALBERT's `next_sentence_loss` is that of the order of sentences.

`train` starts from FOLDER/pretraining. BATCHES.npz holds the same features, [steps, B, ...], and the numbers
learning_rate, num_warmup_steps. OUT.npz holds `losses` float32 [steps], each of the model before that step.
"""

import pathlib
import sys

import numpy as np
import torch
from make_goldens import LENGTHS, random_inputs, randomized, save
from safetensors.torch import load_file, save_file
from transformers import AlbertConfig, AlbertForPreTraining, BertConfig, BertForPreTraining

SHAPE = {
    "vocab_size": 200,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "hidden_act": "gelu",
    "max_position_embeddings": 16,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
TIED = ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias")
# Name of the folder -> configuration, what it has beside `SHAPE`, model, weights that are others' twins.
CASES = {
    "pretraining": (BertConfig, {}, BertForPreTraining, TIED),
    "pretraining_albert": (
        AlbertConfig,
        {"embedding_size": 6, "num_hidden_groups": 1, "hidden_act": "gelu_new", "classifier_dropout_prob": 0.0},
        AlbertForPreTraining,
        ("predictions.decoder.weight", "predictions.decoder.bias"),
    ),
}
PREDICTIONS = 3


def random_batch(seed: int) -> dict[str, torch.Tensor]:
    """Returns rows with up to PREDICTIONS predictions, as many as a row has tokens, padded with weight 0 at place 0."""
    generator = torch.Generator().manual_seed(seed)
    inputs = random_inputs(seed)
    places = torch.zeros(len(LENGTHS), PREDICTIONS, dtype=torch.int64)
    number = torch.tensor([[min(PREDICTIONS - row % 2, length)] for row, length in enumerate(LENGTHS)])
    for row, length in enumerate(LENGTHS):
        chosen = torch.randperm(length, generator=generator)[:PREDICTIONS]
        places[row, : len(chosen)] = chosen
    weights = torch.arange(PREDICTIONS)[None] < number
    ids = torch.randint(1, SHAPE["vocab_size"], places.shape, generator=generator)
    labels = torch.randint(0, 2, (len(LENGTHS), 1), generator=generator)
    return {
        "input_ids": inputs["input_ids"],
        "input_mask": inputs["attention_mask"],
        "segment_ids": inputs["token_type_ids"],
        "masked_lm_positions": (places * weights).int(),
        "masked_lm_ids": (ids * weights).int(),
        "masked_lm_weights": weights.float(),
        "next_sentence_labels": labels.int(),
    }


def losses(model: torch.nn.Module, batch: dict[str, torch.Tensor]):
    """Returns the two losses; the labels become what Transformers takes, [B, S] with -100 for what is not predicted."""
    labels = torch.full(batch["input_ids"].shape, -100)
    for row, weights in enumerate(batch["masked_lm_weights"] > 0):
        labels[row, batch["masked_lm_positions"][row, weights].long()] = batch["masked_lm_ids"][row, weights].long()
    outputs = model(
        input_ids=batch["input_ids"], attention_mask=batch["input_mask"], token_type_ids=batch["segment_ids"]
    )
    scores, related = outputs.prediction_logits, outputs[1]  # of sentences, under several names
    cross_entropy = torch.nn.functional.cross_entropy
    return cross_entropy(scores.flatten(0, 1), labels.flatten()), cross_entropy(
        related, batch["next_sentence_labels"][:, 0].long()
    )


def make(folder: pathlib.Path):
    for case in CASES:
        make_case(folder / case, *CASES[case])


def make_case(folder: pathlib.Path, config: type, changes: dict, kind: type, tied: tuple[str, ...]):
    model = kind(config(**{**SHAPE, **changes}, attn_implementation="eager"))
    model, batch = randomized(model, 2), random_batch(2)
    save(model, folder, but=tied)
    model.double()
    masked_lm, next_sentence = losses(model, batch)
    (masked_lm + next_sentence).backward()
    gradients = {f"gradient/{key}": weight.grad.float() for key, weight in model.named_parameters()}
    expected = {"masked_lm_loss": masked_lm.detach().float(), "next_sentence_loss": next_sentence.detach().float()}
    save_file({**batch, **expected, **gradients}, folder / "expected.safetensors")


def trained(model: torch.nn.Module, loss_of, batches, peak: float, warm_up: int, steps: int) -> np.ndarray:
    """Trains in place with BERT's own Adam, gradients clipped to norm 1, and returns the losses before each step.

        m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; w -= rate (m / (sqrt(v) + 1e-6) + 0.01 w)

    Args:
        loss_of: (model, batch) -> the mean loss, torch [].
        batches: one for each step to make, of the first of a run of `steps`.
        peak, warm_up: the rate rises to `peak` in `warm_up` steps, then falls to 0 at the end of the run.

    Returns:
        float32 [number of batches].
    """
    found, moments = [], {key: (torch.zeros_like(w), torch.zeros_like(w)) for key, w in model.named_parameters()}
    for step, batch in enumerate(batches):
        loss = loss_of(model, batch)
        model.zero_grad()
        loss.backward()
        found.append(loss.item())
        rate = peak * step / warm_up if step < warm_up else peak * (1 - step / steps)
        norm = torch.sqrt(sum((w.grad**2).sum() for w in model.parameters()))
        with torch.no_grad():
            for key, w in model.named_parameters():
                m, v = moments[key]
                g = w.grad.div_(max(1.0, norm.item()))
                m.mul_(0.9).add_(g, alpha=0.1)
                v.mul_(0.999).addcmul_(g, g, value=0.001)
                decay = 0.0 if "LayerNorm" in key or key.endswith("bias") else 0.01
                w.mul_(1 - rate * decay).addcdiv_(m, v.sqrt().add_(1e-6), value=-rate)
    return np.array(found, np.float32)


def train(folder: pathlib.Path, batches_file: str, out: str):
    model = BertForPreTraining(BertConfig.from_json_file(folder / "pretraining" / "config.json"))
    weights = {k: v.float() for k, v in load_file(folder / "pretraining" / "model.safetensors").items()}
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert set(missing) == set(TIED) and not unexpected
    model.tie_weights()
    data = {key: torch.from_numpy(value) for key, value in np.load(batches_file).items()}
    peak, warm_up = float(data.pop("learning_rate")), int(data.pop("num_warmup_steps"))
    steps = len(data["input_ids"])
    batches = ({key: value[step] for key, value in data.items()} for step in range(steps))
    found = trained(model, lambda model, batch: sum(losses(model, batch)), batches, peak, warm_up, steps)
    np.savez(out, losses=found)


if __name__ == "__main__":
    command, folder, *files = sys.argv[1:]
    {"make": make, "train": train}[command](pathlib.Path(folder), *files)
