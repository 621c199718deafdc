"""Tiny models of every family with every head, as arrays of random numbers, for the tests of conversion."""

import contextlib
import dataclasses
import functools
import hashlib
import json

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.checkpoints.model_arrays import ModelArrays
from bert_tf.export.conversion import model_outputs, round_trip
from bert_tf.models.config import EncoderConfig, template_for
from bert_tf.models.encoder import Encoder
from bert_tf.models.family_registry import family
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import tiny

PIECES = (*tiny.VOCAB, "<s>", "</s>")
_SHAPE = {
    "vocab_size": len(PIECES) + 3,  # releases round up, too
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 20,
}
_ONE_LAYER = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 10}
_DEBERTA = {"model_type": "deberta-v2", "relative_attention": True, "share_att_key": True, "norm_rel_ebd": "layer_norm"}
# Case -> what its config.json has beside `_SHAPE`: two shapes of each family at least, both forms of gelu.
CASES = {
    "bert": {"model_type": "bert", "hidden_act": "gelu_new"},
    "bert-odd": {"model_type": "bert", "hidden_act": "gelu", "type_vocab_size": 4, **_ONE_LAYER},
    # More layers than the header of one of HDF5's groups has links for.
    "distilbert": {"model_type": "distilbert", "activation": "gelu", "num_hidden_layers": 9},
    "distilbert-odd": {"model_type": "distilbert", "activation": "gelu_new", **_ONE_LAYER},
    "electra": {"model_type": "electra", "embedding_size": 8, "hidden_act": "gelu"},
    "electra-odd": {"model_type": "electra", "embedding_size": 10, "hidden_act": "gelu", **_ONE_LAYER},
    "roberta": {"model_type": "roberta", "type_vocab_size": 1, "layer_norm_eps": 1e-5, "hidden_act": "gelu"},
    "roberta-odd": {"model_type": "roberta", "type_vocab_size": 1, "hidden_act": "gelu", **_ONE_LAYER},
    "albert": {"model_type": "albert", "embedding_size": 8, "hidden_act": "gelu_new"},
    "albert-odd": {"model_type": "albert", "embedding_size": 6, "num_hidden_groups": 2, "num_hidden_layers": 5,
                   "hidden_act": "gelu"},
    "ernie": {"model_type": "ernie", "use_task_id": True, "task_type_vocab_size": 3, "hidden_act": "relu"},
    "ernie-odd": {"model_type": "ernie", "type_vocab_size": 4, "hidden_act": "gelu", **_ONE_LAYER},
    "prelayernorm": {"model_type": "roberta-prelayernorm", "type_vocab_size": 1, "hidden_act": "gelu"},
    "modernbert": {"model_type": "modernbert", "local_attention": 4},
    "modernbert-odd": {"model_type": "modernbert", "attention_bias": True, "mlp_bias": True, "norm_bias": True,
                       "classifier_bias": True, "classifier_pooling": "mean", **_ONE_LAYER, "hidden_size": 20},
    "deberta": {**_DEBERTA, "pos_att_type": "p2c|c2p", "position_buckets": 6, "position_biased_input": False},
    "deberta-convolution": {**_DEBERTA, "pos_att_type": "p2c|c2p", "conv_kernel_size": 3, "conv_act": "gelu"},
    "deberta-odd": {**_DEBERTA, "pos_att_type": ["c2p"], "max_relative_positions": 5, "type_vocab_size": 2,
                    **_ONE_LAYER},
    "mpnet": {"model_type": "mpnet", "hidden_act": "gelu"},
    "nomic": {"model_type": "nomic_bert", "classifier_bias": False, "decoder_bias": False},
    "nomic-odd": {"model_type": "nomic_bert", "type_vocab_size": 4, **_ONE_LAYER, "hidden_size": 20},
    "gte": {"model_type": "new", "type_vocab_size": 0, "rope_scaling": {"type": "ntk", "factor": 2.0}},
    "gte-odd": {"model_type": "new", "type_vocab_size": 2, "hidden_act": "gelu_new", "rope_theta": 9.0, **_ONE_LAYER,
                "hidden_size": 20},
}
# Kind of model -> the heads that it has: [outputs, H] each, or "lm" and "discriminator", which are more.
HEADS = {
    "encoder": (),
    "text": (("classifier", 3),),
    "regression": (("classifier", 1),),
    "tokens": (("classifier", 5),),
    "spans": (("cls/squad", 2),),
    "masked_lm": (("cls/predictions", "lm"),),
    "pretraining": (("cls/predictions", "lm"), ("cls/seq_relationship", 2)),
    "discriminator": (("cls/replaced_tokens", 1),),
}
ARCHITECTURES = {"tokens": ("ForTokenClassification",)}
_WITH_PRETRAINING = ("bert", "albert", "ernie")


def config(case) -> EncoderConfig:
    return EncoderConfig.from_dict({**_SHAPE, "layer_norm_eps": 1e-12, **CASES[case]})


def kinds(case) -> list[str]:
    """Returns the kinds of models that the family has a class for in Transformers."""
    name = CASES[case]["model_type"]
    lacking = {"pretraining"} if name not in _WITH_PRETRAINING else set()
    return [kind for kind in HEADS if kind not in lacking and (kind != "discriminator" or name == "electra")]


def arrays(config, kind, seed=0) -> dict[str, np.ndarray]:
    """Returns our path -> float32 array: the encoder, the pooler where the head reads it, the head."""
    reads_pooler = kind in ("encoder", "text", "regression", "pretraining")
    shapes = {p: shape for p, shape in _encoder(json.dumps(config.to_dict())) if reads_pooler or "/pooler/" not in p}
    for name, size in HEADS[kind]:
        shapes |= _head(config, kind, name, size)
    rng = np.random.default_rng(seed)
    drawn = {path: rng.normal(0, 0.2, shape).astype(np.float32) for path, shape in shapes.items()}
    return {path: array + np.float32(path.endswith("/gamma")) for path, array in drawn.items()}


@functools.cache
def _encoder(values):
    encoder = Encoder(EncoderConfig.from_dict(json.loads(values)))
    encoder.build()
    return [(v.path, tuple(v.shape)) for v in encoder.variables]


def _head(config, kind, name, size):
    wide, narrow = config.hidden_size, config.embedding_width

    def dense(path, width):
        kernel = {f"{path}/kernel": (wide, width)}
        return kernel | ({f"{path}/bias": (width,)} if config.classifier_bias else {})

    def norm(path, width):
        return {f"{path}/{part}": (width,) for part in ("gamma", *["beta"] * config.norm_bias)}

    if size == "lm":
        first = dense(f"{name}/transform/dense", narrow) | norm(f"{name}/transform/LayerNorm", narrow)
        return first | ({f"{name}/output_bias": (config.vocab_size,)} if config.decoder_bias else {})
    last = {f"{name}/output_weights": (size, wide), f"{name}/output_bias": (size,)}
    two = kind == "discriminator" or name == "classifier" and kind != "tokens" and config.classifier_act
    context = kind == "discriminator" and config.replaced_token_context
    last |= norm(f"{name}/LayerNorm", wide) if config.head_norm or context else {}
    return last | (dense(f"{name}/dense", wide) if two or config.head_norm else {})


@functools.cache
def _tokenizer(template, pad, tokenizer_class):
    pieces = [template.mask if piece == "[MASK]" else piece for piece in PIECES if piece != "[PAD]"]
    pieces[pad:pad] = [template.pad]
    return WordPieceTokenizer(pieces, template=template, tokenizer_class=tokenizer_class)


def tokenizer(config) -> WordPieceTokenizer:
    """Returns a WordPiece tokenizer with the special tokens of the family, and with BERT's others if it has another."""
    row, template = family(config.model_type), template_for(config)
    if row.tokenizer != "wordpiece":
        template = dataclasses.replace(template, pad="[PAD]", unknown="[UNK]", mask="[MASK]")
    own_class = row.tokenizing_by("wordpiece").get("tokenizer_class", "BertTokenizer")
    return _tokenizer(template, max(0, config.first_position - 1), own_class)


def model(case, kind, **options) -> ModelArrays:
    """Returns a `ModelArrays`; its labels have names where there is something to tell apart."""
    here = config(case)
    weights = arrays(here, kind)
    outputs = len(weights.get("classifier/output_bias", ()))
    labels = [f"label {n}" for n in range(outputs)] if outputs > 1 else None
    return ModelArrays(here, weights, tokenizer(here), labels, ARCHITECTURES.get(kind, ()), **options)


@contextlib.contextmanager
def quick_proofs():
    """Spares conversions most of their time: nothing is traced, and the outputs of equal models are computed once."""
    compute, found = model_outputs.compute_outputs, {}

    def compute_once(config, arrays, inputs):
        digest = hashlib.sha256(json.dumps(config.to_dict(), sort_keys=True).encode())
        for name, value in sorted({**arrays, **{name: each.numpy() for name, each in inputs.items()}}.items()):
            digest.update(f"{name} {value.dtype} {value.shape} ".encode() + np.ascontiguousarray(value).tobytes())
        key = digest.digest()
        if key not in found:
            found[key] = compute(config, arrays, inputs)
        return dict(found[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(round_trip, "compute_outputs", compute_once)
        tf.config.run_functions_eagerly(True)
        yield
        tf.config.run_functions_eagerly(False)
