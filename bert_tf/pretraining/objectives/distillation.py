"""Distillation on records: a student learns a teacher's outputs on the same texts, with or without masked LM."""

from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf

from bert_tf.data.features import ENCODER_INPUTS, keras_inputs
from bert_tf.models.config import EncoderConfig
from bert_tf.models.distillation_model import DistillationModel
from bert_tf.pretraining.objectives.distillation_losses import (
    COMPARISONS,
    MASKED_LM,
    RELATIONS,
    DistillationInputs,
    predicts_masked,
    required_outputs,
)
from bert_tf.pretraining.objectives.language_modeling import PretrainingTask
from bert_tf.pretraining.objectives.record_task import RecordTask, unmasked_ids, without_padding


class DistillationTask(RecordTask):
    """Trains a student to reproduce a frozen teacher's outputs; see `tasks/trainable_task.py` for the methods.

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
        gradient_checkpointing: as in `Encoder`.

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
        gradient_checkpointing: bool = False,
    ):
        self.config = config
        self.losses = dict(losses)
        self.loss_weights = {f"{name}_loss": weight for name, weight in losses.items()}
        self.gradient_checkpointing = gradient_checkpointing
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
                f"{theirs}; got {heads}; choose a common divisor."
            )

    def build_model(self) -> keras.Model:
        inputs, width = keras_inputs(self.features), self._teacher.config.hidden_size
        maps = "hidden" in self.losses and width != self.config.hidden_size
        model = DistillationModel(
            self.config,
            required_outputs(self.losses),
            width=width if maps else None,
            gradient_checkpointing=self.gradient_checkpointing,
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
