"""Masked LM, with next sentence or sentence order or alone (Devlin et al. 2018, section 3.1)."""

import keras
import numpy as np
import tensorflow as tf

from bert_tf.data.features import ENCODER_INPUTS, keras_inputs
from bert_tf.evaluation.metrics import share_of_commonest
from bert_tf.models.config import EncoderConfig
from bert_tf.models.pretrainer import Pretrainer
from bert_tf.tasks.protocols import Trainable
from bert_tf.utils.names import SENTENCE_OBJECTIVES

_PACKED = ("sentence_ids", "next_sentence_positions")
_PARTS = ("masked_lm", "next_sentence")
_LOGITS = {"masked_lm": "mlm_logits", "next_sentence": "nsp_logits"}
_LABELS = {"masked_lm": "masked_lm_ids", "next_sentence": "next_sentence_labels"}
_COMMONEST = "accuracy_of_commonest"


class PretrainingTask(Trainable):
    """What run_pretraining trains; see `tasks/task.py` for what the methods mean.

    The two objectives on sentences have one head and one feature, `next_sentence_labels`: what 1 means there, a random
    second text ("nsp") or swapped texts ("sop", Lan et al. 2019), was decided when the records were made.

    Args:
        config: of the encoder; where it says `is_decoder`, attention goes to the left only, and the batches are those
            that `next_tokens` makes.
        sentence_objective: "nsp", "sop" or "none".
        packed: rows hold several examples each, as `pretraining/corpus/packing.py` makes them.
        rematerialize: as in `Encoder`.

    Raises:
        ValueError: there is no such objective, or it is to be learned left to right.
    """

    def __init__(
        self,
        config: EncoderConfig,
        sentence_objective: str = "nsp",
        packed: bool = False,
        rematerialize: bool = False,
    ):
        if sentence_objective not in SENTENCE_OBJECTIVES:
            raise ValueError(
                f"The sentence objective must be one of {SENTENCE_OBJECTIVES}. Received: {sentence_objective!r}."
            )
        if config.is_decoder and sentence_objective != "none":
            raise ValueError(
                "A left-to-right model must be trained without a sentence objective, for its first token, [CLS], sees "
                f'nothing of the texts. Received: {sentence_objective!r}; choose "none".'
            )
        if config.classifier_pooling != "cls" and sentence_objective != "none":
            raise ValueError(
                "A sentence objective must be learned at the first token, [CLS]. Received: "
                f"{sentence_objective!r} with classifier_pooling={config.classifier_pooling!r} in the configuration; "
                'choose "none", or "cls".'
            )
        self.config = config
        self.next_sentence = sentence_objective != "none"
        self.packed = packed
        self.rematerialize = rematerialize
        self._parts = _PARTS[: 1 + self.next_sentence]

    @property
    def features(self):
        packed = _PACKED[: 1 + self.next_sentence] if self.packed else ()
        return (*ENCODER_INPUTS, "masked_lm_positions", *packed)

    @property
    def targets(self):
        return tuple(_LABELS[part] for part in self._parts)

    @property
    def metric_names(self):
        google = (*(f"{part}_{name}" for part in self._parts for name in ("accuracy", "loss")), "loss")
        return (*google, f"{self._parts[0]}_perplexity", *(f"{part}_{_COMMONEST}" for part in self._parts))

    @property
    def head(self):
        return tuple(f"cls/{part}/.*" for part in ("predictions", "seq_relationship")[: 1 + self.next_sentence])

    @property
    def uses_pooler(self):
        return self.next_sentence

    def build_model(self) -> keras.Model:
        inputs = keras_inputs(self.features)
        model = Pretrainer(self.config, self.next_sentence, self.rematerialize)
        return keras.Model(inputs, model(inputs), name="pretraining")

    def denominators(self, batch):
        return {f"{part}_weights": tf.reduce_sum(_weights(part, batch)) for part in self._parts}

    @property
    def loss_weights(self):
        return {f"{part}_loss": 1.0 for part in self._parts}

    def loss_parts(self, outputs, batch, denominators):
        """The mean over the predictions and the mean over the sentences; nothing to predict counts as 0."""
        sums = self.collected(outputs, batch)  # what is not used of it, the graph leaves out
        return {
            f"{part}_loss": tf.math.divide_no_nan(
                tf.reduce_sum(sums[f"{part}_loss"]), denominators[f"{part}_weights"]
            )
            for part in self._parts
        }

    def example_losses(self, outputs, batch):
        return None

    def collected(self, outputs, batch):
        """Returns what `metrics` divides, summed over each row.

        Args:
            outputs: of the model.
            batch: with `masked_lm_ids`, `masked_lm_weights`; unless MLM stands alone, `next_sentence_labels`; for
                packed rows `next_sentence_weights`; rows whose `is_real_example` is 0 count for nothing.

        Returns:
            By name masked_lm_loss, masked_lm_correct, masked_lm_weights, float32 [B], and masked_lm_labels, int32
            [B, M]: 1 + the label, 0 where its weight is 0. And the same of next_sentence.
        """
        sums = {}
        for part in self._parts:
            logits, labels = outputs[_LOGITS[part]], batch[_LABELS[part]]
            sums |= _sums(part, logits, labels, _weights(part, batch))
        return sums

    def metrics(self, outputs, rows=None):
        """Returns google-research/bert's results but `global_step`, and ours, of what `collected` kept of all rows.

        `loss` is the sum of the two means. Means over nothing are NaN. `masked_lm_perplexity` is e to the power of the
        loss, and `..._accuracy_of_commonest` what always giving the commonest label of these rows would get.
        """
        scores, ours = {}, {}
        for part in self._parts:
            loss, correct, weights = (
                float(np.sum(outputs[f"{part}_{name}"], dtype=np.float64)) for name in ("loss", "correct", "weights")
            )
            weights = weights or float("nan")
            scores |= {f"{part}_accuracy": correct / weights, f"{part}_loss": loss / weights}
            ours[f"{part}_{_COMMONEST}"] = share_of_commonest(outputs[f"{part}_labels"])
        scores["loss"] = sum(scores[f"{part}_loss"] for part in self._parts)
        predictions = self._parts[0]
        perplexity = {f"{predictions}_perplexity": float(np.exp(scores[f"{predictions}_loss"]))}
        return scores | perplexity | ours


def _weights(part, batch):
    """Returns float32 [B, M] or [B, K]: 1 for what counts."""
    weights = batch.get(f"{part}_weights")
    if weights is None:  # rows that are not packed have one example each
        weights = tf.ones(tf.shape(batch["next_sentence_labels"]))
    real = batch.get("is_real_example")
    return weights if real is None else weights * real[:, tf.newaxis]


def _sums(part, logits, labels, weights):
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    right = tf.cast(tf.argmax(logits, -1, output_type=tf.int32) == labels, tf.float32)
    values = {"loss": losses * weights, "correct": right * weights, "weights": weights}
    sums = {f"{part}_{name}": tf.reduce_sum(value, axis=1) for name, value in values.items()}
    return sums | {f"{part}_labels": tf.where(weights > 0, labels + 1, 0)}
