"""What a model computes from a text: of its encoder and of every head whose weights it has."""

import dataclasses
import functools
import re
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from bert_tf.checkpoints.names.tf1 import GENERATOR
from bert_tf.checkpoints.writers.architectures import heads_in
from bert_tf.models.config import EncoderConfig
from bert_tf.models.encoder import Encoder
from bert_tf.models.heads import ClassificationHead, QuestionAnsweringHead
from bert_tf.models.lstm_loop import GATES
from bert_tf.models.pretraining_heads import MaskedLMHead, NextSentenceHead, ReplacedTokenHead, build_in_cls
from bert_tf.models.recurrent import BiLSTMHead

_POOLER = "bert/pooler/dense/kernel"
_FLOAT32 = {"dtype": "float32"}  # whatever the program trains in


def outputs(config: EncoderConfig, arrays: Mapping[str, np.ndarray], inputs: Mapping) -> dict[str, np.ndarray]:
    """Returns the outputs, float32: sequence_output, pooled_output where there is a pooler, each head's logits.

    Args:
        config: of the encoder.
        arrays: our path -> array; a generator beside the model is passed over, for no output comes from it.
        inputs: `input_ids`, `input_mask`, `segment_ids`, int32 [B, S].

    Raises:
        ValueError: a weight of the encoder or of a head is missing, too much, or of another shape than the
            configuration says.
    """
    arrays = {path: array for path, array in arrays.items() if not path.startswith(GENERATOR)}
    config = dataclasses.replace(config, has_pooler=_POOLER in arrays)
    encoder = Encoder(config, **_FLOAT32)
    encoder.build()
    heads = {name: _HEADS[name](config, arrays) for name in sorted(heads_in(arrays))}
    variables = [v for layer in (encoder, *(head for head, _ in heads.values())) for v in layer.variables]
    _assign(variables, arrays)
    found = encoder(inputs)
    # What a head for a text makes of its first token, and what one for pieces makes of each.
    x = tf.concat([found["pooled_output"][:, tf.newaxis], found["sequence_output"]], 1)
    named = {"sequence_output": found["sequence_output"]}
    named |= {"pooled_output": found["pooled_output"]} if config.has_pooler else {}
    named |= {f"{name} logits": call(head, x, encoder) for name, (head, call) in heads.items()}
    return {name: value.numpy() for name, value in named.items()}


def _assign(variables, arrays):
    here = {variable.path: tuple(variable.shape) for variable in variables}
    there = {path: array.shape for path, array in arrays.items()}
    if here != there:
        differ = [path for path in sorted(here.keys() | there.keys()) if here.get(path) != there.get(path)]
        sides = {path: (here.get(path, "none"), there.get(path, "none")) for path in differ}
        lines = [f"\n    {path}: {a} by the configuration, {b} in the weights" for path, (a, b) in sides.items()]
        raise ValueError(
            f"The weights must be those of the configuration. Received {len(lines)} that differ:{''.join(lines[:20])}"
        )
    for variable in variables:
        variable.assign(arrays[variable.path].astype(np.float32))


def _classifier(config, arrays):
    act = config.classifier_act if "classifier/dense/kernel" in arrays else None
    head = ClassificationHead(len(arrays["classifier/output_bias"]), transform_act=act, **_FLOAT32)
    head.build((None, None, config.hidden_size))
    return head, lambda head, x, encoder: head(x)


def _masked_lm(config, arrays):
    numbers = (config.vocab_size, config.hidden_act, config.initializer_range, config.layer_norm_eps)
    numbers += (config.embedding_size, config.tie_word_embeddings)
    head = build_in_cls(MaskedLMHead(*numbers, **_FLOAT32), config.hidden_size)

    def call(head, x, encoder):
        places = tf.tile(tf.range(tf.shape(x)[1])[tf.newaxis], [tf.shape(x)[0], 1])
        return head(x, encoder.embeddings.word_embeddings, places)

    return head, call


def _replaced_tokens(config, arrays):
    head = build_in_cls(ReplacedTokenHead(config.hidden_act, **_FLOAT32), config.hidden_size)
    return head, lambda head, x, encoder: head(x)


def _next_sentence(config, arrays):
    return build_in_cls(NextSentenceHead(**_FLOAT32), config.hidden_size), lambda head, x, encoder: head(x)


def _spans(config, arrays):
    def call(head, x, encoder):
        return tf.stack([*head(x, tf.ones(tf.shape(x)[:2], tf.int32)).values()])

    return build_in_cls(QuestionAnsweringHead(**_FLOAT32), config.hidden_size), call


def _bilstm(name, config, arrays):
    """The head on chosen layers, which weights do not name: any will do to tell two sets of weights apart."""
    shares, (_, width, gates) = arrays.get(f"{name}/layer_sum/layer_weights"), arrays[f"{name}/lstm_0/kernel"].shape
    count = width // config.hidden_size if shares is None else len(shares)
    num_labels = len(arrays[f"{name}/classifier/output_bias"])
    num_layers = sum(re.fullmatch(rf"{name}/lstm_\d+/kernel", path) is not None for path in arrays)
    options = {"is_weighted": shares is not None, "num_layers": num_layers, "name": name}
    head = BiLSTMHead(num_labels, gates // GATES, **options, **_FLOAT32)
    head.build([(None, None, config.hidden_size)] * count)
    return head, lambda head, x, encoder: head([x] * count, tf.ones(tf.shape(x)[:2], tf.int32))


_HEADS = {
    "classifier": _classifier,
    "cls/predictions": _masked_lm,
    "cls/replaced_tokens": _replaced_tokens,
    "cls/seq_relationship": _next_sentence,
    "cls/squad": _spans,
    "recurrent": functools.partial(_bilstm, "recurrent"),
    "tagger": functools.partial(_bilstm, "tagger"),
}
