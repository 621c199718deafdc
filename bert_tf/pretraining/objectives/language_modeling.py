"""Masked LM, with next sentence or sentence order or alone (Devlin et al. 2018, section 3.1)."""

import keras
import numpy as np
import tensorflow as tf

from bert_tf.data.features import ENCODER_INPUTS, keras_inputs
from bert_tf.evaluation.metrics import majority_share
from bert_tf.models.config import EncoderConfig
from bert_tf.models.pretrainer import Pretrainer
from bert_tf.pretraining.objectives.record_task import RecordTask, without_padding
from bert_tf.utils.names import SENTENCE_OBJECTIVES

_PACKED = ("sentence_ids", "next_sentence_positions")
_PARTS = ("masked_lm", "next_sentence")
_LOGITS = {"masked_lm": "mlm_logits", "next_sentence": "nsp_logits"}
_LABELS = {"masked_lm": "masked_lm_ids", "next_sentence": "next_sentence_labels"}
_BASELINE = "accuracy_majority_baseline"


class PretrainingTask(RecordTask):
    """Masked LM, alone or with next sentence prediction or sentence order; `TrainableTask` documents the methods.

    The two sentence objectives share one head and one feature, `next_sentence_labels`: whether 1 means a random second
    text ("nsp") or swapped texts ("sop", Lan et al. 2019) was decided when the records were created.

    Args:
        config: configuration of the encoder; if it has `is_decoder`, attention is left-to-right, and batches must be
            created by `next_tokens`.
        sentence_objective: "nsp", "sop" or "none".
        packed: whether rows contain several examples each, as created by `pretraining/packing.py`.
        gradient_checkpointing: as in `Encoder`.

    Raises:
        ValueError: the objective is unknown, or combined with left-to-right attention.
    """

    def __init__(
        self,
        config: EncoderConfig,
        sentence_objective: str = "nsp",
        packed: bool = False,
        gradient_checkpointing: bool = False,
    ):
        if sentence_objective not in SENTENCE_OBJECTIVES:
            raise ValueError(
                f"The sentence objective must be one of {SENTENCE_OBJECTIVES}; got {sentence_objective!r}."
            )
        if config.is_decoder and sentence_objective != "none":
            raise ValueError(
                "A causal (left-to-right) model cannot be trained with a sentence objective, because its first token, "
                f'[CLS], does not see the texts; got {sentence_objective!r}; choose "none".'
            )
        if config.classifier_pooling != "cls" and sentence_objective != "none":
            raise ValueError(
                "A sentence objective requires the first token, [CLS], as pooling; got "
                f"{sentence_objective!r} with classifier_pooling={config.classifier_pooling!r} in the configuration; "
                'choose "none", or "cls".'
            )
        self.config = config
        self.next_sentence = self.uses_pooler = sentence_objective != "none"
        self.packed = packed
        self.gradient_checkpointing = gradient_checkpointing
        parts = self._parts = _PARTS[: 1 + self.next_sentence]
        self.loss_weights = {f"{part}_loss": 1.0 for part in parts}
        self.features = (*ENCODER_INPUTS, "masked_lm_positions", *(_PACKED[: len(parts)] if packed else ()))
        self.targets = tuple(_LABELS[part] for part in parts)
        self.head = tuple(f"cls/{head}/.*" for head in ("predictions", "seq_relationship")[: len(parts)])
        google = (*(f"{part}_{name}" for part in parts for name in ("accuracy", "loss")), "loss")
        self.metric_names = (*google, f"{parts[0]}_perplexity", *(f"{part}_{_BASELINE}" for part in parts))

    def build_model(self) -> keras.Model:
        inputs = keras_inputs(self.features)
        model = Pretrainer(self.config, self.next_sentence, self.gradient_checkpointing)
        return keras.Model(inputs, model(inputs), name="pretraining")

    def loss_normalizers(self, batch):
        return {f"{part}_weights": tf.reduce_sum(_weights(part, batch)) for part in self._parts}

    def loss_parts(self, outputs, batch, denominators):
        """Returns the means over the predictions and over the sentences, or 0 if there are none."""
        sums = self.reduce_outputs(outputs, batch)  # the graph omits unused outputs
        return {
            f"{part}_loss": tf.math.divide_no_nan(tf.reduce_sum(sums[f"{part}_loss"]), denominators[f"{part}_weights"])
            for part in self._parts
        }

    def reduce_outputs(self, outputs, batch):
        """Returns the sums per row that `metrics` divides.

        Args:
            outputs: outputs of the model.
            batch: with `masked_lm_ids`, `masked_lm_weights`; with a sentence objective, `next_sentence_labels`; for
                packed rows, `next_sentence_weights`. Rows whose `is_real_example` is 0 are ignored.

        Returns:
            By name: masked_lm_loss, masked_lm_correct, masked_lm_weights, float32 [B], and masked_lm_labels, int32
            [B, M]: 1 + the label, or 0 if its weight is 0; and the same for next_sentence.
        """
        sums = {}
        for part in self._parts:
            logits, labels = outputs[_LOGITS[part]], batch[_LABELS[part]]
            sums |= _sums(part, logits, labels, _weights(part, batch))
        return sums

    def metrics(self, outputs, rows=None):
        """Computes google-research/bert's metrics except `global_step`, and further ones, from the collected outputs.

        `loss` is the sum of the two means. Means over nothing are NaN. `masked_lm_perplexity` is the exponential of the
        loss, and `..._accuracy_majority_baseline` the accuracy of always predicting the most frequent label of these
        rows.
        """
        scores, ours = {}, {}
        for part in self._parts:
            loss, correct, weights = (
                float(np.sum(outputs[f"{part}_{name}"], dtype=np.float64)) for name in ("loss", "correct", "weights")
            )
            weights = weights or float("nan")
            scores |= {f"{part}_accuracy": correct / weights, f"{part}_loss": loss / weights}
            ours[f"{part}_{_BASELINE}"] = majority_share(outputs[f"{part}_labels"])
        scores["loss"] = sum(scores[f"{part}_loss"] for part in self._parts)
        predictions = self._parts[0]
        perplexity = {f"{predictions}_perplexity": float(np.exp(scores[f"{predictions}_loss"]))}
        return scores | perplexity | ours


def _weights(part, batch):
    """Returns the weights of predictions, float32 [B, M] or [B, K]."""
    weights = batch.get(f"{part}_weights")
    if weights is None:  # rows that are not packed have one example each
        weights = tf.ones(tf.shape(batch["next_sentence_labels"]))
    return without_padding(weights, batch)


def _sums(part, logits, labels, weights):
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    right = tf.cast(tf.argmax(logits, -1, output_type=tf.int32) == labels, tf.float32)
    values = {"loss": losses * weights, "correct": right * weights, "weights": weights}
    sums = {f"{part}_{name}": tf.reduce_sum(value, axis=1) for name, value in values.items()}
    return sums | {f"{part}_labels": tf.where(weights > 0, labels + 1, 0)}
