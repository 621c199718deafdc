"""Attention and attributions of many texts in one graph, for the explanation signatures of served models."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.interpret.attention import kept_heads
from bert_tf.interpret.attribution import integrate_row
from bert_tf.interpret.integrated_gradients import Integral
from bert_tf.interpret.targets import TextHead
from bert_tf.models.encoder import Encoder
from bert_tf.tokenization.token_origins import OriginTracker, TokenOrigins

Tensors = dict[str, tf.Tensor]
_INPUTS = ("input_ids", "input_mask", "segment_ids")
_MOST_ASKED = 2**24  # weights in a response: 64 MiB, the most that the server sends by default
_MOST_WEIGHTS = 2**26  # of attention, of all texts and layers: 256 MiB, several times over while they are computed
_MOST_TEXTS = 16  # whose predictions are explained at once: each takes the gradients of 32 to 512 times the text


def encoder_in(model: Any) -> Encoder:
    """Returns the encoder of a task's functional model."""
    return next(layer for layer in model.layers if isinstance(layer, Encoder))


def attention_in_graph(
    encoder: Any, tokenizer: Any, texts: Sequence[tf.Tensor], layers: tf.Tensor, max_seq_length: int
) -> Tensors:
    """Returns the attention weights of some layers.

    Args:
        encoder: an `Encoder` of L layers and A heads.
        tokenizer: its tokenizer.
        texts: of each example, string [n], or both of a pair; truncated to one sequence as in `BaseTokenizer.pack`.
        layers: int32 [n, k], the layers of each example, from 0, or from -1, the last, down.
        max_seq_length: longest sequence.

    Returns:
        `attention`, float32 [n, k, A, S, S], from the token of the last axis but one to that of the last, 0 for
        padding and for heads that were pruned; and the tokens, as in `_shown`.

    Raises:
        tf.errors.InvalidArgumentError: there is no such layer, more are named than exist, or the texts are so many
            and so long that all weights together would be more than 2^26, or the layers named more than 2^24; nothing
            is computed then.
    """
    L, tracker = encoder.config.num_hidden_layers, OriginTracker(tokenizer)
    packed = tracker.pad(tracker.pack(*map(tracker.tokenize, texts), max_seq_length=max_seq_length))
    tokens, features = _resolve_tokens(tracker, packed)
    with tf.control_dependencies(_attention_checks(encoder.config, features["input_ids"], layers)):
        layers = tf.where(layers < 0, layers + L, layers)
        features = {name: tf.identity(values) for name, values in features.items()}
    probs = encoder(features, training=False, return_attention_probs=True)["attention_probs"]
    there = tf.cast(features["input_mask"], tf.float32)[:, tf.newaxis]
    both = there[..., tf.newaxis] * there[:, :, tf.newaxis]
    each = [_restore_pruned_heads(probs[n], kept) * both for n, kept in enumerate(kept_heads(encoder.config))]
    weights = tf.gather(tf.stack(each, 1), layers, batch_dims=1)
    return {"attention": weights} | _describe_tokens(tokenizer, tokens, features["input_mask"] > 0)


def attributions_in_graph(
    encoder: Any,
    head: TextHead,
    tokenizer: Any,
    read: Callable,
    texts: Sequence[tf.Tensor],
    target: tf.Tensor,
    max_seq_length: int,
) -> Tensors:
    """Computes attributions as `attributions` does with the baseline "pad", in a graph.

    If a task reads a text in windows, the window of the prediction is explained.

    Args:
        encoder, tokenizer, texts, max_seq_length: as in `attention_in_graph`.
        head: head of the model, from `exported_targets.head_in`.
        read: the task's.
        target: string [n], the prediction to explain, as in `TextHead.choose`.

    Returns:
        `attribution` float32 [n, S], the contribution of each token, 0 for special ones; `target` string [n], the
        label, tag or answer; `score`, `baseline_score` and `gap` float32 [n], `steps` int32 [n], as in `Attributions`;
        and the tokens, as in `_shown`.

    Raises:
        tf.errors.InvalidArgumentError: there is no such target, or there are more than 16 texts.
    """
    tracker = OriginTracker(tokenizer)
    refusal = f"A request for explanations may have at most {_MOST_TEXTS} texts; got"
    n = tf.maximum(tf.size(target), tf.size(texts[0]))
    few = tf.debugging.Assert(n <= _MOST_TEXTS, [refusal, n, ". Send fewer at a time."])
    with tf.control_dependencies([few]):
        texts = [tf.identity(each) for each in texts]
    laid_out, origin = read(tracker, texts, max_seq_length)
    tokens, features = _resolve_tokens(tracker, laid_out)
    choice = head.choose(head.logits(encoder(features, training=False)), origin, target)
    tokens = TokenOrigins(*(tf.gather(column, choice.rows) for column in tokens))
    features = {name: tf.gather(values, choice.rows) for name, values in features.items()}
    instead = tf.where(tokens.of_text >= 0, tokenizer.pad_id, tokens.ids)
    found = _integrate_rows(encoder, head, features, instead, choice.parts)
    there = choice.there[:, tf.newaxis] & (features["input_mask"] > 0)
    return {"attribution": found.pop("values"), "target": choice.name, **found} | _describe_tokens(
        tokenizer, tokens, there
    )


def _attention_checks(config, input_ids, layers):
    """Returns the operations that reject an invalid request for attention before it is computed."""
    L, A = config.num_hidden_layers, config.num_attention_heads
    n, width = tf.unstack(tf.shape(input_ids, tf.int64))
    of_a_layer = n * A * width * width
    weights, asked = of_a_layer * L, of_a_layer * tf.shape(layers, tf.int64)[1]
    known = f"`layers` must be from 0 to {L - 1}, or from -1, the last, to {-L}; got a value outside this range."
    each_once = f"`layers` must name at most {L} layers per text, the number of layers; got"
    sent = f"The requested layers may have at most {_MOST_ASKED} attention weights; got a request for"
    small = f"All texts and layers together may have at most {_MOST_WEIGHTS} attention weights; got texts with"
    return [
        tf.debugging.Assert(tf.reduce_all((layers >= -L) & (layers < L)), [known]),
        tf.debugging.Assert(tf.shape(layers)[1] <= L, [each_once, tf.shape(layers)[1], ". Name each once."]),
        tf.debugging.Assert((n <= 1) | (weights <= _MOST_WEIGHTS), [small, weights, ". Send fewer at a time."]),
        tf.debugging.Assert(asked <= _MOST_ASKED, [sent, asked, ". Request fewer layers or texts at a time."]),
    ]


def _resolve_tokens(tracker, laid_out):
    """Returns the tokens of sequences whose ids are origins, and the encoder's inputs, int32 [w, S] each."""
    tokens = tracker.found(laid_out["input_ids"])
    return tokens, {name: laid_out[name] for name in _INPUTS} | {"input_ids": tokens.ids}


def _describe_tokens(tokenizer, tokens, there):
    """Returns `token` string [n, S], as spelled in the vocabulary, "" for padding; `start` and `end` int32 [n, S], its
    offsets in its text, half-open, in code points; `of_text` int32 [n, S], its text's index, -1 for special ones."""
    vocab, (ids, *others) = tf.constant(tokenizer.vocab), tokens
    columns = dict(zip(("start", "end", "of_text"), others, strict=True))
    outside = {"start": 0, "end": 0, "of_text": -1}
    shown = {name: tf.where(there, values, outside[name]) for name, values in columns.items()}
    return {"token": tf.where(there, tf.gather(vocab, ids), ""), **shown}


def _restore_pruned_heads(probs, kept):
    """Returns float32 [n, A, S, S] with the weights of the existing heads, and zeros for the others."""
    probs = tf.cast(probs, tf.float32)
    if kept.all():
        return probs
    behind = tf.concat([probs, tf.zeros_like(probs[:, :1])], 1)
    return tf.gather(behind, np.where(kept, np.cumsum(kept) - 1, kept.sum()), axis=1)


def _integrate_rows(encoder, head, features, instead, parts) -> Tensors:
    """Returns `values` [n, S] and the other fields of `Integral` [n]; each sequence by itself, without padding."""
    lengths = tf.reduce_sum(features["input_mask"], 1)
    n, width = tf.size(lengths), tf.shape(instead)[1]

    def explain(k, whole):
        row = {name: values[k : k + 1, : lengths[k]] for name, values in features.items()}
        found = integrate_row(encoder, head, row, instead[k : k + 1, : lengths[k]], parts[k])
        own = found._replace(values=tf.pad(tf.reduce_sum(found.values, -1), [[0, width - lengths[k]]]))
        own = own._replace(gap=tf.cast(own.gap, tf.float32))
        return k + 1, Integral(*(tf.tensor_scatter_nd_update(each, [[k]], [value])
                                 for each, value in zip(whole, own, strict=True)))  # fmt: skip

    numbers = [tf.zeros([n]) for _ in range(3)]
    start = Integral(tf.zeros(tf.shape(instead)), *numbers, tf.zeros([n], tf.int32))
    _, found = tf.while_loop(lambda k, _: k < n, explain, (tf.constant(0), start), parallel_iterations=1)
    return found._asdict()
