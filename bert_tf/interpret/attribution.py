"""Which words a model's answer comes from: integrated gradients on the embeddings, by piece and by word."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.interpret.gradients import GAP, Integral, integrated_gradients, integrated_until_small
from bert_tf.interpret.rows import Row, Texts, parts_of, read
from bert_tf.interpret.targets import Target, head_of

BASELINES = ("pad", "mask")


@dataclasses.dataclass(frozen=True, eq=False)
class Attributions(Row):
    """A row, and what each of its pieces adds to the score of one answer.

    Attributes:
        target: the label, the tag, or the answer's text.
        places: (first piece, last piece) that the target is about; None: the whole row.
        logits: float32, of everything that it could have been: [labels]; for a tag those of its piece; of a span
            [S, 2], how well each piece begins it and ends it.
        probabilities: float64 [labels], what a server answers with, temperature and all, where several labels may hold
            each by itself; None: of tags and spans, and where no task is known that says so.
        values: float32 [S]; what a piece adds, below 0 what it takes away. 0 for special pieces, which the baseline
            keeps.
        word_values: float32 [W], the sums over the pieces of each of `words`.
        score, baseline_score: the target's logit (of a span, the sum of both) for the row, and for the baseline.
        gap: completeness says that `values` sum up to the difference of the two scores; by such a share of the
            difference they do not.
        steps: at so many points the gradient was taken.
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
    """Returns by which pieces and words a model comes to its answers (Sundararajan et al. 2017, arXiv 1703.01365).

        [why] = attributions(bert, ["A warm and funny film."])
        why.target, list(zip(why.words, why.word_values))

    The gradient of the answer's logit is integrated from a baseline to the text, over what the embeddings give (token,
    segment and position together, behind their LayerNorm). The baseline is the same row with every piece but the
    special ones replaced.

    Args:
        model: what `bert_tf.load` gave, with a head for labels, tags or answers (questions and contexts are `texts` and
            `pairs`, or pairs).
        texts, pairs, masks: as of `attention`.
        target: whose score is explained; None: the model's own answer. A label: its name or number. A tag: the place
            of a word in `words`, or (place, tag). An answer: (start, limit) in characters of the context. A list of n
            gives one for each text.
        steps: points at which the gradient is taken (Gauss-Legendre). None: 32, doubled until the gap is at most 1 %,
            512 at most; where that is not enough, the log says so.
        baseline: "pad" or "mask": what stands in place of every piece.

    Returns:
        `Attributions` for each text or pair.

    Raises:
        ValueError: the model has no head for a task; there is no such target or baseline; steps is below 1; as of
            `attention`.
    """
    if steps is not None and steps < 1:
        raise ValueError(f"`steps` must be at least 1. Received: {steps}; 32 is a good number.")
    head = head_of(model)
    encoder, rows = read(model, texts, pairs, masks)
    targets = target if isinstance(target, list) else [target] * len(rows)
    if len(targets) != len(rows):
        raise ValueError(
            f"`target` must be one for all texts, or a list with one for each of {len(rows)}. Received a list of "
            f"{len(targets)}; correct it."
        )
    instead = _instead(parts_of(model)[1], baseline)
    return [_explained(encoder, head, row, wanted, steps, instead) for row, wanted in zip(rows, targets, strict=True)]


def _instead(tokenizer, baseline):
    """Returns the id that stands in place of every piece."""
    ids = dict(zip(BASELINES, (tokenizer.pad_id, tokenizer.mask_id), strict=True))
    if ids.get(baseline) is None:
        there = [name for name, number in ids.items() if number is not None]
        raise ValueError(f"`baseline` must be one of {', '.join(there)}. Received: {baseline!r}; choose one.")
    return ids[baseline]


def _explained(encoder, head, row, wanted, steps, instead):
    features = row.features
    target = head.target(encoder(features, training=False), row, wanted)
    found = _integral(encoder, target, features, np.where(row.of_text >= 0, instead, row.ids), steps)
    values = found.values.sum(-1)
    return Attributions(
        **vars(row), target=target.name, places=target.places, logits=target.logits,
        probabilities=target.probabilities, values=values, word_values=row.of_words(values),
        **{name: getattr(found, name) for name in Integral._fields[1:]},
    )  # fmt: skip


def _integral(encoder, target: Target, features, ids, steps) -> Integral:
    segments = features["segment_ids"]
    vectors, from_vectors = (
        tf.cast(encoder.embeddings(each, segments, training=False), tf.float32)
        for each in (features["input_ids"], tf.constant(ids[np.newaxis]))
    )

    def score(points):
        rows = {name: tf.repeat(values, len(points), 0) for name, values in features.items()}
        return target.score(encoder(rows, training=False, input_vectors=points))

    if steps is None:
        found = integrated_until_small(score, vectors, from_vectors)
    else:
        found = integrated_gradients(score, vectors, from_vectors, steps)
    found = Integral(found.values.numpy(), *(each.numpy().item() for each in found[1:]))
    if steps is None and found.gap > GAP:
        logging.warning(
            "The attributions' completeness gap is %.1f %% with %d steps: take them with care, or give more `steps`.",
            *(100 * found.gap, found.steps),
        )
    return found
