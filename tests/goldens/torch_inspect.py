"""Writes what torch Transformers and captum see inside the models of `families/`.

    PYTHON_WITH_TORCH_AND_CAPTUM tests/goldens/torch_inspect.py FAMILIES FOLDER

FAMILIES is `tests/goldens/families`. FOLDER/inspect/CASE.safetensors has, of the first row of the case's inputs, which
has no padding, float32: attentions [L, A, S, S]; query and key [L, A, S, D]; logits, of labels [C], of tags and words
[S, C], of answers [S, 2]; masked_logits, the same with the heads in HEADS_OFF off (of ALBERT's in all layers of the
first group); values [S], captum's integrated gradients on the output of the embeddings, summed over its width, by STEPS
points of Gauss and Legendre, for the score that `_score` takes of the logits; baseline_ids int32 [S]: the first and the
last id, padding between them.
"""

import json
import pathlib
import sys

import torch
import transformers
from captum.attr import LayerIntegratedGradients
from safetensors.torch import load_file, save_file

CASES = (
    "albert-groups", "bert-tokens", "distilbert-questions", "electra-classifier", "ernie-tokens", "prelayernorm",
    "prelayernorm-classifier", "roberta-classifier",
)  # fmt: skip
HEADS_OFF = {0: [1]}
STEPS = 20
PIECE, LABEL = 3, 1  # of a tag the piece, the last piece of an answer that begins one before it; of labels the label
_TYPES = "token_type_ids"


def _inputs(model, folder):
    given = load_file(folder / "expected.safetensors")
    names = ["input_ids", "attention_mask", *([] if "DistilBert" in type(model).__name__ else [_TYPES])]
    return {name: given[name][:1] for name in names}


def _projections(model, inputs, size):
    """Returns what the modules of that kind, such as "query", give, [L, A, S, D], in the order of the layers."""
    found, handles = [], []
    for name, module in model.named_modules():
        if name.endswith(size):
            handles.append(module.register_forward_hook(lambda module, given, out: found.append(out[0])))
    with torch.inference_mode():
        model(**inputs)
    for handle in handles:
        handle.remove()
    A = model.config.num_attention_heads
    return torch.stack([each.unflatten(-1, (A, -1)).transpose(0, 1) for each in found])


def _logits(outputs):
    """Returns [B, C], [B, S, C] or [B, S, 2]."""
    return outputs.logits if "logits" in outputs else torch.stack([outputs.start_logits, outputs.end_logits], -1)


def _score(logits, is_span):
    if logits.ndim == 2:
        return logits[:, LABEL]
    return logits[:, PIECE - 1, 0] + logits[:, PIECE, 1] if is_span else logits[:, PIECE, LABEL]


def _attributions(model, inputs, baseline, name):
    first = 1 + model.config.pad_token_id if "Roberta" in name else 0  # which else would follow from the padding
    places = torch.arange(first, first + inputs["input_ids"].shape[1])[None]

    def forward(ids, mask, types):
        more = {} if types is None else {_TYPES: types}
        more |= {} if "DistilBert" in name else {"position_ids": places}
        return _score(_logits(model(input_ids=ids, attention_mask=mask, **more)), name.endswith("QuestionAnswering"))

    explain = LayerIntegratedGradients(forward, getattr(model, model.base_model_prefix).embeddings)
    more = (inputs["attention_mask"], inputs.get(_TYPES))
    found = explain.attribute(inputs["input_ids"], baseline, additional_forward_args=more, n_steps=STEPS)
    return found.sum(-1)[0].detach()


def _case(folder):
    (name,) = json.loads((folder / "config.json").read_text(encoding="utf-8"))["architectures"]
    model = getattr(transformers, name).from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    inputs = _inputs(model, folder)
    with torch.inference_mode():
        outputs = model(**inputs, output_attentions=True)
        mask = torch.ones(model.config.num_hidden_layers, model.config.num_attention_heads)
        for layer, heads in HEADS_OFF.items():
            mask[layer, heads] = 0
        masked = model(**inputs, head_mask=mask)
    is_distilbert = "DistilBert" in name
    baseline = torch.full_like(inputs["input_ids"], model.config.pad_token_id)
    baseline[:, [0, -1]] = inputs["input_ids"][:, [0, -1]]
    return {
        "attentions": torch.stack([each[0] for each in outputs.attentions]),
        "query": _projections(model, inputs, "q_lin" if is_distilbert else "self.query" if _nested(model) else "query"),
        "key": _projections(model, inputs, "k_lin" if is_distilbert else "self.key" if _nested(model) else "key"),
        "logits": _logits(outputs)[0],
        "masked_logits": _logits(masked)[0],
        "values": _attributions(model, inputs, baseline, name),
        "baseline_ids": baseline[0].int(),
    }


def _nested(model):
    return any(name.endswith("self.query") for name, _ in model.named_modules())


def make(families: pathlib.Path, folder: pathlib.Path):
    (folder / "inspect").mkdir(parents=True, exist_ok=True)
    for case in CASES:
        arrays = {name: value.contiguous() for name, value in _case(families / case).items()}
        save_file(arrays, folder / "inspect" / f"{case}.safetensors")


if __name__ == "__main__":
    make(*map(pathlib.Path, sys.argv[1:]))
