"""Writes the goldens of families whose published checkpoints come with code, from the classes of Transformers 5.

    PYTHON_WITH_TORCH_AND_TRANSFORMERS_5 tests/goldens/torch_rotary_families.py FOLDER

The cases are as in torch_families.py, with the names that published files have: Transformers' `save_pretrained` gives
them, but for the prefix of the encoder. The configurations are written here as they are published. GTE's has NTK
scaling, which Transformers has not: it is what linear scaling of another base gives. With "fc11", "gradient/NAME" is of
such a file's weight, too.
"""

import json
import pathlib
import sys
import tempfile

import torch
import transformers
from make_goldens import randomized
from safetensors.torch import load_file, save_file
from torch_families import _PLACES, _SHAPE, _SMALL, _inputs, summed_loss

_WIDE = {**_SMALL, "num_hidden_layers": 3, "hidden_size": 20}
# Of GTE: the factor of NTK scaling or None, the base, and whether queries, keys and values are one weight.
_SCALED, _PLAIN = (2.0, 50.0, True), (None, 300.0, False)
# Case -> the class, what its configuration has beside `_SHAPE`, and the form of the file. Append new ones.
CASES = {
    "nomic": ("NomicBertForMaskedLM", {}, "gpt2"),
    "nomic-biased": ("NomicBertForMaskedLM", {**_WIDE, "type_vocab_size": 4}, "transformers"),
    "nomic-classifier": ("NomicBertForSequenceClassification", {**_WIDE, "num_labels": 3}, "gpt2"),
    "nomic-tokens": ("NomicBertForTokenClassification", {"num_labels": 3}, "transformers"),
    "gte": ("GteForMaskedLM", {"type_vocab_size": 0, "pad_token_id": 0}, _SCALED),
    "gte-parts": ("GteForMaskedLM", {**_WIDE, "type_vocab_size": 4}, _PLAIN),
    "gte-classifier": ("GteForSequenceClassification", {**_WIDE, "pad_token_id": 0, "num_labels": 3}, _SCALED),
    "gte-tokens": ("GteForTokenClassification", {"type_vocab_size": 2, "num_labels": 3}, _SCALED),
}
WHOLE = ("nomic", "nomic-biased", "gte", "gte-parts")
_BASE = 40.0  # of nomic's positions
_HEAD_BIASES = ("cls.predictions.bias", "cls.predictions.transform.dense.bias", "cls.predictions.decoder.bias")
_KEYS = {"hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head",
         "intermediate_size": "n_inner", "max_position_embeddings": "n_positions"}  # fmt: skip
_CODE = {"AutoModel": "somebody/model--modeling.Model"}


def rope_parameters(form: str | tuple, width: int) -> dict:
    """Returns what Transformers calls the positions of a case with heads of that width."""
    if isinstance(form, str):
        return {"rope_type": "default", "rope_theta": _BASE}
    factor, base, _ = form
    if factor is None:
        return {"rope_type": "default", "rope_theta": base}
    return {"rope_type": "linear", "rope_theta": base * factor, "factor": factor ** (2 / width)}


def _model(name, changes, form):
    kind, shape = getattr(transformers, name), {**_SHAPE, **changes}
    rope = rope_parameters(form, shape["hidden_size"] // shape["num_attention_heads"])
    return kind(kind.config_class(**shape, rope_parameters=rope, attn_implementation="eager")).eval()


def _published(model, form, weights=None):
    """Returns the model's weights, or others under their names, as a published file has them."""
    own = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(weights or own, strict=False)  # a tied weight is given by its first name alone
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        found = load_file(f"{folder}/model.safetensors")
    model.load_state_dict(own)
    old, new = ("gte.", "new.") if isinstance(form, tuple) else ("nomic_bert.", "bert.")
    new = old if form == "transformers" else new
    found = {name.replace(old, new) if name.startswith(old) else name: array for name, array in found.items()}
    return _apart(found) if isinstance(form, tuple) and not form[2] else found


def _apart(weights):
    parts = {}
    for name, array in weights.items():
        if "qkv_proj" not in name:
            parts[name] = array
            continue
        for letter, part in zip("qkv", array.chunk(3), strict=True):
            parts[name.replace("qkv_proj", f"{letter}_proj")] = part.contiguous()
    return parts


def _config(model, name, form):
    """Returns the contents of config.json, as it is published for this family."""
    values = {key: value for key, value in model.config.to_dict().items() if key != "rope_parameters"}
    if isinstance(form, tuple):
        factor, base, packed = form
        own = {"model_type": "new", "architectures": [name.replace("Gte", "New")], "pack_qkv": packed,
               "layer_norm_type": "layer_norm", "logn_attention_scale": False, "logn_attention_clip1": False,
               "position_embedding_type": "rope", "unpad_inputs": False, "use_memory_efficient_attention": False,
               "rope_theta": base, "rope_scaling": factor and {"type": "ntk", "factor": factor}}  # fmt: skip
        return {**values, **own, "auto_map": _CODE}
    if form == "transformers":
        return model.config.to_dict() | {"architectures": [name]}
    own = {"activation_function": "swiglu", "resid_pdrop": 0.0, "attn_pdrop": 0.0, "embd_pdrop": 0.0,
           "layer_norm_epsilon": model.config.layer_norm_eps, "rotary_emb_base": _BASE, "rotary_emb_fraction": 1.0,
           "rotary_emb_interleaved": False, "rotary_emb_scale_base": None, "rotary_scaling_factor": None,
           "max_trained_positions": 2048, "prenorm": False, "causal": False, "use_rms_norm": False,
           "parallel_block": False, "parallel_block_tied_norm": False, "qkv_proj_bias": False, "mlp_fc1_bias": False,
           "mlp_fc2_bias": False, "pad_vocab_size_multiple": 1, "use_flash_attn": True, "fused_bias_fc": True,
           "model_type": "nomic_bert", "architectures": [name.replace("MaskedLM", "PreTraining")]}  # fmt: skip
    kept = ("vocab_size", "type_vocab_size", "initializer_range", "pad_token_id", "id2label", "label2id")
    own |= {theirs: values[key] for key, theirs in _KEYS.items()}
    return own | {key: values[key] for key in kept if key in values} | {"auto_map": _CODE}


def _expected(model, inputs):
    with torch.inference_mode():
        base = getattr(model, model.base_model_prefix)(**inputs)
        logits = model(**inputs).logits
    found = {"sequence_output": base.last_hidden_state}
    found |= {"pooled_output": base.pooler_output} if base.pooler_output is not None else {}
    return found | {"logits": logits[:, :_PLACES] if logits.shape[-1] == model.config.vocab_size else logits}


def _whole(model, inputs, form):
    with torch.inference_mode():
        states = model(**inputs, output_hidden_states=True).hidden_states
    loss = summed_loss(model.double(), inputs)
    loss.backward()
    gradients = {name: weight.grad.float() for name, weight in model.named_parameters()}
    model.float()
    named = _published(model, form, gradients).items()
    return {"hidden_states": torch.stack(states), "loss": loss.detach().float()} | {
        f"gradient/{name}": value for name, value in named if not (form == "gpt2" and name in _HEAD_BIASES)
    }


def make(folder: pathlib.Path):
    for seed, (case, (name, changes, form)) in enumerate(CASES.items()):
        model = randomized(_model(name, changes, form), seed)
        if form == "gpt2":  # published files have none of these
            for key in _HEAD_BIASES:
                model.state_dict().get(key, torch.zeros(1)).zero_()
        inputs, directory = _inputs(model, seed), folder / "families" / case
        expected = {key: value.contiguous() for key, value in _expected(model, inputs).items()}
        expected |= _whole(model, inputs, form) if case in WHOLE else {}
        but = _HEAD_BIASES if form == "gpt2" else ()
        weights = {key: value.to(torch.float16).contiguous() for key, value in _published(model, form).items()}
        directory.mkdir(parents=True, exist_ok=True)
        text = json.dumps(_config(model, name, form), indent=2, sort_keys=True) + "\n"
        (directory / "config.json").write_text(text, encoding="utf-8")
        named = {key: value for key, value in weights.items() if key not in but}
        save_file(named, directory / "model.safetensors", {"format": "pt"})
        save_file({**inputs, **expected}, directory / "expected.safetensors")


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[1]))
