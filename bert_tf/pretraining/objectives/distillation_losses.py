"""What a student can learn from a teacher on unlabeled text: each corresponds to `COMPARISONS`.

    soft_targets      predictions at masked positions      Sanh et al. 2019 (DistilBERT)
    hidden            the last layer's hidden states       Sanh et al. 2019
    attention         attention distributions              Wang et al. 2020 (MiniLM)
    ..._relations     similarities between tokens          Wang et al. 2021 (MiniLMv2)
"""

import dataclasses
from collections.abc import Callable, Mapping

import tensorflow as tf

from bert_tf.models.attention import attention_bias
from bert_tf.tasks.divergences import divergence


@dataclasses.dataclass(frozen=True)
class DistillationInputs:
    """The parameters of distillation losses.

    Attributes:
        temperature: temperature of soft targets.
        attention_heads: number of attention heads of the compared layers, if their attention is.
        relation_heads: number of heads that queries, keys and values are split into to compute relations.
    """

    temperature: float
    attention_heads: int
    relation_heads: int


@dataclasses.dataclass(frozen=True)
class DistillationLoss:
    """A loss that compares a student with a teacher.

    Attributes:
        shown: the outputs of a `DistillationModel` that it compares.
        weights: weights of its mean: "masked_lm_weights", over predictions, or "tokens".
        losses: maps the student's outputs, the teacher's, the batch and the `DistillationInputs` to float32 [B, M] or
            [B, S].
    """

    shown: tuple[str, ...]
    weights: str
    losses: Callable


def _soft_targets(student, teacher, batch, numbers):
    logits, targets = student["mlm_logits"], teacher["mlm_logits"]
    tokens = min(logits.shape[-1], targets.shape[-1])  # embedding tables may be padded with unused rows
    return divergence(logits[..., :tokens], targets[..., :tokens], numbers.temperature)


def _hidden(student, teacher, batch, numbers):
    """Returns 1 - the cosine similarity of the two states."""
    one, other = (tf.math.l2_normalize(tf.cast(each["hidden"], tf.float32), -1) for each in (student, teacher))
    return 1 - tf.reduce_sum(one * other, -1)


def _attention(student, teacher, batch, numbers):
    return _relation("queries", "keys", student, teacher, batch, numbers.attention_heads)


def _self_relation(name):
    def losses(student, teacher, batch, numbers):
        return _relation(name, name, student, teacher, batch, numbers.relation_heads)

    return losses


def _relation(rows, columns, student, teacher, batch, heads):
    """Returns each token's divergence from the teacher's distribution over tokens, averaged over heads, float32 [B, S].

    It is computed before dropout, and without padding and other examples of a packed row.
    """
    bias = attention_bias(batch["input_mask"], batch.get("sentence_ids"))
    logits, targets = (_scores(each[rows], each[columns], heads) + bias for each in (student, teacher))
    return tf.reduce_mean(divergence(logits, targets), 1)


def _scores(rows, columns, heads):
    """Returns scaled dot products per head, float32 [B, heads, S, S], of two float [B, S, heads D]."""
    D = rows.shape[-1] // heads

    def cut(x):
        return tf.transpose(tf.reshape(x, [tf.shape(x)[0], tf.shape(x)[1], heads, D]), [0, 2, 1, 3])

    rows, columns, scale = cut(rows), cut(columns), D**-0.5
    if rows.dtype == tf.float16:  # products would exceed its range
        rows, scale = rows * tf.cast(scale, rows.dtype), 1.0
    return tf.cast(tf.matmul(rows, columns, transpose_b=True), tf.float32) * scale


COMPARISONS = {
    "soft_targets": DistillationLoss(("mlm_logits",), "masked_lm_weights", _soft_targets),
    "hidden": DistillationLoss(("hidden",), "tokens", _hidden),
    "attention": DistillationLoss(("queries", "keys"), "tokens", _attention),
    "query_relations": DistillationLoss(("queries",), "tokens", _self_relation("queries")),
    "key_relations": DistillationLoss(("keys",), "tokens", _self_relation("keys")),
    "value_relations": DistillationLoss(("values",), "tokens", _self_relation("values")),
}
RELATIONS = ("query_relations", "key_relations", "value_relations")
OF_A_LAYER = ("attention", *RELATIONS)
MASKED_LM = "masked_lm"  # the only loss that compares with the text rather than with the teacher


def required_outputs(losses) -> tuple[str, ...]:
    """Returns the outputs of a `DistillationModel` that the named losses require."""
    needed = [name for loss in losses if loss in COMPARISONS for name in COMPARISONS[loss].shown]
    return tuple(dict.fromkeys(needed + ["mlm_logits"] * (MASKED_LM in losses)))


def predicts_masked(losses) -> bool:
    """Returns True if one of these losses is computed at masked positions."""
    return "mlm_logits" in required_outputs(losses)


def count_relation_matrices(losses, attention_heads: int, relation_heads: int) -> int:
    """Returns the number of [S, S] matrices per row and model that these losses compare."""
    return ("attention" in losses) * attention_heads + len(set(RELATIONS) & set(losses)) * relation_heads


def parse_losses(texts) -> dict[str, float]:
    """Parses texts such as "hidden:0.5" to {loss: weight}; the weight of a name alone is 1.

    Raises:
        ValueError: a loss is unknown or given twice, a weight is not a number above 0, or no loss uses the teacher.
    """
    known, weights = (*COMPARISONS, MASKED_LM), {}
    for text in texts:
        name, colon, weight = text.partition(":")
        number = _number(weight if colon else "1")
        if name not in known or name in weights or not 0 < number < float("inf"):
            raise ValueError(
                f"`distillation_losses` must be comma-separated distinct names of {', '.join(known)}, each optionally "
                f"with a colon and a weight above 0; got {text!r} in {','.join(texts)}."
            )
        weights[name] = number
    if not set(weights) - {MASKED_LM}:
        raise ValueError(
            f"`distillation_losses` must include a loss on the teacher's outputs; got {','.join(texts)!r}; add "
            f"one of {', '.join(COMPARISONS)}."
        )
    return weights


def _number(text):
    try:
        return float(text)
    except ValueError:
        return 0.0


@dataclasses.dataclass(frozen=True)
class DistillationOptions:
    """The teacher of a pretraining run, and the losses that compare the student with it.

    Attributes:
        teacher: the teacher's checkpoint, in any format.
        losses: texts such as "hidden:0.5", as parsed by `parse_losses`.
        temperature: temperature of soft targets.
        layer: the teacher's layer whose attention and relations are learned, from 1. If None, the last one.
        relation_heads: number of heads for relations. If None, the number of the teacher's attention heads.

    Raises:
        ValueError: there is no teacher, or the losses are not valid.
    """

    teacher: str
    losses: tuple[str, ...]
    temperature: float = 2.0
    layer: int | None = None
    relation_heads: int | None = None
    weights: Mapping[str, float] = dataclasses.field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "weights", parse_losses(self.losses))
        if not self.teacher:
            raise ValueError(
                "`objective=distillation` requires `teacher`. Add `teacher=DIR`, a checkpoint directory."
            )
