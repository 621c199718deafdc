"""Attention weights of each head, and the queries and keys that they come from."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.interpret.encoded_text import EncodedText, Texts, encode_texts
from bert_tf.models.disentangled_attention import position_scores
from bert_tf.models.distillation_model import attention_inputs
from bert_tf.models.layer_views import layer_views
from bert_tf.models.rotary_positions import rotate

_BIAS = "bias"


@dataclasses.dataclass(frozen=True, eq=False)
class Attention(EncodedText):
    """A text and its attention weights in L layers of A heads.

    Attributes:
        weights: float32 [L, A, S, S], from the token of the third axis to that of the last; each row of S sums to 1.
            Zeros for a head that is ablated or pruned.
        heads: bool [L, A], which heads the model has, that is, those not pruned.
    """

    weights: np.ndarray
    heads: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Neurons(Attention):
    """Attention weights with their queries and keys, D numbers per head.

    Attributes:
        query, key: float32 [L, A, S, D]; rotated, if positions are rotary; zeros for a head that was pruned.
        positions: {term: float32 [L, A, S, S]} with what relative positions add to the products, as the model has it:
            in disentangled attention "c2p" (query and position) and "p2c" (key and position); with a bias of relative
            positions "bias", that bias times the root of D. Empty if there is neither.
    """

    query: np.ndarray
    key: np.ndarray
    positions: Mapping[str, np.ndarray]

    def products(self, layer: int, head: int, place: int) -> np.ndarray:
        """Returns float32 [S, D]: the query of the token at `place`, multiplied elementwise with the key of each token.

        Raises:
            ValueError: there is no such layer, head or token.
        """
        check_place(layer, head, self.heads)
        if not 0 <= place < len(self):
            raise ValueError(
                f"`place` must be the position of a token, from 0 to {len(self) - 1}; got {place}."
            )
        return self.query[layer, head, place] * self.key[layer, head]

    def scores(self, layer: int, head: int) -> np.ndarray:
        """Returns attention scores, float32 [S, S]: `products` summed, over the root of D; softmax gives the weights.

        Masked tokens (in a causal model, those after a token; in local attention, those outside the window) have a
        score, but no weight. The terms of `positions` are added to the sum; in disentangled attention, which has n of
        them, this is divided by the root of (1 + n) D.

        Raises:
            ValueError: there is no such layer or head.
        """
        check_place(layer, head, self.heads)
        query, key = self.query[layer, head], self.key[layer, head]
        total = query @ key.T + sum(term[layer, head] for term in self.positions.values())
        return total / np.float32(np.sqrt((1 + self.scaling_terms) * query.shape[-1]))

    @property
    def scaling_terms(self) -> int:
        """The number of terms of `positions` by which the divisor of scores grows."""
        return len([term for term in self.positions if term != _BIAS])


def attention(model: Any, texts: Texts, pairs: Sequence[str] | None = None, masks: bool = False) -> list[Attention]:
    """Returns the attention weights for each text.

        [seen] = attention(bert, ["The cat sat."])
        seen.weights[2, 5, 1]                       # layer 2, head 5: what the first token after [CLS] attends to

    Args:
        model, texts, pairs, masks: as in `encode_texts`: a model from `bert_tf.load`, or its path, and texts or pairs
            of them.

    Returns:
        One `Attention` per text or pair.

    Raises:
        ValueError: `texts` are not texts, or one is longer than the model's positions.
    """
    encoder, rows = encode_texts(model, texts, pairs, masks)
    return [attention_of(encoder, row) for row in rows]


def attention_of(encoder: Any, row: EncodedText) -> Attention:
    """Returns the attention weights of a row that `encode_texts` returned for this encoder."""
    outputs = encoder(row.features, training=False, return_attention_probs=True)
    return Attention(**vars(row), **_stack_weights(encoder.config, outputs))


def neurons(model: Any, texts: Texts, pairs: Sequence[str] | None = None, masks: bool = False) -> list[Neurons]:
    """Returns attention weights with their queries and keys; arguments and errors as in `attention`."""
    encoder, rows = encode_texts(model, texts, pairs, masks)
    found = []
    for row in rows:
        outputs = encoder(row.features, training=False, return_attention_probs=True)
        layers = range(1, encoder.config.num_hidden_layers + 1)
        both = [attention_inputs(encoder, outputs, layer)[:2] for layer in layers]
        query, key = (_split_heads(encoder.config, [each[k] for each in both]) for k in (0, 1))
        views = [view for _, view in layer_views(encoder.config, row.features["input_mask"])]
        for n, view in enumerate(views):
            if view.turn:
                query[n], key[n] = (rotate(each[n : n + 1], *view.turn)[0] for each in (query, key))
        positions = _position_terms(encoder, query, key, views)
        weights = _stack_weights(encoder.config, outputs)
        found.append(Neurons(**vars(row), **weights, query=query, key=key, positions=positions))
    return found


def _position_terms(encoder, query, key, views):
    """Returns the `positions` of `Neurons`: the bias, or for each term alone what `position_scores` returns."""
    kept, (*shape, S, _) = kept_heads(encoder.config), query.shape
    if encoder.config.relative_attention_num_buckets:
        bias, root = np.zeros([*shape, S, S], np.float32), np.sqrt(query.shape[-1])
        for n, each in enumerate(encoder.relative.by_layer(encoder.config, S)):
            bias[n, kept[n]] = np.asarray(each, np.float32)[0] * root
        return {_BIAS: bias}
    terms = {kind: np.zeros([*shape, S, S], np.float32) for kind in encoder.config.pos_att_type}
    for n, view in enumerate(views if terms else ()):
        table, attention = encoder.relative.table(), encoder.block_of(n + 1).attention
        position_key, position_query = attention.position_keys_queries(table, view.rows)
        vectors = {"c2p": (position_key, None), "p2c": (None, position_query)}
        for kind, term in terms.items():
            of_layer = (each[n : n + 1, kept[n]] for each in (query, key))
            term[n, kept[n]] = position_scores(*of_layer, *vectors[kind])[0]
    return terms


def kept_heads(config) -> np.ndarray:
    """Returns bool [L, A]: which heads a model has."""
    kept = np.ones([config.num_hidden_layers, config.num_attention_heads], bool)
    for layer, heads in (config.pruned_heads or {}).items():
        kept[layer, list(heads)] = False
    return kept


def check_place(layer: int, head: int, heads: np.ndarray):
    """Raises ValueError if a layer or head does not exist; `heads` as in `Attention`."""
    L, A = heads.shape
    if not (0 <= layer < L and 0 <= head < A):
        raise ValueError(
            f"`layer` must be from 0 to {L - 1}, and `head` from 0 to {A - 1}; got {layer} and {head}."
        )
    if not heads[layer, head]:
        raise ValueError(
            f"`head` must not be pruned: head {head} of layer {layer} was. Choose "
            "another."
        )


def _stack_weights(config, outputs):
    kept, weights = kept_heads(config), None
    for layer, probs in enumerate(outputs["attention_probs"]):
        probs = np.asarray(probs, np.float32)[0]
        weights = np.zeros([*kept.shape, *probs.shape[1:]], np.float32) if weights is None else weights
        weights[layer, kept[layer]] = probs
    return {"weights": weights, "heads": kept}


def _split_heads(config, layers):
    """Returns float32 [L, A, S, D] of L tensors [1, S, heads D]."""
    kept, D = kept_heads(config), config.hidden_size // config.num_attention_heads
    values = np.zeros([*kept.shape, layers[0].shape[1], D], np.float32)
    for layer, each in enumerate(layers):
        each = np.asarray(each, np.float32)[0]
        values[layer, kept[layer]] = each.reshape(len(each), -1, D).transpose(1, 0, 2)
    return values
