"""Replaced-token detection (ELECTRA, Clark et al. 2020): detects the tokens that a small network replaced."""

import keras
import numpy as np
import tensorflow as tf

from bert_tf.data.features import keras_inputs
from bert_tf.models.config import EncoderConfig
from bert_tf.models.replaced_tokens import ReplacedTokenPretrainer
from bert_tf.pretraining.objectives.language_modeling import PretrainingTask
from bert_tf.pretraining.objectives.record_task import RecordTask, unmasked_ids, without_padding

DISCRIMINATOR_WEIGHT = 50.0  # weight of its loss, relative to 1 for the generator's (section 3.1 of the paper)

_SAMPLING = 0x5EED  # separates these random numbers from others of the same run


class ReplacedTokensTask(RecordTask):
    """Trains a generator that fills in masked tokens, and a discriminator that detects them.

    `TrainableTask` documents the methods.

    The loss is the generator's masked LM loss, a mean over the predictions, plus 50 times the discriminator's loss, a
    mean over all tokens, including [CLS] and [SEP]. A token that the generator predicts correctly is not replaced.

    Args:
        config: configuration of the discriminator, whose pooler is omitted, since nothing would train it.
        generator: configuration of the generator, created by `make_generator_config`.
        packed: whether rows contain several examples each.
        gradient_checkpointing: as in `Encoder`.
    """

    head = ("cls/replaced_tokens/.*", "generator/.*")

    def __init__(
        self,
        config: EncoderConfig,
        generator: EncoderConfig,
        packed: bool = False,
        gradient_checkpointing: bool = False,
    ):
        self.generator = generator
        self.gradient_checkpointing = gradient_checkpointing
        self.config = config
        masked_lm = self._masked_lm = PretrainingTask(config, "none", packed)
        self.features = (*masked_lm.features, "masked_lm_weights", "unmasked_ids", "sampling_draws")
        self.targets = masked_lm.targets
        self.loss_weights = {**masked_lm.loss_weights, "replaced_loss": DISCRIMINATOR_WEIGHT}
        of_generator = (name for name in masked_lm.metric_names if name != "loss")
        own = ("accuracy", "accuracy_majority_baseline", "loss", "precision", "recall", "share")
        self.metric_names = (*of_generator, *(f"replaced_{name}" for name in own), "loss")

    def build_model(self) -> keras.Model:
        inputs = keras_inputs(self.features)
        model = ReplacedTokenPretrainer(self.config, self.generator, self.gradient_checkpointing)
        return keras.Model(inputs, model(inputs), name="replaced_tokens")

    def loss_normalizers(self, batch):
        tokens = tf.reduce_sum(without_padding(batch["input_mask"], batch))
        return {**self._masked_lm.loss_normalizers(batch), "replaced_weights": tokens}

    def loss_parts(self, outputs, batch, denominators):
        sums = tf.reduce_sum(_sums(outputs, batch)["replaced_loss"])
        parts = self._masked_lm.loss_parts(outputs, batch, denominators)
        return {**parts, "replaced_loss": tf.math.divide_no_nan(sums, denominators["replaced_weights"])}

    def reduce_outputs(self, outputs, batch):
        """Returns the sums per row that `metrics` divides.

        Args:
            outputs: outputs of the model.
            batch: with `input_mask` and the features that `PretrainingTask.reduce_outputs` requires.

        Returns:
            The same sums for the generator, and float32 [B] by name: replaced_loss; replaced_correct, correctly
            classified tokens; replaced_weights, all tokens; replaced_tokens, replaced tokens; replaced_predicted,
            tokens predicted to be replaced; replaced_found, the tokens in both.
        """
        return {**self._masked_lm.reduce_outputs(outputs, batch), **_sums(outputs, batch)}

    def metrics(self, outputs, rows=None):
        """Computes the metrics of both networks from the collected outputs, and `loss`, the training loss.

        `replaced_share` is the fraction of replaced tokens, and `replaced_accuracy_majority_baseline` the accuracy of
        always predicting the more frequent class. Precision and recall are 0 if nothing was predicted or replaced.
        """
        kept = {name: values for name, values in outputs.items() if name.startswith("masked_lm_")}
        scores = dict(self._masked_lm.metrics(kept, rows))
        del scores["loss"]  # the generator's loss only
        sums = {name: float(np.sum(outputs[name], dtype=np.float64)) for name in outputs.keys() - kept.keys()}
        weights = sums["replaced_weights"] or float("nan")
        share = sums["replaced_tokens"] / weights
        scores |= {
            "replaced_accuracy": sums["replaced_correct"] / weights,
            "replaced_accuracy_majority_baseline": max(share, 1 - share),
            "replaced_loss": sums["replaced_loss"] / weights,
            "replaced_precision": sums["replaced_found"] / max(sums["replaced_predicted"], 1),
            "replaced_recall": sums["replaced_found"] / max(sums["replaced_tokens"], 1),
            "replaced_share": share,
        }
        return scores | {"loss": sum(weight * scores[name] for name, weight in self.loss_weights.items())}


def _sums(outputs, batch):
    """Returns the discriminator's sums in `reduce_outputs`."""
    logits, weights = outputs["replaced_logits"], without_padding(batch["input_mask"], batch)
    labels, predicted = outputs["replaced"], tf.cast(logits > 0, tf.float32)
    values = {
        "loss": tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits),
        "correct": tf.cast(tf.equal(predicted, labels), tf.float32),
        "weights": tf.ones_like(weights),
        "tokens": labels,
        "predicted": predicted,
        "found": predicted * labels,
    }
    return {f"replaced_{name}": tf.reduce_sum(value * weights, axis=1) for name, value in values.items()}


def add_unmasked_ids(batch):
    """Returns the batch with the original tokens as `unmasked_ids`, int32 [B, S]."""
    return batch | {"unmasked_ids": unmasked_ids(batch)}


def sampling_draws(batch, seed: int, number: int):
    """Returns {"sampling_draws": float32 [B, M]}, a function of the seed and the number of the batch.

    They are drawn for the whole batch, before it is split over devices and micro-batches, so the samples of a row do
    not depend on their number.
    """
    shape = tf.shape(batch["masked_lm_positions"])
    seeds = tf.constant([seed ^ _SAMPLING, number], tf.int64)
    return {"sampling_draws": tf.random.stateless_uniform(shape, seeds, alg="philox")}
