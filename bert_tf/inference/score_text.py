"""The pseudo-log-likelihood of a text for masked LMs, and its log-likelihood for causal LMs."""

import functools
import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.checkpoints.hub_models import resolve_model
from bert_tf.data.features import ENCODER_INPUTS
from bert_tf.export.precision import build_with_weights
from bert_tf.inference.masked_lm import longest_sequence, open_masked_lm, warn_of_unknown
from bert_tf.tasks.fill_mask import FillMaskTask
from bert_tf.utils.text_inputs import text_list

PSEUDO, PLAIN = "pseudo_log_likelihood", "log_likelihood"

_CHUNK = 1024  # texts tokenized and sorted at a time
_TOKENS = 4096  # per batch, including padding
_LOGITS = 2**25  # per batch: 128 MiB
_WIDTHS = 8  # widths are multiples of this


class TextScore(NamedTuple):
    """The score of one text.

    Attributes:
        tokens: tokens of the text as spelled in the vocabulary, without special ones.
        log_probabilities: float32 [P], the natural logarithm of each token's probability, given the others, or those
            before it.
    """

    tokens: list[str]
    log_probabilities: np.ndarray

    @property
    def total(self) -> float:
        """The sum of the logarithms, 0 for a text without tokens."""
        return float(np.sum(self.log_probabilities, dtype=np.float64))

    @property
    def per_token(self) -> float:
        """The mean of the logarithms, 0 for a text without tokens."""
        return self.total / max(1, len(self.tokens))


class TextScorer:
    """Scores texts with a masked LM: pseudo-log-likelihood and pseudo-perplexity.

        scorer = TextScorer("uncased_L-12_H-768_A-12")
        [score.total for score in scorer(["The man went home .", "The man home went ."])]

    Each token of a text is masked in turn to get its log-probability; the sum is the text's pseudo-log-likelihood
    (Salazar et al. 2020, "Masked Language Model Scoring", equation 2). A causal (left-to-right) model reads a text
    once, and the sum is the text's log-likelihood, given [CLS]. Special tokens are not scored.

    Args:
        path: a Hugging Face or bert_tf directory, or a TF1 checkpoint's prefix, with a masked-LM head.
        vocab_file, do_lower_case: if None, as found next to the checkpoint.
        max_seq_length: maximum sequence length, including special tokens; None for the model's maximum. Tokens beyond
            it are neither read nor scored, which is logged.

    Attributes:
        measure: "pseudo_log_likelihood" or "log_likelihood": the meaning of the sums.

    Raises:
        ValueError: there is no such checkpoint, it has no masked-LM head, or its files do not match.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        vocab_file: str | os.PathLike | None = None,
        do_lower_case: bool | None = None,
        max_seq_length: int | None = None,
    ) -> None:
        checkpoint, description = open_masked_lm(resolve_model(path), vocab_file, do_lower_case)
        self.tokenizer, config = description.tokenizer, description.config
        self.measure = measure_of(description)
        self.max_seq_length = longest_sequence(description, max_seq_length)
        self._model, report = build_with_weights(FillMaskTask(config, self.tokenizer.vocab), checkpoint)
        logging.info("%s", report)
        self._vocab_size = config.vocab_size
        template = self.tokenizer.template
        self._before, self._after = len(template.before), len(template.after)
        self._score = {PSEUDO: self._masked, PLAIN: self._left_to_right}[self.measure]

    def __call__(self, texts: Sequence[str]) -> list[TextScore]:
        """Returns the score of each text, in order.

        Raises:
            ValueError: the input is not a list of texts.
        """
        texts = text_list(texts)
        chunks = [texts[start : start + _CHUNK] for start in range(0, len(texts), _CHUNK)]
        return [score for chunk in chunks for score in self._scores(chunk)]

    def _scores(self, texts):
        tokenized = self.tokenizer.tokenize(texts)
        sequences = self.tokenizer.pack(tokenized, max_seq_length=self.max_seq_length)
        ids, splits = sequences["input_ids"].flat_values.numpy(), sequences["input_ids"].row_splits.numpy()
        lengths = np.diff(splits)
        warn_of_unknown(ids, len(texts), self.tokenizer)
        self._warn_of_cut(tokenized.row_lengths().numpy() - self._count_scored(lengths))
        values = np.zeros(len(ids), np.float32)  # parallel to the ids
        order = np.argsort(-lengths, kind="stable")
        self._score(sequences, order, lengths, splits, values)
        own = [slice(first + self._before, last - self._after) for first, last in zip(splits, splits[1:], strict=False)]
        return [TextScore([self.tokenizer.vocab[n] for n in ids[each].tolist()], values[each]) for each in own]

    def _masked(self, sequences, order, lengths, splits, values):
        """Computes each token's value from a copy of its sequence in which it is masked."""
        number = self._count_scored(lengths[order])
        sequence = np.repeat(order, number)
        position = np.concatenate([self._before + np.arange(n) for n in number])
        for chosen, width in self._batches(lengths[sequence], 1):
            features = self._features(sequences, sequence[chosen], width)
            at = position[chosen]
            found = self._masked_log_probabilities(features, tf.constant(at, tf.int32)).numpy()
            values[splits[sequence[chosen]] + at] = found

    def _left_to_right(self, sequences, order, lengths, splits, values):
        """Computes each token's value; that of each sequence's first token is 0."""
        for chosen, width in self._batches(lengths[order], self.max_seq_length):
            found = self._next_log_probabilities(self._features(sequences, order[chosen], width)).numpy()
            for sequence, each in zip(order[chosen].tolist(), found, strict=True):
                values[splits[sequence] + 1 : splits[sequence + 1]] = each[: lengths[sequence] - 1]

    def _count_scored(self, lengths):
        """Returns the number of scored tokens in sequences of these lengths."""
        return lengths - self._before - self._after

    def _batches(self, lengths, predictions):
        """Yields (slice of sequences that descend in length, width of their batch), each with bounded logits."""
        start = 0
        while start < len(lengths):
            width = min(-(-int(lengths[start]) // _WIDTHS) * _WIDTHS, self.max_seq_length)
            most = min(_TOKENS // width, _LOGITS // (min(predictions, width) * self._vocab_size))
            yield slice(start, start + max(1, most)), width
            start += max(1, most)

    def _features(self, sequences, chosen, width):
        return self.tokenizer.pad({name: tf.gather(values, chosen) for name, values in sequences.items()}, width)

    @functools.cached_property
    def _masked_log_probabilities(self):
        mask = tf.constant(self.tokenizer.mask_id, tf.int32)

        def values(features, at):
            ids, positions = features["input_ids"], at[:, tf.newaxis]
            masked = tf.where(tf.range(tf.shape(ids)[1]) == positions, mask, ids)
            logits = self._logits({**features, "input_ids": masked, "masked_lm_positions": positions})
            return _gather_log_probabilities(tf.gather(ids, positions, batch_dims=1), logits)[:, 0]

        return _trace(values, tf.TensorSpec([None], tf.int32))

    @functools.cached_property
    def _next_log_probabilities(self):
        def values(features):
            ids = features["input_ids"]
            positions = tf.zeros_like(ids[:, 1:]) + tf.range(tf.shape(ids)[1] - 1)
            return _gather_log_probabilities(ids[:, 1:], self._logits({**features, "masked_lm_positions": positions}))

        return _trace(values)

    def _logits(self, features):
        return tf.cast(self._model(features, training=False)["mlm_logits"], tf.float32)

    def _warn_of_cut(self, lost):
        if lost.any():
            logging.warning(
                "%d of %d texts exceed `max_seq_length`, %d tokens including special ones: the tokens "
                "beyond it are neither read nor scored.",
                *(np.count_nonzero(lost), len(lost), self.max_seq_length),
            )


def measure_of(description) -> str:
    """Returns the meaning of the sums of a model's log-probabilities, `PSEUDO` or `PLAIN`.

    Args:
        description: a `ModelDescription` of the model.

    Raises:
        ValueError: it is a masked LM, and its vocabulary has no mask.
    """
    tokenizer = description.tokenizer
    if not description.config.is_decoder and tokenizer.mask_id is None:
        raise ValueError(
            f"The vocabulary of a masked LM must contain {tokenizer.mask}: "
            f"{tokenizer.vocab_size} tokens in {tokenizer.vocab_file}, but no {tokenizer.mask}. "
            "Pass the model's own `vocab_file`."
        )
    return PLAIN if description.config.is_decoder else PSEUDO


def perplexity(total: float, tokens: int) -> float:
    """Computes the perplexity, e to the power of the mean loss per token; NaN without tokens.

    For pseudo-log-likelihoods, it is the pseudo-perplexity of a corpus (Salazar et al. 2020, equation 3).

    Args:
        total: the sum of the log-probabilities of all tokens.
        tokens: the number of tokens.
    """
    return float(np.exp(-total / tokens)) if tokens else float("nan")


def _gather_log_probabilities(ids, logits):
    """Returns log-probabilities, float32 [B, M], of ids [B, M] from logits [B, M, V], over the whole table."""
    return -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=ids, logits=logits)


def _trace(function, *more):
    """Returns a function of a batch's features and other arguments as one graph for batches of all widths."""
    specs = {name: tf.TensorSpec([None, None], tf.int32) for name in ENCODER_INPUTS}
    return tf.function(function, autograph=False).get_concrete_function(specs, *more)
