"""Distillation on records: a student learns what a teacher makes of the same texts, with masked LM or without."""

from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf

from bert_tf.data.features import ENCODER_INPUTS, keras_inputs
from bert_tf.models.config import EncoderConfig
from bert_tf.models.distillation import DistillationModel
from bert_tf.pretraining.objectives.comparisons import (
    COMPARISONS,
    MASKED_LM,
    RELATIONS,
    Numbers,
    predicts_masked,
    shown_by,
)
from bert_tf.pretraining.objectives.task import PretrainingTask
from bert_tf.pretraining.objectives.unmasking import unmasked_ids
from bert_tf.tasks.protocols import Trainable


class DistillationTask(Trainable):
    """A student of a frozen teacher; see `tasks/task.py` for what the methods mean.

    The teacher is asked in the graph of the step. Its variables are not the model's, and neither trained nor saved.

    Args:
        config: of the student's encoder.
        teacher: called with a batch it returns the outputs that the losses compare, as `DistillationModel` does; with
            `config`, its encoder's, and `layer`, the one whose queries, keys and values it shows. The student's last
            layer learns them.
        losses: {name: weight}: keys of `COMPARISONS`, and "masked_lm".
        temperature: of soft targets.
        relation_heads: of relations; None: as many as the teacher's layer has attention heads.
        packed: rows hold several examples each.
        rematerialize: as in `Encoder`.

    Raises:
        ValueError: student and teacher cannot be compared so.
    """

    uses_pooler = False

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
        self.rematerialize = rematerialize
        self._teacher = teacher
        heads = teacher.config.heads_of(teacher.layer - 1)
        self._numbers = Numbers(temperature, heads, relation_heads or heads)
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
        own, theirs = (_heads(config, layer) for config, layer in self._layers())
        if "attention" in self.losses and own[0] != theirs[0]:
            raise ValueError(
                f"The loss attention of `distillation_losses` must have a student with as many attention heads as its "
                f"teacher's layer, {theirs[0]}. Received one with {own[0]}; take {', '.join(RELATIONS)} instead, or "
                "another num_attention_heads."
            )
        heads = self._numbers.relation_heads
        if set(RELATIONS) & set(self.losses) and (own[1] % heads or theirs[1] % heads):
            raise ValueError(
                f"`relation_heads` must divide the width of the student's attention, {own[1]}, and of the teacher's, "
                f"{theirs[1]}. Received: {heads}; choose a common divisor."
            )

    def _layers(self):
        return (self.config, self.config.num_hidden_layers), (self._teacher.config, self._teacher.layer)

    @property
    def loss_weights(self):
        return {f"{name}_loss": weight for name, weight in self.losses.items()}

    def build_model(self) -> keras.Model:
        inputs, width = keras_inputs(self.features), self._teacher.config.hidden_size
        maps = "hidden" in self.losses and width != self.config.hidden_size
        model = DistillationModel(
            self.config, shown_by(self.losses), width=width if maps else None, rematerialize=self.rematerialize
        )
        return keras.Model(inputs, model(inputs), name="distillation")

    def denominators(self, batch):
        masked = self._masked_lm.denominators(batch) if self._masked_lm else {}
        return masked | {"tokens": tf.reduce_sum(_weights("tokens", batch))}

    def loss_parts(self, outputs, batch, denominators):
        """Means over all tokens, or predictions, of the batch; over nothing they count as 0."""
        sums, parts = self._sums(outputs, batch), {}
        if MASKED_LM in self.losses:
            parts |= self._masked_lm.loss_parts(outputs, batch, denominators)
        for name in self._compared:
            total = tf.reduce_sum(sums[f"{name}_loss"])
            parts[f"{name}_loss"] = tf.math.divide_no_nan(total, denominators[COMPARISONS[name].weights])
        return parts

    def example_losses(self, outputs, batch):
        return None

    def collected(self, outputs, batch):
        """Returns what `metrics` divides, summed over each row, float32 [B] by name: `..._loss`, and the weights."""
        masked = self._masked_lm.collected(outputs, batch) if self._masked_lm else {}
        return masked | {"tokens": tf.reduce_sum(_weights("tokens", batch), 1)} | self._sums(outputs, batch)

    def metrics(self, outputs, rows=None):
        """Returns the scores of masked LM, where it is predicted, each loss, and `loss`, their weighted sum."""
        scores = self._masked_lm.metrics(outputs, rows) if self._masked_lm else {}
        for name in self._compared:
            total, weights = (
                float(np.sum(outputs[key], dtype=np.float64)) for key in (f"{name}_loss", COMPARISONS[name].weights)
            )
            scores[f"{name}_loss"] = total / weights if weights else float("nan")
        return scores | {"loss": sum(weight * scores[name] for name, weight in self.loss_weights.items())}

    def _sums(self, outputs, batch):
        taught, sums = self._teacher(batch), {}
        for name in self._compared:
            comparison = COMPARISONS[name]
            losses = comparison.losses(outputs, taught, batch, self._numbers)
            sums[f"{name}_loss"] = tf.reduce_sum(losses * _weights(comparison.weights, batch), 1)
        return sums


def unmasked(batch):
    """Returns the batch with `input_ids` as they were before they were masked."""
    batch = {name: tf.convert_to_tensor(values) for name, values in batch.items()}
    return batch | {"input_ids": unmasked_ids(batch)}


def _weights(name, batch):
    """Returns float32 [B, S] or [B, M]: 1 for what counts."""
    weights = batch["input_mask"] if name == "tokens" else batch[name]
    real = batch.get("is_real_example")
    weights = tf.cast(weights, tf.float32)
    return weights if real is None else weights * real[:, tf.newaxis]


def _heads(config, layer):
    """Returns how many attention heads a layer has, and how wide they are together."""
    heads = config.heads_of(layer - 1)
    return heads, heads * (config.hidden_size // config.num_attention_heads)
