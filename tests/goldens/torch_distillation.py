"""Torch Transformers' BertForMaskedLM, taught by a wider one: the losses of DistilBERT and MiniLM, and their gradients.

    PYTHON_WITH_TORCH tests/goldens/torch_distillation.py FOLDER

Writes FOLDER/distillation/teacher and student as Hugging Face writes models (config.json, model.safetensors with
float16 numbers), and FOLDER/distillation/expected.safetensors: a batch under our names, `map.weight` [12, 8] and
`map.bias` [12] from the student's width to the teacher's, each loss of WEIGHTS float32 [], and `gradient/NAME` of their
weighted sum for every parameter of the student and of the map. All is computed in float64, row by row, without padding.
"""

import pathlib
import sys

import torch
from make_goldens import LENGTHS, randomized, save
from safetensors.torch import save_file
from torch.nn import functional
from torch_pretraining import SHAPE, TIED, random_batch
from transformers import BertConfig, BertForMaskedLM

WEIGHTS = {
    "soft_targets": 5.0,
    "masked_lm": 2.0,
    "hidden": 3.0,
    "attention": 7.0,
    "query_relations": 11.0,
    "key_relations": 13.0,
    "value_relations": 17.0,
}
TEMPERATURE, RELATION_HEADS = 2.5, 4
TEACHER_SHAPE = SHAPE | {"hidden_size": 12, "num_hidden_layers": 3, "intermediate_size": 20}
BATCH = ("input_ids", "input_mask", "segment_ids", "masked_lm_positions", "masked_lm_ids", "masked_lm_weights")


def outputs(model: BertForMaskedLM, batch: dict[str, torch.Tensor], row: int) -> dict[str, torch.Tensor]:
    """Returns what a model makes of a row without padding: logits, states, attention, queries, keys and values."""
    kept, own = {}, model.bert.encoder.layer[-1].attention.self
    hooks = [
        getattr(own, name).register_forward_hook(lambda _, __, output, name=name: kept.update({name: output[0]}))
        for name in ("query", "key", "value")
    ]
    ids, segments = (batch[name][row : row + 1, : LENGTHS[row]] for name in ("input_ids", "segment_ids"))
    given = model(input_ids=ids, token_type_ids=segments, output_hidden_states=True, output_attentions=True)
    for hook in hooks:
        hook.remove()
    kept |= {"logits": given.logits[0], "hidden": given.hidden_states[-1][0], "attention": given.attentions[-1][0]}
    return kept


def relations(vectors: torch.Tensor) -> torch.Tensor:
    """Returns [heads, S, S]: softmax of the scaled products of vectors [S, W] among themselves."""
    parts = vectors.view(len(vectors), RELATION_HEADS, -1).transpose(0, 1)
    return (parts @ parts.transpose(1, 2) / parts.shape[-1] ** 0.5).softmax(-1)


def divergence(taught: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
    """Returns the sum over the tokens of the mean over the heads of KL(taught || own), each [heads, S, S]."""
    return functional.kl_div(own.log(), taught, reduction="none").sum(-1).mean(0).sum()


def losses(student, teacher, linear, batch) -> dict[str, torch.Tensor]:
    sums, predictions = dict.fromkeys(WEIGHTS, torch.zeros([], dtype=torch.float64)), 0
    for row in range(len(LENGTHS)):
        own, taught = outputs(student, batch, row), outputs(teacher, batch, row)
        taught = {name: value.detach() for name, value in taught.items()}
        real = batch["masked_lm_weights"][row] > 0
        places, ids = batch["masked_lm_positions"][row][real].long(), batch["masked_lm_ids"][row][real].long()
        predictions += len(places)
        soft = [each["logits"][places] / TEMPERATURE for each in (own, taught)]
        found = {
            "soft_targets": torch.nn.KLDivLoss(reduction="sum")(soft[0].log_softmax(-1), soft[1].softmax(-1))
            * TEMPERATURE**2,
            "masked_lm": functional.cross_entropy(own["logits"][places], ids, reduction="sum"),
            "hidden": torch.nn.CosineEmbeddingLoss(reduction="sum")(
                linear(own["hidden"]), taught["hidden"], torch.ones(LENGTHS[row], dtype=torch.float64)
            ),
            "attention": divergence(taught["attention"], own["attention"]),
        }
        for name in ("query", "key", "value"):
            found[f"{name}_relations"] = divergence(relations(taught[name]), relations(own[name]))
        sums = {name: sums[name] + value for name, value in found.items()}
    over = {name: predictions if name in ("soft_targets", "masked_lm") else sum(LENGTHS) for name in sums}
    return {name: value / over[name] for name, value in sums.items()}


def make(folder: pathlib.Path):
    folder, models = folder / "distillation", {}
    for seed, (name, shape) in enumerate((("student", SHAPE), ("teacher", TEACHER_SHAPE)), 7):
        model = randomized(BertForMaskedLM(BertConfig(**shape, attn_implementation="eager")), seed)
        save(model, folder / name, but=TIED)
        models[name] = model.double()
    linear = randomized(torch.nn.Linear(SHAPE["hidden_size"], TEACHER_SHAPE["hidden_size"]), 9).double()
    batch = {name: value for name, value in random_batch(10).items() if name in BATCH}
    found = losses(models["student"], models["teacher"], linear, batch)
    sum(weight * found[name] for name, weight in WEIGHTS.items()).backward()
    maps = {f"map.{name}": value for name, value in linear.named_parameters()}
    trained = dict(models["student"].named_parameters()) | maps
    gradients = {f"gradient/{key}": weight.grad.float() for key, weight in trained.items()}
    values = {name: value.detach().float() for name, value in (found | maps).items()}
    save_file({**batch, **values, **gradients}, folder / "expected.safetensors")


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[1]))
