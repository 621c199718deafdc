"""Writes the goldens: small seeded BERTs of torch Transformers, with inputs and the outputs that torch gives for them.

    PYTHON_WITH_TORCH tests/goldens/make_goldens.py FOLDER

Each model becomes a directory as Hugging Face writes them (config.json, model.safetensors) with a file more,
expected.safetensors: input_ids, attention_mask, token_type_ids, int32 [B, S], and float32 hidden_states [layers + 1, B,
S, H] (the embeddings' output first), pooler_output [B, H].
"""

import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertModel

SHAPES = {
    "erf": {
        "vocab_size": 200,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "hidden_act": "gelu",
        "max_position_embeddings": 40,
    },
    "tanh": {
        "vocab_size": 200,
        "hidden_size": 36,
        "num_hidden_layers": 3,
        "num_attention_heads": 3,
        "intermediate_size": 80,
        "hidden_act": "gelu_new",
        "max_position_embeddings": 24,
        "layer_norm_eps": 1e-5,  # so large that a layer which forgets the configuration's number shows
    },
}
DTYPES = {"erf": torch.float32, "tanh": torch.float16}  # of the file; both are computed in float32
LENGTHS = (12, 7, 1, 9)


def randomized(model: torch.nn.Module, seed: int, dtype: torch.dtype = torch.float16) -> torch.nn.Module:
    """Returns the model with no bias zero and no LayerNorm gamma one, all numbers such as `dtype` can hold."""
    generator = torch.Generator().manual_seed(seed)
    for key, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        value = 1 + 0.3 * noise if key.endswith(("LayerNorm.weight", "norm.weight")) else 0.2 * noise
        weight.data = value.to(dtype).float()
    return model


def random_inputs(seed: int) -> dict[str, torch.Tensor]:
    """Returns rows of LENGTHS tokens, padded with 0, the second half of each in segment 1."""
    generator = torch.Generator().manual_seed(seed)
    place, length = torch.arange(max(LENGTHS))[None], torch.tensor(LENGTHS)[:, None]
    mask = (place < length).int()
    ids = torch.randint(1, 200, mask.shape, generator=generator, dtype=torch.int32)
    second = (place >= (length + 1) // 2).int()
    return {"input_ids": ids * mask, "attention_mask": mask, "token_type_ids": second * mask}


def save(model: torch.nn.Module, folder: pathlib.Path, dtype: torch.dtype = torch.float16, but=()):
    """Makes the folder and writes the model there as Hugging Face does: numbers in `dtype`, without the keys `but`."""
    folder.mkdir(parents=True, exist_ok=True)
    model.config.to_json_file(folder / "config.json")
    weights = {key: value.to(dtype).contiguous() for key, value in model.state_dict().items() if key not in but}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def make(folder: pathlib.Path):
    for seed, (name, dtype) in enumerate(DTYPES.items()):
        model = BertModel(BertConfig(**SHAPES[name], attn_implementation="eager")).eval()
        model, inputs = randomized(model, seed, dtype), random_inputs(seed)
        with torch.inference_mode():
            outputs = model(**inputs, output_hidden_states=True)
        save(model, folder / name, dtype)
        expected = {"hidden_states": torch.stack(outputs.hidden_states), "pooler_output": outputs.pooler_output}
        save_file({**inputs, **expected}, folder / name / "expected.safetensors")


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[1]))
