"""Distillation on records: a student learns a teacher's outputs on the same texts, with or without masked LM."""

import dataclasses
from collections.abc import Callable, Mapping

import keras
import numpy as np
import tensorflow as tf

from bert_tf.checkpoints import heads
from bert_tf.checkpoints.loading import Description
from bert_tf.data.features import ENCODER_INPUTS, keras_inputs
from bert_tf.models.attention import attention_bias
from bert_tf.models.config import EncoderConfig
from bert_tf.models.distillation import DistillationModel
from bert_tf.pretraining.objectives.language_modeling import PretrainingTask, RecordTask, unmasked_ids, without_padding
from bert_tf.tasks.distillation import Teacher, open_teacher
from bert_tf.tasks.losses import divergence

# === Comparisons ===
# What a student can learn from a teacher on unlabelled text: each corresponds to `COMPARISONS`.
#
#     soft_targets      predictions at masked positions      Sanh et al. 2019 (DistilBERT)
#     hidden            the last layer's hidden states       Sanh et al. 2019
#     attention         attention distributions              Wang et al. 2020 (MiniLM)
#     ..._relations     similarities between tokens          Wang et al. 2021 (MiniLMv2)


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
                f"with a colon and a weight above 0. Received {text!r} in {','.join(texts)}; correct it."
            )
        weights[name] = number
    if not set(weights) - {MASKED_LM}:
        raise ValueError(
            f"`distillation_losses` must include a loss on the teacher's outputs. Received {','.join(texts)!r}; add "
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


# === Distillation ===


class DistillationTask(RecordTask):
    """Trains a student to reproduce a frozen teacher's outputs; see `tasks/base.py` for the methods.

    The teacher runs in the graph of the step. Its variables are not part of the model, and are not trained or saved.

    Args:
        config: configuration of the student's encoder.
        teacher: a callable that maps a batch to the outputs that the losses compare, such as a `DistillationModel`,
            with
            the attributes `config` (of its encoder) and `layer` (the one whose queries, keys and values it returns).
            The student's last layer learns them.
        losses: {name: weight}; names are keys of `COMPARISONS`, and "masked_lm".
        temperature: temperature of soft targets.
        relation_heads: number of heads for relations. If None, the number of attention heads of the teacher's layer.
        packed: whether rows contain several examples each.
        rematerialize: as in `Encoder`.

    Raises:
        ValueError: the losses cannot compare the student and the teacher.
    """

    def __init__(
        self,
        config: EncoderConfig,
        teacher,
        losses: Mapping[str, float],
        temperature: float = 2.0,
        relation_heads: int | None = None,
        packed: bool = False,
        rematerialize: bool = False,
    ):
        self.config = config
        self.losses = dict(losses)
        self.loss_weights = {f"{name}_loss": weight for name, weight in losses.items()}
        self.rematerialize = rematerialize
        self._teacher = teacher
        heads = teacher.config.heads_of(teacher.layer - 1)
        self._numbers = DistillationInputs(temperature, heads, relation_heads or heads)
        self._check_heads()
        texts = (*ENCODER_INPUTS, *(("sentence_ids",) if packed else ()))
        self._masked_lm = PretrainingTask(config, "none", packed) if predicts_masked(losses) else None
        self.features = self._masked_lm.features if self._masked_lm else texts
        self.targets = self._masked_lm.targets if self._masked_lm else ()
        self.head = (*(self._masked_lm.head if self._masked_lm else ()), "cls/distillation/.*")
        self._compared = [name for name in self.losses if name != MASKED_LM]
        masked = [name for name in self._masked_lm.metric_names if name != "loss"] if self._masked_lm else []
        self.metric_names = (*masked, *(f"{name}_loss" for name in self._compared), "loss")

    def _check_heads(self):
        student = self.config.heads_of(self.config.num_hidden_layers - 1)
        teacher, heads = self._numbers.attention_heads, self._numbers.relation_heads
        if "attention" in self.losses and student != teacher:
            raise ValueError(
                "The loss attention of `distillation_losses` requires a student with as many attention heads as the "
                f"teacher's layer, {teacher}. The student has {student}; use {', '.join(RELATIONS)} instead, or "
                "another num_attention_heads."
            )
        own, theirs = (
            number * (config.hidden_size // config.num_attention_heads)
            for number, config in ((student, self.config), (teacher, self._teacher.config))
        )
        if set(RELATIONS) & set(self.losses) and (own % heads or theirs % heads):
            raise ValueError(
                f"`relation_heads` must divide the width of the student's attention, {own}, and of the teacher's, "
                f"{theirs}. Received: {heads}; choose a common divisor."
            )

    def build_model(self) -> keras.Model:
        inputs, width = keras_inputs(self.features), self._teacher.config.hidden_size
        maps = "hidden" in self.losses and width != self.config.hidden_size
        model = DistillationModel(
            self.config, required_outputs(self.losses), width=width if maps else None, rematerialize=self.rematerialize
        )
        return keras.Model(inputs, model(inputs), name="distillation")

    def loss_normalizers(self, batch):
        masked = self._masked_lm.loss_normalizers(batch) if self._masked_lm else {}
        return masked | {"tokens": tf.reduce_sum(_weights("tokens", batch))}

    def loss_parts(self, outputs, batch, denominators):
        """Returns the means over all tokens or predictions of the batch, or 0 if there are none."""
        sums, parts = self._sums(outputs, batch), {}
        if MASKED_LM in self.losses:
            parts |= self._masked_lm.loss_parts(outputs, batch, denominators)
        for name in self._compared:
            total = tf.reduce_sum(sums[f"{name}_loss"])
            parts[f"{name}_loss"] = tf.math.divide_no_nan(total, denominators[COMPARISONS[name].weights])
        return parts

    def reduce_outputs(self, outputs, batch):
        """Returns the sums per row for `metrics`, float32 [B] by name: `..._loss`, and the weights."""
        masked = self._masked_lm.reduce_outputs(outputs, batch) if self._masked_lm else {}
        return masked | {"tokens": tf.reduce_sum(_weights("tokens", batch), 1)} | self._sums(outputs, batch)

    def metrics(self, outputs, rows=None):
        """Computes the metrics of masked LM, if it is predicted, each loss, and `loss`, their weighted sum."""
        scores = self._masked_lm.metrics(outputs, rows) if self._masked_lm else {}
        for name in self._compared:
            total, weights = (
                float(np.sum(outputs[key], dtype=np.float64)) for key in (f"{name}_loss", COMPARISONS[name].weights)
            )
            scores[f"{name}_loss"] = total / weights if weights else float("nan")
        return scores | {"loss": sum(weight * scores[name] for name, weight in self.loss_weights.items())}

    def _sums(self, outputs, batch):
        targets, sums = self._teacher(batch), {}
        for name in self._compared:
            comparison = COMPARISONS[name]
            losses = comparison.losses(outputs, targets, batch, self._numbers)
            sums[f"{name}_loss"] = tf.reduce_sum(losses * _weights(comparison.weights, batch), 1)
        return sums


def unmask_batch(batch):
    """Returns the batch with the original `input_ids`, before masking."""
    batch = {name: tf.convert_to_tensor(values) for name, values in batch.items()}
    return batch | {"input_ids": unmasked_ids(batch)}


def _weights(name, batch):
    """Returns the weights of a loss, float32 [B, S] or [B, M]."""
    return without_padding(batch["input_mask"] if name == "tokens" else batch[name], batch)


# === Teacher ===
# The teacher for distillation on records: an encoder, and for some losses its masked LM head.


_HEAD = "cls/predictions/.*"
_PART_OF_HEAD = "cls/predictions/output_bias"


def load_encoder_teacher(options: DistillationOptions, student: Description, longest: int) -> Teacher:
    """Loads the teacher, with the outputs that the losses compare.

    Must be called in the scope of the distribution strategy.

    Args:
        options: the teacher and the losses.
        student: description of the student, without weights.
        longest: maximum row length, in tokens.

    Raises:
        ValueError: this teacher cannot be used for this student.
    """
    checkpoint, described = open_teacher(options.teacher, student, longest)
    config, shown = described.config, required_outputs([name for name in options.weights if name in COMPARISONS])
    if config.is_decoder:
        raise ValueError(
            "`teacher` must be bidirectional, like its student. "
            f"{options.teacher} is a causal (left-to-right) model; use another."
        )
    if "mlm_logits" in shown and _PART_OF_HEAD not in checkpoint.names:
        others = [name for name in COMPARISONS if "mlm_logits" not in COMPARISONS[name].shown]
        raise ValueError(
            f"The loss soft_targets requires a `teacher` with a masked-LM head, but {options.teacher} has none. "
            f"Use `distillation_losses` of {', '.join(others)}."
        )
    layer = options.layer or config.num_hidden_layers
    if layer > config.num_hidden_layers:
        raise ValueError(
            f"`teacher_layer` must be one of the teacher's layers, 1 to {config.num_hidden_layers}. Received: {layer}."
        )
    model = DistillationModel(config, shown, layer, trainable=False)
    excuse = (*heads.others((_HEAD,) if "mlm_logits" in shown else ()), heads.POOLER)
    features = (*ENCODER_INPUTS, "sentence_ids", "masked_lm_positions")
    return Teacher(checkpoint, config, model, excuse, features, layer)
