"""Attributions by integrated gradients on the embeddings: how much each token and word contributes to a prediction."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.interpret.encoded_text import EncodedText, Texts, encode_texts, load_if_path, parts_of
from bert_tf.interpret.integrated_gradients import GAP, Integral, integrated_gradients, integrated_until_small
from bert_tf.interpret.targets import TextHead, head_of

BASELINES = ("pad", "mask")


@dataclasses.dataclass(frozen=True, eq=False)
class Attributions(EncodedText):
    """A text and the attribution of each token to the logit of one prediction.

    Attributes:
        target: the label, the tag, or the answer's text.
        places: (first token, last token) of the target; None for the whole sequence.
        logits: float32, of all alternatives: [labels]; for a tag, those of its token; for a span,
            [S, 2], each token's logits as start and as end.
        probabilities: float64 [labels], as returned by a server, including temperature; for multi-label models,
            each by itself; None for tags, for spans, and if the task is unknown.
        values: float32 [S]; contribution of each token, which may be negative. 0 for special tokens, which the baseline
            keeps.
        word_values: float32 [W], the sums over the tokens of each of `words`.
        score, baseline_score: the target's logit (for a span, the sum of both) for the sequence and for the baseline.
        gap: by completeness, `values` sum to the difference of the two scores; this is the relative
            deviation.
        steps: number of points at which the gradient was computed.
    """

    target: str
    places: tuple[int, int] | None
    logits: np.ndarray
    probabilities: np.ndarray | None
    values: np.ndarray
    word_values: np.ndarray
    score: float
    baseline_score: float
    gap: float
    steps: int


def attributions(
    model: Any,
    texts: Texts,
    target: Any = None,
    steps: int | None = None,
    baseline: str = "pad",
    pairs: Sequence[str] | None = None,
    masks: bool = False,
) -> list[Attributions]:
    """Computes integrated-gradients attributions per token and word (Sundararajan et al. 2017, arXiv 1703.01365).

        [why] = attributions(bert, ["A warm and funny film."])
        why.target, list(zip(why.words, why.word_values))

    The gradient of the prediction's logit is integrated from a baseline to the text, over the embeddings (token,
    segment and position together, after their LayerNorm). The baseline is the same sequence with all tokens except the
    special ones replaced.

    Args:
        model: a model from `bert_tf.load`, or its path, with a head for labels, tags or answers (questions and
            contexts are `texts` and `pairs`, or pairs).
        texts, pairs, masks: as in `attention`.
        target: the prediction to explain; None for the model's own. A label: its name or number. A tag: the index of a
            word in `words`, or (index, tag). An answer: (start, end) in characters of the context. A list of n has one
            per text.
        steps: number of points (Gauss-Legendre). If None, 32, doubled until the gap is at most 1%, up to 512; a warning
            is logged if that is not enough.
        baseline: "pad" or "mask": what replaces each token.

    Returns:
        One `Attributions` per text or pair.

    Raises:
        ValueError: the model has no head for a task; there is no such target or baseline; steps is below 1; as in
            `attention`.
    """
    if steps is not None and steps < 1:
        raise ValueError(f"`steps` must be at least 1; got {steps}; 32 is a good value.")
    model = load_if_path(model)
    head = head_of(model)
    encoder, rows = encode_texts(model, texts, pairs, masks)
    targets = target if isinstance(target, list) else [target] * len(rows)
    if len(targets) != len(rows):
        raise ValueError(
            f"`target` must be one target for all texts, or a list with one for each of {len(rows)}; got a list of "
            f"{len(targets)}."
        )
    instead = _baseline_id(parts_of(model)[1], baseline)
    return [_explain_row(encoder, head, row, wanted, steps, instead) for row, wanted in zip(rows, targets, strict=True)]


def _baseline_id(tokenizer, baseline):
    """Returns the id that replaces each token."""
    ids = dict(zip(BASELINES, (tokenizer.pad_id, tokenizer.mask_id), strict=True))
    if ids.get(baseline) is None:
        there = [name for name, number in ids.items() if number is not None]
        raise ValueError(f"`baseline` must be one of {', '.join(there)}; got {baseline!r}.")
    return ids[baseline]


def _explain_row(encoder, head, row, wanted, steps, instead):
    features = row.features
    target = head.target(encoder(features, training=False), row, wanted)
    ids = np.where(row.of_text >= 0, instead, row.ids)
    found = integrate_row(encoder, head, features, tf.constant(ids[np.newaxis]), tf.constant(target.parts), steps)
    found = Integral(found.values.numpy(), *(each.numpy().item() for each in found[1:]))
    if steps is None and found.gap > GAP:
        logging.warning(
            "The attributions' completeness gap is %.1f%% with %d steps: treat them with care, or increase `steps`.",
            *(100 * found.gap, found.steps),
        )
    values = found.values.sum(-1)
    return Attributions(
        **vars(row), target=target.name, places=target.places, logits=target.logits,
        probabilities=target.probabilities, values=values, word_values=row.of_words(values),
        **{name: getattr(found, name) for name in Integral._fields[1:]},
    )  # fmt: skip


def integrate_row(
    encoder: Any,
    head: TextHead,
    features: Mapping[str, tf.Tensor],
    baseline_ids: tf.Tensor,
    parts: tf.Tensor,
    steps: int | None = None,
) -> Integral:
    """Integrates the gradient of one sequence's score, eagerly or in a graph.

    Args:
        encoder: an `Encoder`.
        head: head of the model.
        features: the encoder's inputs, int32 [1, S] each.
        baseline_ids: int32 [1, S], the tokens of the baseline.
        parts: the logits that add up to the score, as in `ExplainedTargets` for one sequence; may be longer than S.
        steps: number of points; if None, as many as needed (`integrated_until_small`).
    """
    vectors, baseline = (
        tf.cast(encoder.embeddings(ids, features["segment_ids"], training=False), tf.float32)
        for ids in (features["input_ids"], baseline_ids)
    )

    def score(points):
        rows = {name: tf.repeat(values, tf.shape(points)[0], 0) for name, values in features.items()}
        return head.score(encoder(rows, training=False, input_vectors=points), parts)

    if steps is None:
        return integrated_until_small(score, vectors, baseline)
    return integrated_gradients(score, vectors, baseline, steps)
