"""What a student can learn from a teacher on texts without labels: one row of `COMPARISONS` each.

    soft_targets      what stands at the masked places       Sanh et al. 2019 (DistilBERT)
    hidden            the last layer's states                Sanh et al. 2019
    attention         where each token looks                 Wang et al. 2020 (MiniLM)
    ..._relations     which tokens are like which            Wang et al. 2021 (MiniLMv2)
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from bert_tf.models.attention import attention_bias
from bert_tf.tasks.soft_targets import divergence


@dataclasses.dataclass(frozen=True)
class Numbers:
    """What comparisons are told.

    Attributes:
        temperature: of soft targets.
        attention_heads: of the layers that are compared, where their attention is.
        relation_heads: into how many parts queries, keys and values are cut to be compared among themselves.
    """

    temperature: float
    attention_heads: int
    relation_heads: int


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One way to compare a student with a teacher.

    Attributes:
        shown: the outputs of a `DistillationModel` that it compares.
        weights: of what its mean is: "masked_lm_weights", of predictions, or "tokens".
        losses: from the student's outputs, the teacher's, the batch and the `Numbers` to float32 [B, M] or [B, S].
    """

    shown: tuple[str, ...]
    weights: str
    losses: Callable


def _soft_targets(own, taught, batch, numbers):
    logits, of_teacher = own["mlm_logits"], taught["mlm_logits"]
    pieces = min(logits.shape[-1], of_teacher.shape[-1])  # tables may be filled up with rows that no piece has
    return divergence(logits[..., :pieces], of_teacher[..., :pieces], numbers.temperature)


def _hidden(own, taught, batch, numbers):
    """1 less the cosine of the angle between the two states."""
    one, other = (tf.math.l2_normalize(tf.cast(each["hidden"], tf.float32), -1) for each in (own, taught))
    return 1 - tf.reduce_sum(one * other, -1)


def _attention(own, taught, batch, numbers):
    return _relation("queries", "keys", own, taught, batch, numbers.attention_heads)


def _among_themselves(name):
    def losses(own, taught, batch, numbers):
        return _relation(name, name, own, taught, batch, numbers.relation_heads)

    return losses


def _relation(rows, columns, own, taught, batch, heads):
    """Returns float32 [B, S]: how far each token's distribution over all tokens is from the teacher's, over the heads.

    Before dropout; nothing is related to padding or to a neighbour in a packed row.
    """
    bias = attention_bias(batch["input_mask"], batch.get("sentence_ids"))
    logits, of_teacher = (_scores(each[rows], each[columns], heads) + bias for each in (own, taught))
    return tf.reduce_mean(divergence(logits, of_teacher), 1)


def _scores(rows, columns, heads):
    """Returns float32 [B, heads, S, S] of what is float [B, S, heads D]."""
    D = rows.shape[-1] // heads

    def cut(x):
        return tf.transpose(tf.reshape(x, [tf.shape(x)[0], tf.shape(x)[1], heads, D]), [0, 2, 1, 3])

    return tf.cast(tf.matmul(cut(rows), cut(columns), transpose_b=True), tf.float32) * D**-0.5


COMPARISONS = {
    "soft_targets": Comparison(("mlm_logits",), "masked_lm_weights", _soft_targets),
    "hidden": Comparison(("hidden",), "tokens", _hidden),
    "attention": Comparison(("queries", "keys"), "tokens", _attention),
    "query_relations": Comparison(("queries",), "tokens", _among_themselves("queries")),
    "key_relations": Comparison(("keys",), "tokens", _among_themselves("keys")),
    "value_relations": Comparison(("values",), "tokens", _among_themselves("values")),
}
RELATIONS = ("query_relations", "key_relations", "value_relations")
OF_A_LAYER = ("attention", *RELATIONS)
MASKED_LM = "masked_lm"  # the one loss that compares with the text, and not with the teacher


def shown_by(losses) -> tuple[str, ...]:
    """Returns the outputs of a `DistillationModel` that losses, by their names, need."""
    needed = [name for loss in losses if loss in COMPARISONS for name in COMPARISONS[loss].shown]
    return tuple(dict.fromkeys(needed + ["mlm_logits"] * (MASKED_LM in losses)))


def predicts_masked(losses) -> bool:
    """Says whether one of these losses is of masked places."""
    return "mlm_logits" in shown_by(losses)


def matrices_of(losses, attention_heads: int, relation_heads: int) -> int:
    """Returns how many matrices of all tokens by all tokens these losses compare in a row, on each of the two sides."""
    return ("attention" in losses) * attention_heads + len(set(RELATIONS) & set(losses)) * relation_heads


def losses_of(texts) -> dict[str, float]:
    """Returns {loss: its weight} of texts such as "hidden:0.5"; a name alone weighs 1.

    Raises:
        ValueError: there is no such loss, it comes twice, its weight is no number over 0, or none is the teacher's.
    """
    known, weights = (*COMPARISONS, MASKED_LM), {}
    for text in texts:
        name, colon, weight = text.partition(":")
        number = _number(weight if colon else "1")
        if name not in known or name in weights or not 0 < number < float("inf"):
            raise ValueError(
                f"`distillation_losses` must be names with commas between them, each once, of {', '.join(known)}; "
                f"after a colon a weight over 0. Received {text!r} in {','.join(texts)}; correct it."
            )
        weights[name] = number
    if not set(weights) - {MASKED_LM}:
        raise ValueError(
            f"`distillation_losses` must name what is learned from the teacher. Received {','.join(texts)!r}; add one "
            f"of {', '.join(COMPARISONS)}."
        )
    return weights


def _number(text):
    try:
        return float(text)
    except ValueError:
        return 0.0
