"""Shared by the tasks: losses, class weights, distillation, packing, the BiLSTM option, abstention."""

import abc
import dataclasses
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.data.dataset import Tokenized
from bert_tf.data.features import splits_of
from bert_tf.evaluation import abstention
from bert_tf.evaluation.abstention import CURVE_FILE, Abstention, RiskCoverageCurve
from bert_tf.models.config import EncoderConfig
from bert_tf.models.config_files import TASK_FILE
from bert_tf.models.recurrent import RECURRENT
from bert_tf.tasks.base import FineTuningTask, SplitPredictions
from bert_tf.tasks.options import AbstentionOptions, RecurrentOptions
from bert_tf.utils.files import with_suffix

# === Losses ===
# The loss of a choice among labels, and how much the examples of each label weigh in it.


def cross_entropy(
    logits: tf.Tensor, target: tf.Tensor, weights: tf.Tensor | None = None, smoothing: float = 0.0
) -> tf.Tensor:
    """Returns the loss of each of n choices among L labels, as torch.nn.CrossEntropyLoss(weight=, label_smoothing=).

    The target is 1 - e + e/L for the label and e/L for each other (Szegedy et al. 2015, section 7). Weights apply
    to the terms of the sum over the labels, so that each label's part of a smoothed target has that label's weight.

    Args:
        logits: float32 [n, L].
        target: int32 [n].
        weights: of the labels, float32 [L]; None: 1 each.
        smoothing: e.

    Returns:
        float32 [n].
    """
    if weights is None and not smoothing:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logits)
    terms = -tf.nn.log_softmax(logits)
    if weights is not None:
        terms *= weights
    own = tf.gather(terms, target, batch_dims=1)
    return (1 - smoothing) * own + smoothing * tf.reduce_mean(terms, -1)


def class_weights(
    given: Sequence[str] | None, labels: Sequence[str], label_ids, all_occur: bool = True
) -> tuple[float, ...] | None:
    """Returns a weight for each label; None where nothing was given, or nothing is trained.

    `balanced` is n / (L * count) for each of the L labels of n examples, as in scikit-learn: each label then has
    the same total weight. With several labels per example, count is the number of examples that have the label.

    Args:
        given: "balanced" alone, or "label:weight" each; labels that are not named have 1.
        labels: the L names.
        label_ids: of the training examples, int [n] or [n, L] of 0 and 1; None where nothing is trained.
        all_occur: each label must have an example to be balanced; otherwise one without has weight 1, and the others
            are balanced among themselves.

    Raises:
        ValueError: what was given is not that, names no label, or a label to be balanced has no example.
    """
    if not given or label_ids is None:
        return None
    return _balanced(labels, label_ids, all_occur) if list(given) == ["balanced"] else _by_name(labels, given)


def _balanced(labels, label_ids, all_occur):
    counts = label_ids.sum(0) if label_ids.ndim == 2 else np.bincount(label_ids, minlength=len(labels))
    if all_occur and (missing := [label for label, count in zip(labels, counts, strict=True) if not count]):
        raise ValueError(
            f"`class_weights=balanced` must have training examples of every label. Received none of {missing}; give "
            "the weights as label:weight pairs."
        )
    weights = len(label_ids) / (np.count_nonzero(counts) * np.maximum(counts, 1))
    return tuple(np.where(counts > 0, weights, 1.0).tolist())


def _by_name(labels, pairs):
    weights, parts = {}, []
    for part in pairs:
        parts.append(part)
        label, weight = _pair(",".join(parts), labels)
        if label in weights:
            raise _not_pairs(part, labels)
        if label is not None:  # else the name may go on: a command line is split at its commas, too
            weights[label], parts = weight, []
    if parts:
        raise _not_pairs(parts[0], labels)
    return tuple(weights.get(label, 1.0) for label in labels)


def _pair(text, labels):
    """Returns the label and the weight of label:weight; (None, None) where it is none.

    Blanks at the commas of a label's name may be gone.
    """
    name, colon, weight = text.rpartition(":")
    bare = {",".join(map(str.strip, label.split(","))): label for label in labels}
    label = name if name in labels else bare.get(name)
    return (label, float(weight)) if colon and label is not None and _is_positive(weight) else (None, None)


def _not_pairs(received, labels):
    return ValueError(
        "`class_weights` must be `balanced` or label:weight pairs with commas between them, each label once, each "
        f"weight over 0. Received {received!r}; the labels are {', '.join(map(repr, labels))}."
    )


def _is_positive(text):
    try:
        return 0 < float(text) < float("inf")
    except ValueError:
        return False


def names_class(config: EncoderConfig, ending: str) -> bool:
    """Whether a configuration of Transformers names a class that ends so: "ForTokenClassification"."""
    named = config.extra.get("architectures")
    names = [*(named if isinstance(named, list) else []), config.extra.get("head_class")]
    return any(isinstance(name, str) and name.endswith(ending) for name in names)


# === Texts ===
# Texts to the sequences that the model reads.


def single_rows(tokenizer, texts, max_seq_length: int) -> dict[str, tf.Tensor]:
    """Returns one row for each text or pair, cut as `Tokenizer.pack` cuts; what `Served.read` is for most tasks.

    Args: as `Served.read`.

    Returns:
        what `tokenizer.pad` returns, int32 [n, S]; S is the longest row's, and 1 where there is no text at all, since a
        pooler needs a first token.
    """
    packed = tokenizer.pack(*map(tokenizer.tokenize, texts), max_seq_length=max_seq_length)
    return padded(tokenizer, packed)


def pack_sequences(
    tokenizer, tokens: Iterable[Sequence[tf.RaggedTensor]], max_seq_length: int
) -> tuple[Tokenized, np.ndarray]:
    """Returns w sequences as the model reads them, cut as `Tokenizer.pack` cuts, and how long they would be uncut.

    Args:
        tokenizer: a `Tokenizer`.
        tokens: the tokens of one or two texts each, int32 [part, (length)], in parts small enough for memory.
        max_seq_length: of the longest.

    Returns:
        the sequences, without targets; int64 [w], special tokens counted in.
    """
    flat, lengths, needed = {"input_ids": [], "segment_ids": []}, [], []
    for part in tokens:
        needed.append(sum(each.row_lengths().numpy() for each in part) + tokenizer.template.special(len(part)))
        packed = tokenizer.pack(*part, max_seq_length=max_seq_length)
        lengths.append(packed["input_ids"].row_lengths().numpy())
        for name, values in flat.items():
            values.append(packed[name].flat_values.numpy())
    flat = {name: np.concatenate(values) for name, values in flat.items()}
    return Tokenized(flat, splits_of(np.concatenate(lengths)), {}, tokenizer.pad_id), np.concatenate(needed)


def padded(tokenizer, packed) -> dict[str, tf.Tensor]:
    """Returns what `tokenizer.pad` makes of rows of any length, int32 [w, S], with S at least 1."""
    return {name: at_least_one(values) for name, values in tokenizer.pad(packed).items()}


def at_least_one(values: tf.Tensor) -> tf.Tensor:
    """Returns values [..., S] as they are, or with one column of zeros where S is 0."""
    missing = tf.maximum(0, 1 - tf.shape(values)[-1])
    return tf.pad(values, [[0, 0]] * (values.shape.rank - 1) + [[0, missing]])


# === Soft targets ===
# How far a model's answers are from a teacher's, softened by a temperature (Hinton et al. 2015, section 2).


def divergence(logits: tf.Tensor, teacher_logits: tf.Tensor, temperature: float = 1.0) -> tf.Tensor:
    """Returns T^2 KL(softmax(teacher_logits / T) || softmax(logits / T)), whose gradient keeps its size whatever T is.

    Args:
        logits, teacher_logits: float [..., L].
        temperature: T, over 0.

    Returns:
        float32 [...]; 0 where both say the same.
    """
    both = [tf.cast(each, tf.float32) / temperature for each in (logits, teacher_logits)]
    target = tf.nn.softmax(both[1])
    cross, own = (tf.nn.softmax_cross_entropy_with_logits(labels=target, logits=each) for each in both)
    return (cross - own) * temperature**2


def yes_no_divergence(logits: tf.Tensor, teacher_logits: tf.Tensor, temperature: float = 1.0) -> tf.Tensor:
    """Returns the same of questions with two answers each, float32 [..., L]; logits are those of yes, [..., L]."""
    both = [tf.cast(each, tf.float32) / temperature for each in (logits, teacher_logits)]
    target = tf.sigmoid(both[1])
    cross, own = (tf.nn.sigmoid_cross_entropy_with_logits(labels=target, logits=each) for each in both)
    return (cross - own) * temperature**2


# === Recurrent ===
# A BiLSTM between the encoder and the head, as the paper puts it on its left-to-right model (section 5.1).


RECURRENT_HEAD = (f"{RECURRENT}/.*",)  # the paths of its weights


def read_lstm_units(options: RecurrentOptions) -> int | None:
    """Returns the units of each direction of the BiLSTM that is asked for; None: there is to be none.

    Raises:
        ValueError: it does not go together with another option.
    """
    if options.lstm_units and options.lora_rank:
        raise ValueError(
            "`lstm_units` must come without `lora_rank`, for adapters are kept in a form that has no BiLSTM. Received "
            f"`lstm_units={options.lstm_units}` and `lora_rank={options.lora_rank}`; leave one of the two out."
        )
    return options.lstm_units


def lstm_option(units: int | None) -> dict[str, int]:
    """Returns what task.json, and what a run must have alike to be continued, say of a BiLSTM; {}: there is none."""
    return {"lstm_units": units} if units else {}


# === Abstention ===
# Tasks whose answer may be none: those below a probability, chosen on scored examples, are not to be relied on.


_FEW = 30  # answers, too few to say how many of the next ones will be right


class Abstaining(FineTuningTask):
    """A task that can mark each answer as confident or not.

    Attributes:
        abstention: which answers it is sure of; None: that was not asked.
    """

    options: AbstentionOptions
    files = (with_suffix(CURVE_FILE, "*"),)
    abstention: Abstention | None = None

    @abc.abstractmethod
    def certainty(self, outcome: SplitPredictions) -> tuple[np.ndarray, np.ndarray]:
        """Returns each answer's probability, float [n], and whether it is right, bool [n]."""

    def take_abstention(self, given: Abstention | dict[str, float] | None):
        """Sets `abstention`, as it is or as `abstention_as_option` wrote it; raises ValueError for what is none."""
        self.abstention = Abstention(**given) if isinstance(given, dict) else given

    def abstention_as_option(self) -> dict[str, Any]:
        """Returns what `to_dict` says of it: {} where it was not asked."""
        return {"abstention": dataclasses.asdict(self.abstention)} if self.abstention else {}

    def confident(self, probability: tf.Tensor | np.ndarray) -> dict[str, Any]:
        """Returns {"confident": bool [n]} of answers with these probabilities, [n]; {} where it was not asked."""
        return {"confident": probability >= self.abstention.threshold} if self.abstention else {}

    def evaluate(self, outcomes):
        scores = super().evaluate(outcomes)
        if share := self.share_to_fit():
            self.abstention = _fit(share, outcomes[0].examples.path, *self.certainty(outcomes[0]))
        if share or self.abstention:
            scores |= self._scores(outcomes)
        return scores

    def share_to_fit(self) -> float | None:
        """Returns the share of right answers to which this run fits the threshold; None: it fits none."""
        return self.options.fit_abstention

    def write_scored(self, directory: str, outcomes: Sequence[SplitPredictions], suffix: str = ""):
        """Writes how many answers are given at which threshold, where that was asked."""
        if self.options.fit_abstention or self.abstention:
            RiskCoverageCurve.of(*self.certainty(outcomes[0])).write(directory, suffix)

    def extra_report_sections(self, page, outcomes):
        share = self.options.fit_abstention or (self.abstention and self.abstention.share)
        if share:
            abstention.add_abstention(page, RiskCoverageCurve.of(*self.certainty(outcomes[0])), self.abstention, share)

    def _scores(self, outcomes):
        if self.abstention is None:
            return {"coverage": 0.0}
        threshold, scores = self.abstention.threshold, {"abstention_threshold": self.abstention.threshold}
        for outcome in outcomes:
            values = abstention.scores(*self.certainty(outcome), threshold)
            scores |= {f"{name}{outcome.suffix}": value for name, value in values.items()}
        return scores


def check_abstention(options: AbstentionOptions):
    """Raises ValueError where what `fit_abstention` asks for contradicts the other options."""
    if options.fit_abstention == 0:
        raise ValueError("`fit_abstention` must be over 0 and at most 1. Received: 0; 0.95 asks for 19 of 20.")
    check_fitted("fit_abstention", options.fit_abstention, options.do_eval)


def check_fitted(name: str, value: float | None, do_eval: bool):
    """Raises ValueError where the option `name` fits something on scored examples and none are scored."""
    if value and not do_eval:
        raise ValueError(f"`{name}` must come with `do_eval`. Received it alone; add `do_eval`.")


def check_kept(name: str, value: float | None, output_dir: str):
    """Raises ValueError where what the option `name` fits to a trained model cannot be kept with it."""
    if value and not os.path.exists(os.path.join(output_dir, TASK_FILE)):
        raise ValueError(
            f"`{name}` must find the trained model in `output_dir`, with which it is kept. Received {output_dir}, "
            "which holds none; name the folder that it was trained into."
        )


def _fit(share, path, confidence, right) -> Abstention | None:
    """Returns the threshold that the examples of a file ask for; where none does, None, and a warning."""
    curve = RiskCoverageCurve.of(confidence, right)
    threshold = curve.threshold(share)
    if threshold is None:
        best = int(np.argmax(curve.accuracy))
        logging.warning(
            "`fit_abstention=%g` must be a share that some threshold reaches on %s. Received one that none does: the "
            "most is %.1f %%, of the %s surest answers. No threshold is kept, and no answer says if it is confident; "
            "ask for a smaller share, or train a better model.",
            *(share, path, 100 * curve.accuracy[best], f"{curve.coverage[best] * len(right):,.0f}"),
        )  # fmt: skip
        return None
    given = confidence >= threshold
    n, rate = int(given.sum()), float(np.mean(right[given]))
    low, high = abstention.interval(rate, n)
    logging.info(
        "Of %s, %s of %s answers (%.1f %%) have a probability of %.4f or more; %.1f %% of them are right (95 %% "
        "interval %.1f to %.1f %%, and %.1f %% of all).",
        *(path, f"{n:,}", f"{len(right):,}", 100 * n / len(right), threshold, 100 * rate, 100 * low, 100 * high),
        100 * np.mean(right),
    )  # fmt: skip
    if n < _FEW:
        logging.warning("Only %d answers are given, too few to say how many of the next will be right.", n)
    return Abstention(share, threshold)
