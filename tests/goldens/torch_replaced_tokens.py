"""Torch Transformers' ElectraForMaskedLM and ElectraForPreTraining, trained together: the golden of one step.

    PYTHON_WITH_TORCH tests/goldens/torch_replaced_tokens.py FOLDER

It writes FOLDER/replaced_tokens: the discriminator as Hugging Face writes a model (config.json, model.safetensors with
float16 numbers), the generator likewise in its folder `generator`, without the embeddings, which are the
discriminator's; and expected.safetensors: a batch under our names (int32 [B, S], [B, M]; float32 masked_lm_weights and
sampling_draws), int32 `sampled` [B, M], float32 `masked_lm_loss` and `replaced_loss` [], and of the first plus 50 times
the second `gradient/NAME` for every parameter of the discriminator and `gradient/generator.NAME` for the generator's
own, computed in float64.
"""

import pathlib
import sys

import torch
from make_goldens import randomized, save
from safetensors.torch import save_file
from torch_pretraining import random_batch
from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining

SHAPE = {
    "vocab_size": 200,
    "embedding_size": 8,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 16,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
GENERATOR = {"hidden_size": 6, "num_attention_heads": 2, "intermediate_size": 10}
DISCRIMINATOR_WEIGHT = 50.0
SHARED = "electra.embeddings."


def networks():
    """Returns the generator and the discriminator, of random weights, which share their embeddings."""
    shape = {**SHAPE, "attn_implementation": "eager"}
    generator = ElectraForMaskedLM(ElectraConfig(**{**shape, **GENERATOR}))
    discriminator = ElectraForPreTraining(ElectraConfig(**shape))
    for seed, model in enumerate((generator, discriminator)):
        randomized(model, seed)
    # [PAD] may be sampled, as any piece; torch would keep its row from learning.
    discriminator.electra.embeddings.word_embeddings.padding_idx = None
    generator.electra.embeddings = discriminator.electra.embeddings
    generator.generator_lm_head.weight = discriminator.electra.embeddings.word_embeddings.weight
    return generator, discriminator


def places_of(batch):
    """Returns the rows and columns of the masked places, and the predictions that are real."""
    real = batch["masked_lm_weights"] > 0
    return real.nonzero()[:, 0], batch["masked_lm_positions"][real].long(), real


def encoded(batch, ids):
    return {"input_ids": ids.long(), "attention_mask": batch["input_mask"], "token_type_ids": batch["segment_ids"]}


def drawn(generator, batch):
    """Returns the pieces that the draws choose, int32 [B, M]: the first whose cumulative probability is above."""
    rows, columns, real = places_of(batch)
    with torch.no_grad():
        logits = generator(**encoded(batch, batch["input_ids"])).logits[rows, columns]
    tops = logits.double().softmax(-1).cumsum(-1)
    sampled = torch.zeros(real.shape, dtype=torch.int32)
    sampled[real] = (tops <= batch["sampling_draws"][real].double()[:, None]).sum(-1).int()
    return sampled


def losses(generator, discriminator, batch):
    rows, columns, real = places_of(batch)
    labels = torch.full(batch["input_ids"].shape, -100)
    labels[rows, columns] = batch["masked_lm_ids"][real].long()
    masked_lm = generator(**encoded(batch, batch["input_ids"]), labels=labels).loss
    unmasked = batch["input_ids"].clone()
    unmasked[rows, columns] = batch["masked_lm_ids"][real]
    ids = unmasked.clone()
    ids[rows, columns] = batch["sampled"][real]
    replaced = discriminator(**encoded(batch, ids), labels=(ids != unmasked).long()).loss
    return masked_lm, replaced


def make(folder: pathlib.Path):
    (generator, discriminator), batch = networks(), random_batch(3)
    del batch["next_sentence_labels"]
    batch["sampling_draws"] = torch.rand(batch["masked_lm_weights"].shape, generator=torch.Generator().manual_seed(3))
    batch["sampled"] = drawn(generator, batch)
    batch["masked_lm_ids"][0, 0] = batch["sampled"][0, 0]  # one that is guessed right, and so is not replaced
    own = [key for key in generator.state_dict() if not key.startswith((SHARED, "generator_lm_head.weight"))]
    folder = folder / "replaced_tokens"
    save(discriminator, folder)
    save(generator, folder / "generator", but=set(generator.state_dict()) - set(own))
    generator.double(), discriminator.double()
    masked_lm, replaced = losses(generator, discriminator, batch)
    (masked_lm + DISCRIMINATOR_WEIGHT * replaced).backward()
    expected = {"masked_lm_loss": masked_lm.detach().float(), "replaced_loss": replaced.detach().float()}
    expected |= {f"gradient/{key}": weight.grad.float() for key, weight in discriminator.named_parameters()}
    of_generator = dict(generator.named_parameters())
    expected |= {f"gradient/generator.{key}": of_generator[key].grad.float() for key in own if key in of_generator}
    save_file({**batch, **expected}, folder / "expected.safetensors")


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[1]))
