"""Writes the goldens of BERT's children: small seeded models of torch Transformers, and what they compute.

    PYTHON_WITH_TORCH tests/goldens/torch_families.py FOLDER

Each case becomes a directory FOLDER/families/CASE as Hugging Face writes it, its numbers in float16, with a file more,
expected.safetensors: input_ids, attention_mask, token_type_ids, int32 [B, S]; float32 sequence_output [B, S, H];
pooled_output [B, H] where there is a pooler; logits: of masked LM [B, P, V] at the first P places of each row, of
classifiers [B, L], of replaced tokens [B, S], of tokens [B, S, L]; sentence_logits [B, 2]; start_logits and end_logits
[B, S]. Of the cases in WHOLE also hidden_states [layers + 1, B, S, H] (the embeddings' output first), loss [], what
`summed_loss` gives, and "gradient/NAME", its gradient for every parameter, both computed in float64.
"""

import pathlib
import sys

import torch
import transformers
from make_goldens import random_inputs, randomized, save
from safetensors.torch import save_file

_SHAPE = {
    "vocab_size": 200,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 20,
}
_ONE = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 10}
_SMALL = {**_ONE, "vocab_size": 50, "intermediate_size": 12, "num_labels": 3}
_PLACES = 3
_ROBERTA = {"pad_token_id": 1, "type_vocab_size": 1}
# Windows narrower than the rows, odd numbers of layers.
_MODERN = {"pad_token_id": 0, "num_hidden_layers": 5, "local_attention": 2}
_BIASED = {**_SMALL, "pad_token_id": 0, "num_hidden_layers": 3, "local_attention": 6,
           "global_attn_every_n_layers": 2, "hidden_size": 20, "global_rope_theta": 500.0, "local_rope_theta": 40.0,
           "norm_bias": True, "attention_bias": True, "mlp_bias": True, "classifier_bias": True,
           "hidden_activation": "gelu_new"}  # fmt: skip

# Rows longer than the buckets, an odd number of layers; one shape with half the scores, and with other tables.
_DISENTANGLED = {"pad_token_id": 0, "num_hidden_layers": 3, "type_vocab_size": 0, "relative_attention": True,
                 "pos_att_type": ["p2c", "c2p"], "position_buckets": 6, "share_att_key": True, "layer_norm_eps": 1e-7,
                 "norm_rel_ebd": "layer_norm", "position_biased_input": False}  # fmt: skip
_HALF = {**_DISENTANGLED, **_SMALL, "num_hidden_layers": 1, "type_vocab_size": 2, "pos_att_type": "c2p",
         "position_buckets": -1, "max_relative_positions": 5, "position_biased_input": True, "hidden_act": "gelu_new",
         "pooler_hidden_act": "tanh"}  # fmt: skip

_CONVOLVED = {**_DISENTANGLED, "conv_kernel_size": 3}  # as in the releases of version 2

# Case -> the class, and what its configuration has beside `_SHAPE`. A case has its number as seed: append new ones.
CASES = {
    "albert": ("AlbertForPreTraining", {"embedding_size": 8}),
    "albert-groups": (
        "AlbertForSequenceClassification",
        {"embedding_size": 8, "num_hidden_layers": 5, "num_hidden_groups": 2, "num_labels": 3},
    ),
    "electra-generator": ("ElectraForMaskedLM", {"embedding_size": 8}),
    "electra-discriminator": ("ElectraForPreTraining", {"embedding_size": 12, **_ONE}),
    "electra-classifier": ("ElectraForSequenceClassification", {"embedding_size": 8, "num_labels": 3}),
    "ernie": ("ErnieForPreTraining", {"use_task_id": True, "task_type_vocab_size": 3, "type_vocab_size": 4}),
    "ernie-without-tasks": ("ErnieForMaskedLM", {"use_task_id": False, "hidden_act": "gelu_new", **_ONE}),
    "roberta": ("RobertaForMaskedLM", _ROBERTA),
    "roberta-pooler": ("RobertaModel", {**_ROBERTA, **_ONE}),
    "roberta-classifier": ("RobertaForSequenceClassification", {**_ROBERTA, "num_labels": 3}),
    "distilbert-classifier": ("DistilBertForSequenceClassification", {"num_labels": 3}),
    "albert-tokens": (
        "AlbertForTokenClassification",
        {**_SMALL, "embedding_size": 6, "type_vocab_size": 1, "hidden_act": "gelu", "classifier_dropout_prob": 0.1},
    ),
    "albert-questions": ("AlbertForQuestionAnswering", {**_SMALL, "embedding_size": 6, "type_vocab_size": 4}),
    "bert-classifier": ("BertForSequenceClassification", {**_SMALL, "type_vocab_size": 1}),
    "bert-tokens": ("BertForTokenClassification", {**_SMALL, "type_vocab_size": 4, "hidden_act": "gelu_new"}),
    "distilbert-tokens": ("DistilBertForTokenClassification", {**_SMALL, "activation": "gelu_new"}),
    "distilbert-questions": ("DistilBertForQuestionAnswering", _SMALL),
    "electra-tokens": (
        "ElectraForTokenClassification",
        {**_SMALL, "embedding_size": 6, "type_vocab_size": 4, "hidden_act": "gelu_new"},
    ),
    "electra-questions": ("ElectraForQuestionAnswering", {**_SMALL, "embedding_size": 10, "type_vocab_size": 1}),
    "ernie-tokens": (
        "ErnieForTokenClassification",
        {**_SMALL, "use_task_id": True, "task_type_vocab_size": 2, "type_vocab_size": 1},
    ),
    "ernie-questions": ("ErnieForQuestionAnswering", {**_SMALL, "use_task_id": False, "type_vocab_size": 4}),
    "roberta-tokens": ("RobertaForTokenClassification", {**_SMALL, **_ROBERTA, "hidden_act": "gelu_new"}),
    "roberta-questions": ("RobertaForQuestionAnswering", {**_SMALL, **_ROBERTA, "type_vocab_size": 4}),
    "albert-untied": ("AlbertForMaskedLM", {**_SMALL, "embedding_size": 6, "tie_word_embeddings": False}),
    "electra-untied": ("ElectraForMaskedLM", {**_SMALL, "embedding_size": 6, "tie_word_embeddings": False}),
    "roberta-untied": ("RobertaForMaskedLM", {**_SMALL, **_ROBERTA, "tie_word_embeddings": False}),
    "xlm-roberta-classifier": ("XLMRobertaForSequenceClassification", {**_SMALL, **_ROBERTA, "hidden_act": "gelu_new"}),
    "prelayernorm": ("RobertaPreLayerNormForMaskedLM", _ROBERTA),
    "prelayernorm-classifier": ("RobertaPreLayerNormForSequenceClassification", {**_SMALL, **_ROBERTA}),
    "prelayernorm-pooler": ("RobertaPreLayerNormModel", {**_ROBERTA, **_ONE}),
    "roberta-padding-of-id-3": ("RobertaForMaskedLM", {**_SMALL, **_ROBERTA, "pad_token_id": 3}),
    "albert-square": ("AlbertForMaskedLM", {**_SMALL, "embedding_size": 10}),
    "modernbert": ("ModernBertForMaskedLM", _MODERN),
    "modernbert-classifier": ("ModernBertForSequenceClassification", {**_MODERN, "num_labels": 3}),
    "modernbert-mean": ("ModernBertForSequenceClassification", {**_BIASED, "classifier_pooling": "mean"}),
    "modernbert-tokens": ("ModernBertForTokenClassification", {**_MODERN, "num_labels": 3}),
    "modernbert-questions": ("ModernBertForQuestionAnswering", _BIASED),
    "modernbert-biased": ("ModernBertForMaskedLM", _BIASED),
    "modernbert-untied": ("ModernBertForMaskedLM", {**_MODERN, "tie_word_embeddings": False}),
    "deberta": ("DebertaV2ForMaskedLM", _DISENTANGLED),
    "deberta-half": ("DebertaV2ForMaskedLM", {**_HALF, "num_hidden_layers": 3}),
    # Tied, Transformers' class replaces its dense layer by the word embeddings, which it uses in any case.
    "deberta-not-legacy": (
        "DebertaV2ForMaskedLM",
        {**_DISENTANGLED, "pos_att_type": ["p2c"], "legacy": False, "tie_word_embeddings": False, **_ONE},
    ),
    "deberta-classifier": ("DebertaV2ForSequenceClassification", {**_DISENTANGLED, "num_labels": 3}),
    "deberta-half-classifier": ("DebertaV2ForSequenceClassification", _HALF),
    "deberta-tokens": ("DebertaV2ForTokenClassification", _HALF),
    "deberta-questions": ("DebertaV2ForQuestionAnswering", {**_HALF, "pos_att_type": "p2c|c2p"}),
    "deberta-convolution": ("DebertaV2ForMaskedLM", {**_CONVOLVED, "conv_act": "gelu"}),
    "deberta-convolution-classifier": (
        "DebertaV2ForSequenceClassification", {**_CONVOLVED, **_SMALL, "conv_kernel_size": 5},
    ),
    "mpnet": ("MPNetForMaskedLM", {"num_hidden_layers": 3}),
    "mpnet-classifier": ("MPNetForSequenceClassification", {**_SMALL, "hidden_size": 14, "hidden_act": "gelu_new"}),
    "mpnet-pooler": ("MPNetModel", {**_ONE, "layer_norm_eps": 1e-5}),
    "mpnet-tokens": ("MPNetForTokenClassification", {**_SMALL, "hidden_act": "relu"}),
    "mpnet-questions": ("MPNetForQuestionAnswering", _SMALL),
    "mpnet-untied": ("MPNetForMaskedLM", {**_SMALL, "tie_word_embeddings": False}),
    "camembert-classifier": ("CamembertForSequenceClassification", {**_SMALL, **_ROBERTA}),
    "modernbert-unbiased": ("ModernBertForMaskedLM", {**_BIASED, "decoder_bias": False}),
}
WHOLE = ("prelayernorm", "modernbert", "modernbert-biased", "deberta", "deberta-half", "deberta-convolution",
         "modernbert-mean", "deberta-classifier", "mpnet", "mpnet-classifier")  # fmt: skip
_DISTILBERT = {"hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads",
               "intermediate_size": "hidden_dim"}  # fmt: skip
_TWINS = ("predictions.decoder.weight", "predictions.decoder.bias", "generator_lm_head.weight",
          "cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "lm_head.decoder.weight",
          "lm_head.decoder.bias", "decoder.weight")  # fmt: skip


def _model(name, changes):
    kind = getattr(transformers, name)
    shape = {**_SHAPE, **changes} | ({"num_labels": 2} if name.endswith("ForQuestionAnswering") else {})
    if name.startswith("DistilBert"):
        shape = {_DISTILBERT.get(key, key): value for key, value in shape.items()}
    # Eager attention has NaN for a gradient where a token of padding sees padding alone, as in a narrow window.
    how = "sdpa" if name.startswith("ModernBert") else "eager"
    return kind(kind.config_class(**shape, attn_implementation=how)).eval()


def _inputs(model, seed):
    """Returns random rows, padded with the model's own id, in segments if it has some."""
    inputs, pad = random_inputs(seed), model.config.pad_token_id
    mask = inputs["attention_mask"]
    ids = inputs["input_ids"] % model.config.vocab_size
    inputs["input_ids"] = torch.where(mask > 0, ids.clamp(min=pad + 1), pad).int()
    segments = getattr(model.config, "type_vocab_size", 0)
    if segments < 2:
        inputs["token_type_ids"] = torch.zeros_like(mask)
    elif model.config.vocab_size == _SMALL["vocab_size"]:  # all segments, not the first two alone
        inputs["token_type_ids"] = torch.arange(mask.shape[1]).expand_as(mask).remainder(segments).int() * mask
    return inputs


def _expected(model, inputs):
    with torch.inference_mode():
        base = getattr(model, model.base_model_prefix, model)(**inputs)
        outputs = model(**inputs)
    found = {"sequence_output": base.last_hidden_state}
    found |= {"pooled_output": base.pooler_output} if getattr(base, "pooler_output", None) is not None else {}
    logits = outputs.get("logits", outputs.get("prediction_logits"))
    if logits is not None:
        found["logits"] = logits[:, :_PLACES] if logits.shape[-1] == model.config.vocab_size else logits
    for name in ("start_logits", "end_logits"):
        found |= {name: outputs[name]} if name in outputs else {}
    sentence = outputs.get("sop_logits", outputs.get("seq_relationship_logits"))
    return found | ({} if sentence is None else {"sentence_logits": sentence})


def summed_loss(model, inputs):
    """Returns the summed cross-entropy: of classifiers, the class of row n being n modulo their number; of masked LM,
    at the first `_PLACES` of each row, the next id being what is right."""
    logits, mask = model(**inputs).logits, inputs["attention_mask"]
    if logits.dim() == 2:
        return torch.nn.functional.cross_entropy(logits, torch.arange(len(logits)) % logits.shape[1], reduction="sum")
    logits, ids = logits[:, :_PLACES].flatten(0, 1), inputs["input_ids"].long()
    losses = torch.nn.functional.cross_entropy(logits, ids[:, 1 : _PLACES + 1].flatten(), reduction="none")
    return (losses * mask[:, :_PLACES].flatten()).sum()


def _taken(model, inputs):
    """Returns the inputs that the model takes: some have no segments."""
    without = type(model).__name__.startswith(("DistilBert", "ModernBert", "MPNet"))
    return {name: value for name, value in inputs.items() if not (without and name == "token_type_ids")}


def _whole(model, inputs):
    with torch.inference_mode():
        states = list(model(**inputs, output_hidden_states=True).hidden_states)
        if type(model).__name__.startswith("ModernBert"):  # before Transformers 5 without the final norm
            states[-1] = model.base_model(**inputs).last_hidden_state
    loss = summed_loss(model.double(), inputs)
    loss.backward()
    gradients = {f"gradient/{name}": weight.grad.float() for name, weight in model.named_parameters()}
    model.float()
    return {"hidden_states": torch.stack(states), "loss": loss.detach().float()} | gradients


def make(folder: pathlib.Path):
    for seed, (case, (name, changes)) in enumerate(CASES.items()):
        model = randomized(_model(name, changes), seed)
        inputs = _inputs(model, seed)
        taken = _taken(model, inputs)
        expected = {name: value.contiguous() for name, value in _expected(model, taken).items()}
        expected |= _whole(model, taken) if case in WHOLE else {}
        model.config.architectures = [name]
        but = _TWINS if model.config.tie_word_embeddings else [name for name in _TWINS if name.endswith(".bias")]
        save(model, folder / "families" / case, but=but)
        save_file({**inputs, **expected}, folder / "families" / case / "expected.safetensors")


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[1]))
