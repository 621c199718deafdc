"""Predictions of a masked-LM head at each position from each layer (the logit lens, nostalgebraist 2020)."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.checkpoints.names.rows import MASKED_LM_HEAD
from bert_tf.interpret.encoded_text import EncodedText, Texts, encode_texts, load_if_path, name_of_model, parts_of
from bert_tf.interpret.hidden_states import states
from bert_tf.interpret.loaded_heads import build_head
from bert_tf.models.pretraining_heads import MaskedLMHead


@dataclasses.dataclass(frozen=True, eq=False)
class LogitLens(EncodedText):
    """A text and the most likely tokens at each position, before the first of L layers and after each.

    Attributes:
        top_ids: int32 [L + 1, S, k], the most likely tokens first; [0] is from the input of the first layer. -1 if the
            model has no prediction: at the first position of a causal model.
        top_tokens: the tokens as text, str [L + 1, S, k], in readable form; "" for -1.
        probabilities: float32 [L + 1, S, k], their probabilities in the whole vocabulary.
        own_probabilities: float32 [L + 1, S], that of the token at the position.
    """

    top_ids: np.ndarray
    top_tokens: np.ndarray
    probabilities: np.ndarray
    own_probabilities: np.ndarray


def logit_lens(
    model: Any, texts: Texts, top_k: int = 5, pairs: Sequence[str] | None = None, masks: bool = True
) -> list[LogitLens]:
    """Returns the masked-LM predictions at each position of each text, layer by layer (logit lens).

        [said] = logit_lens(bert, ["The cat [MASK] on the mat."])
        said.top_tokens[-1, 3], said.probabilities[-1, 3]           # what the model predicts
        said.top_tokens[:, 3, 0]                                    # how it got there, layer by layer

    The whole head is applied to each layer as if it were the last: linear map, activation, LayerNorm and the word
    table. For a model with `norm_first`, the final norm comes first, as it does after the last layer. A
    causal model predicts the next token at each position; the returned predictions are at the position of the predicted
    token.

    Args:
        model: a model from `bert_tf.load`, or its path, with such a head.
        texts, pairs, masks: as in `attention`, except that the tokenizer's mask in a text, "[MASK]", becomes the mask
            token.
        top_k: number of tokens, k; all if the vocabulary has fewer.

    Raises:
        ValueError: the model has no such head; top_k is less than 1; as in `attention`.
    """
    if top_k < 1:
        raise ValueError(f"`top_k` must be at least 1; got {top_k}.")
    model = load_if_path(model)
    head = masked_lm_head(model)
    encoder, rows = encode_texts(model, texts, pairs, masks)
    return [_fill_masks(encoder, head, row, parts_of(model)[1], top_k) for row in rows]


def masked_lm_head(model: Any) -> MaskedLMHead:
    """Returns a model's head, with its weights.

    Raises:
        ValueError: it has no masked-LM head, or one that cannot be applied to a layer's output.
    """
    if MASKED_LM_HEAD not in getattr(model, "others", {}):
        raise ValueError(
            f"`model` must have a masked-LM head; {name_of_model(model)} does not have one. Load the model as it was "
            "after pretraining, before fine-tuning."
        )
    if model.config.enhanced_mask_decoder:
        raise ValueError(
            "`model` must have a masked-LM head that reads the output of a layer; that of "
            f"{name_of_model(model)} has a decoder (enhanced_mask_decoder in its configuration). Use `fill-mask`."
        )
    return build_head(MaskedLMHead.of(model.config, dtype=model.encoder.dtype_policy), model)


def _fill_masks(encoder, head, row, tokenizer, top_k):
    tokens = np.array([*tokenizer.written_tokens, ""])  # [-1] is for positions without a prediction
    found = [
        _find_likeliest(head, encoder, each, row, len(tokens) - 1, top_k) for each in _normalize_layers(encoder, row)
    ]
    ids, probabilities, own = (np.stack(each) for each in zip(*found, strict=True))
    return LogitLens(**vars(row), top_ids=ids, top_tokens=tokens[ids], probabilities=probabilities,
                       own_probabilities=own)  # fmt: skip


def _normalize_layers(encoder, row):
    """Yields float32 [S, H] for each layer, normalized as the head expects it from the last layer."""
    values = states(encoder, row)
    for n, each in enumerate(values):
        is_raw = encoder.config.norm_first and n < len(values) - 1
        yield np.asarray(encoder.norm(each), np.float32) if is_raw else each


def _find_likeliest(head, encoder, values, row, vocab_size, top_k):
    """Returns ids and probabilities [S, k] of the most likely tokens, and probabilities [S] of the actual ones."""
    shift = int(encoder.config.is_decoder)
    positions = tf.range(len(row) - shift)[tf.newaxis]
    table = tf.cast(encoder.embeddings.word_embeddings, head.compute_dtype)
    values = tf.cast(values[np.newaxis], head.compute_dtype)
    shares = tf.nn.softmax(head(values, table, positions))[0, :, :vocab_size]
    probabilities, ids = (each.numpy() for each in tf.math.top_k(shares, min(top_k, vocab_size)))
    own = shares.numpy()[np.arange(len(row) - shift), row.ids[shift:]]
    front = [(shift, 0), (0, 0)]
    return (
        np.pad(ids, front, constant_values=-1), np.pad(probabilities, front), np.pad(own, front[:1])
    )  # fmt: skip
