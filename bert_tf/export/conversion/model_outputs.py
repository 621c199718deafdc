"""The outputs of a model for a text: of the encoder and of every head with weights."""

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from bert_tf.checkpoints.architectures import heads_in
from bert_tf.checkpoints.names.tf1 import GENERATOR
from bert_tf.models.config import EncoderConfig
from bert_tf.models.encoder import Encoder
from bert_tf.models.heads import ClassificationHead, QuestionAnsweringHead
from bert_tf.models.pretraining_heads import MaskedLMHead, NextSentenceHead, ReplacedTokenHead, build_in_cls
from bert_tf.models.recurrent import GATES, BiLSTMHead

_POOLER = "bert/pooler/dense/kernel"
_FLOAT32 = {"dtype": "float32"}  # whatever the training precision


def compute_outputs(config: EncoderConfig, arrays: Mapping[str, np.ndarray], inputs: Mapping) -> dict[str, np.ndarray]:
    """Returns the outputs, float32: sequence_output, pooled_output if there is a pooler, each head's logits.

    Args:
        config: configuration of the encoder.
        arrays: our path -> array; the generator of a discriminator is skipped, because it has no outputs.
        inputs: `input_ids`, `input_mask`, `segment_ids`, int32 [B, S].

    Raises:
        ValueError: a weight of the encoder or of a head is missing, superfluous, or its shape differs from the
            configuration.
    """
    arrays = {path: array for path, array in arrays.items() if not path.startswith(GENERATOR)}
    config = dataclasses.replace(config, has_pooler=_POOLER in arrays)
    encoder = Encoder(config, **_FLOAT32)
    encoder.build()
    heads = {name: _HEADS[name](config, arrays) for name in sorted(heads_in(arrays))}
    variables = [v for layer in (encoder, *(head for head, _ in heads.values())) for v in layer.variables]
    _assign(variables, arrays)
    found = encoder(inputs)
    # Heads for texts read the first position, heads for tokens all others.
    x = tf.concat([found["pooled_output"][:, tf.newaxis], found["sequence_output"]], 1)
    named = {"sequence_output": found["sequence_output"]}
    named |= {"pooled_output": found["pooled_output"]} if config.has_pooler else {}
    for name, (head, call) in heads.items():
        decodes = config.enhanced_mask_decoder and isinstance(head, MaskedLMHead)
        own = head.input_of(encoder, found, inputs) if decodes else x
        named[f"{name} logits"] = call(head, own, encoder)
    return {name: value.numpy() for name, value in named.items()}


def _assign(variables, arrays):
    here = {variable.path: tuple(variable.shape) for variable in variables}
    there = {path: array.shape for path, array in arrays.items()}
    if here != there:
        differ = [path for path in sorted(here.keys() | there.keys()) if here.get(path) != there.get(path)]
        sides = {path: (here.get(path, "none"), there.get(path, "none")) for path in differ}
        lines = [f"\n    {path}: {a} by the configuration, {b} in the weights" for path, (a, b) in sides.items()]
        raise ValueError(
            f"The weights do not match the configuration; {len(lines)} differ:{''.join(lines[:20])}"
        )
    for variable in variables:
        variable.assign(arrays[variable.path].astype(np.float32))


def _classifier(config, arrays):
    transforms = "classifier/dense/kernel" in arrays
    head = ClassificationHead.of(config, len(arrays["classifier/output_bias"]), transforms, **_FLOAT32)
    head.build((None, None, config.hidden_size))
    return head, lambda head, x, encoder: head(x)


def _masked_lm(config, arrays):
    head = build_in_cls(MaskedLMHead.of(config, **_FLOAT32), config.hidden_size)

    def call(head, x, encoder):
        positions = tf.tile(tf.range(tf.shape(x)[1])[tf.newaxis], [tf.shape(x)[0], 1])
        return head(x, encoder.embeddings.word_embeddings, positions)

    return head, call


def _replaced_tokens(config, arrays):
    head = build_in_cls(ReplacedTokenHead.of(config, **_FLOAT32), config.hidden_size)
    return head, lambda head, x, encoder: head(x)


def _next_sentence(config, arrays):
    return build_in_cls(NextSentenceHead(**_FLOAT32), config.hidden_size), lambda head, x, encoder: head(x)


def _spans(config, arrays):
    def call(head, x, encoder):
        return tf.stack([*head(x, tf.ones(tf.shape(x)[:2], tf.int32)).values()])

    return build_in_cls(QuestionAnsweringHead.of(config, **_FLOAT32), config.hidden_size), call


def _bilstm(name, config, arrays):
    """Returns the head on selected layers. The weights do not name the layers, but any will do to compare weights."""
    shares, (_, width, gates) = arrays.get(f"{name}/layer_sum/layer_weights"), arrays[f"{name}/lstm_0/kernel"].shape
    count = width // config.hidden_size if shares is None else len(shares)
    num_labels = len(arrays[f"{name}/classifier/output_bias"])
    num_layers = sum(re.fullmatch(rf"{name}/lstm_\d+/kernel", path) is not None for path in arrays)
    options = {"is_weighted": shares is not None, "num_layers": num_layers, "name": name}
    head = BiLSTMHead(num_labels, gates // GATES, **options, **_FLOAT32)
    head.build([(None, None, config.hidden_size)] * count)
    return head, lambda head, x, encoder: head([x] * count, tf.ones(tf.shape(x)[:2], tf.int32))


_HEADS: dict[str, Callable] = {
    "classifier": _classifier,
    "cls/predictions": _masked_lm,
    "cls/replaced_tokens": _replaced_tokens,
    "cls/seq_relationship": _next_sentence,
    "cls/squad": _spans,
    "recurrent": functools.partial(_bilstm, "recurrent"),
    "tagger": functools.partial(_bilstm, "tagger"),
}
