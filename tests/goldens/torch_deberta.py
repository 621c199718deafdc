"""Writes what DeBERTa's own pretraining heads compute, which Transformers lacks.

    PYTHON_WITH_TORCH tests/goldens/torch_deberta.py FOLDER

Reads FOLDER/families/deberta and writes FOLDER/deberta_heads/expected.safetensors: attention_mask, int32 [B, S];
weights under the names of microsoft/DeBERTa; "decoded", the states of the enhanced mask decoder
(masked_language_model.py), float32 [B, S, H]; "logits", of the masked LM at the first 3 places; "replaced", logits of
replaced tokens (replaced_token_detection_model.py), float32 [B, S].
"""

import pathlib
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file


def weights(width, rows):
    torch.manual_seed(0)
    shapes = {
        "deberta.embeddings.position_embeddings.weight": (rows, width),
        "mask_predictions.LayerNorm.weight": (width,),
        "mask_predictions.LayerNorm.bias": (width,),
        "mask_predictions.dense.weight": (width, width),
        "mask_predictions.dense.bias": (width,),
        "mask_predictions.classifier.weight": (1, width),
        "mask_predictions.classifier.bias": (1,),
    }
    return {name: torch.randn(shape) for name, shape in shapes.items()}


def decoded(encoder, below, mask, table):
    """Returns the last layer's states: keys and values from the layer below, queries that know their positions."""
    mask = encoder.get_attention_mask(mask)
    how = {"relative_pos": encoder.get_rel_pos(below), "rel_embeddings": encoder.get_rel_embedding()}
    queries = below + table[: below.shape[1]]
    for _ in range(2):
        queries = encoder.layer[-1](below, mask, query_states=queries, **how)[0]
    return queries


def replaced(states, own, epsilon):
    """Returns the logits of replaced tokens."""
    part = {name.removeprefix("mask_predictions."): value for name, value in own.items()}
    norm = part["LayerNorm.weight"], part["LayerNorm.bias"], epsilon
    x = torch.nn.functional.layer_norm(states + states[:, :1], states.shape[-1:], *norm)
    x = torch.nn.functional.gelu(torch.nn.functional.linear(x, part["dense.weight"], part["dense.bias"]))
    return torch.nn.functional.linear(x, part["classifier.weight"], part["classifier.bias"])[..., 0]


@torch.inference_mode()
def make(folder: pathlib.Path):
    given = load_file(folder / "families" / "deberta" / "expected.safetensors")
    model = transformers.DebertaV2ForMaskedLM.from_pretrained(
        folder / "families" / "deberta", attn_implementation="eager", torch_dtype=torch.float32
    ).eval()
    inputs = {name: given[name] for name in ("input_ids", "attention_mask", "token_type_ids")}
    states = model(**inputs, output_hidden_states=True).hidden_states
    own = weights(model.config.hidden_size, model.config.max_position_embeddings)
    table = own["deberta.embeddings.position_embeddings.weight"]
    found = decoded(model.deberta.encoder, states[-2], inputs["attention_mask"], table)
    expected = {
        "attention_mask": inputs["attention_mask"],
        "decoded": found,
        "logits": model.cls(found)[:, :3],
        "replaced": replaced(states[-1], own, model.config.layer_norm_eps),
    }
    (folder / "deberta_heads").mkdir(exist_ok=True)
    file = folder / "deberta_heads" / "expected.safetensors"
    save_file({**own, **{name: value.contiguous() for name, value in expected.items()}}, file)


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[1]))
