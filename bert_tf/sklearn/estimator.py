"""The base of the fine-tuned estimators: their shared parameters, and training on examples in memory."""

import abc
import dataclasses
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from numbers import Real
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import check_is_fitted

from bert_tf.checkpoints.loading import load_description
from bert_tf.data.tables import LabeledTexts
from bert_tf.evaluation.error_reports.page_parts import render_errors, render_headline, render_overview
from bert_tf.export.precision import dtype_policy
from bert_tf.models.config import EncoderConfig
from bert_tf.sklearn.fitted_model import FittedModel, precision_of, seed_of_weights
from bert_tf.sklearn.sample_weights import as_weights, select
from bert_tf.sklearn.texts import as_texts, column_names, with_string_input
from bert_tf.tasks.base import Examples, FineTuningTask
from bert_tf.tasks.losses import class_weights
from bert_tf.tasks.retraining import rows_by_label
from bert_tf.tokenization.token_counter import TokenCounter
from bert_tf.training.devices import uses_xla
from bert_tf.training.fine_tuning import fine_tuning_config
from bert_tf.training.interruption import Stopped
from bert_tf.training.run_config import RunConfig
from bert_tf.training.scoring import BatchSettings
from bert_tf.training.settings import FineTuningConfig
from bert_tf.training.step import StepConfig
from bert_tf.training.trainer import Trainer
from bert_tf.utils.files import path_text
from bert_tf.utils.html_report import Page
from bert_tf.utils.names import USE_XLA
from bert_tf.utils.token_counts import TokenCountLog

_Fitted = TypeVar("_Fitted", bound="FineTunedEstimator")

# Parameter -> its lowest and highest value, both allowed; None: no bound.
BOUNDS = {
    "learning_rate": (0, None),
    "num_train_epochs": (0, None),
    "train_batch_size": (1, None),
    "max_seq_length": (3, None),
    "warmup_proportion": (0, 1),
    "label_smoothing": (0, 1),
    "layerwise_lr_decay": (0, 1),
    "unfreeze_epochs": (0, None),
    "reinit_layers": (0, None),
    "gradient_accumulation_steps": (1, None),
    "lstm_units": (1, None),
    "early_stopping": (0, None),
    "seed": (0, None),
    "predict_batch_size": (1, None),
}
_OPTIONAL = ("lstm_units",)  # None: no BiLSTM


@dataclasses.dataclass(eq=False, repr=False)
class FineTunedEstimator(BaseEstimator, abc.ABC):
    """Base class of the fine-tuned estimators: an encoder with a head, trained as the commands do, with their defaults.

    Args:
        model: the initial weights: a directory, as in `bert_tf.load`.
        learning_rate: the peak learning rate of Adam.
        num_train_epochs: passes over the examples.
        train_batch_size: examples per step.
        max_seq_length: longest sequence in tokens; longer texts are truncated.
        warmup_proportion: share of the steps used for warmup.
        freeze_layers: number of layers to freeze, from the embeddings up; "all": the whole encoder.
        layerwise_lr_decay: each layer's learning rate is this times that of the layer above.
        unfreeze_epochs: every this many epochs, one more layer is unfrozen from the top; 0: all at once.
        reinit_layers: this many layers at the top, and the pooler, start from random weights.
        lstm_units: units of each direction of a BiLSTM between the encoder and the head; None: no BiLSTM.
        gradient_accumulation_steps: number of micro-batches per batch, to save memory.
        bucket_by_length: examples of similar lengths share a batch.
        early_stopping: training stops after this many epochs without a better score on the validation examples, and
            the best epoch's weights are kept; 0: it runs to its end.
        metric_for_best_model: the metric of the validation examples by which an epoch is better, such as "accuracy";
            None: "loss". Given without `early_stopping`, the best of all epochs is kept.
        validation_fraction: with `early_stopping` or `metric_for_best_model`: share of the examples that are not
            trained on but validated, unless `fit` gets others.
        precision: precision of the layers, one of `names.PRECISIONS`; or "auto", as `--precision=auto`.
        use_xla: "auto" (only for long runs on a GPU), "true" or "false".
        seed: of new weights, the order of the examples, the split and dropout: the same seed, the same model.
        predict_batch_size: batch size in prediction and validation.

    A fitted estimator is pickled with its weights and tokenizer. Each `fit` starts from `model` again.

    Attributes:
        n_steps_: the training step of the weights that were kept.
        n_features_in_: number of texts of an example, 1 or 2.
        feature_names_in_: the columns of a DataFrame that it was fitted on.
    """

    model: str | os.PathLike
    _: dataclasses.KW_ONLY
    learning_rate: float = 5e-5
    num_train_epochs: float = 3.0
    train_batch_size: int = 32
    max_seq_length: int = 128
    warmup_proportion: float = 0.1
    freeze_layers: int | str = "0"
    layerwise_lr_decay: float = 1.0
    unfreeze_epochs: float = 0.0
    reinit_layers: int = 0
    lstm_units: int | None = None
    gradient_accumulation_steps: int = 1
    bucket_by_length: bool = True
    early_stopping: int = 0
    metric_for_best_model: str | None = None
    validation_fraction: float = 0.1
    precision: str = "float32"
    use_xla: str = "auto"
    seed: int = 0
    predict_batch_size: int = 8

    def fit(
        self: _Fitted, X: Sequence, y: Sequence, sample_weight: Sequence | None = None, eval_set: tuple | None = None
    ) -> _Fitted:
        """Fine-tunes on n examples.

        Args:
            X, y: the examples and their targets.
            sample_weight: n numbers from 0 up: how much each example counts in the training loss, compared with the
                others. 2 has the expected gradient of the example given twice; 0 leaves it out.
            eval_set: (X, y) of validation examples, by which the best epoch is kept.

        Raises:
            ValueError: examples, targets and weights do not match, or a setting is invalid for them or the model.
        """
        self._check_parameters()
        inputs = self._read_inputs(X, first=True)
        targets = self._read_targets(y, inputs)
        weights = np.ones(len(inputs)) if sample_weight is None else as_weights(sample_weight, inputs)
        chosen, held_out = np.flatnonzero(weights), None
        self._learn_targets(select(targets, chosen), y)
        if eval_set is not None:
            held_out = self._read_eval_set(eval_set)
        elif self.early_stopping or self.metric_for_best_model:
            chosen, others = self._split(chosen, targets)
            held_out = self._examples(select(inputs, others), select(targets, others))
        examples = self._examples(select(inputs, chosen), select(targets, chosen))
        self.trained_ = self._train(examples, held_out, weights[chosen])
        self.n_steps_ = self.trained_.step
        return self

    def report(self, X: Sequence, y: Sequence) -> str:
        """Returns an error analysis of n examples as one HTML file; see docs/guides/evaluation.md.

        Args:
            X: examples that it was not fitted on.
            y: their true targets.

        Raises:
            NotFittedError: `fit` was not called.
            ValueError: examples and targets do not match, or a label is unknown.
        """
        check_is_fitted(self)
        inputs, task = self._read_inputs(X), self.trained_.task
        examples = self._examples(inputs, self._read_targets(y, inputs))
        outcome = self.trained_.outcome(examples, self.predict_batch_size, with_targets=True)
        judged, scores = {"dev": task.error_report(outcome)}, task.metrics(outcome.outputs, outcome.encoded)
        page = Page(type(self).__name__)
        with page.cards():
            page.keep("headline", render_headline(judged, scores))
            page.keep("overview", render_overview(judged))
        page.keep("eval", render_errors(judged))
        return page.html()

    def save(self, output_dir: str | os.PathLike) -> None:
        """Saves the fine-tuned model in the format of the commands, to be exported, served or loaded.

        Args:
            output_dir: directory to create; must not exist or must be empty.

        Raises:
            NotFittedError: `fit` was not called.
            ValueError: `output_dir` is not empty.
        """
        check_is_fitted(self)
        self.trained_.save(output_dir)

    # --- What an estimator adds ---

    def _read_inputs(self, X, first=False):
        """Returns n texts or pairs of texts; `first`: those to fit on, which decide what later ones must be."""
        texts, columns = as_texts(X, pairs=True), column_names(X)
        width = 2 if isinstance(texts[0], tuple) else 1
        if first:
            self.n_features_in_ = self._width = width
            vars(self).pop("feature_names_in_", None)
            if columns:
                self.feature_names_in_ = np.array(columns, object)
        elif width != self._width:
            given, fitted = ("texts", "pairs") if width == 1 else ("pairs", "texts")
            raise ValueError(f"`X` must be {fitted} like those that the estimator was fitted on. Received {given}.")
        elif columns and columns != list(getattr(self, "feature_names_in_", columns)):
            raise ValueError(
                f"`X` must have the columns {list(self.feature_names_in_)} that the estimator was fitted on, in this "
                f"order. Received {columns}."
            )
        return texts

    @abc.abstractmethod
    def _read_targets(self, y, inputs) -> Any:
        """Returns n targets, an array or a list, after checking them."""

    def _learn_targets(self, targets, y):  # noqa: B027 - not all have classes
        """Sets what follows from the training targets, such as classes, after checking that it can be learned."""

    @abc.abstractmethod
    def _examples(self, inputs, targets=None) -> Examples:
        """Returns the examples in the format of the task."""

    @abc.abstractmethod
    def _make_task(self, config: EncoderConfig, examples: Examples, weights: np.ndarray) -> FineTuningTask:
        """Returns the task for these training examples and their weights."""

    def _strata(self, targets):
        """Returns the groups, [n], whose proportions a split is to keep; None: there are none."""
        return None

    def _sequence_weights(self, encoded, weights):
        """Returns the weight of each encoded sequence."""
        return weights

    # --- Training ---

    def _predictions(self, X):
        """Returns what the task decodes from the outputs for n examples."""
        check_is_fitted(self)
        outcome = self.trained_.outcome(self._examples(self._read_inputs(X)), self.predict_batch_size)
        return self.trained_.task.decode(outcome)

    def _read_eval_set(self, eval_set):
        if not isinstance(eval_set, tuple | list) or len(eval_set) != 2:
            raise ValueError(f"`eval_set` must be a pair (X, y). Received {eval_set!r:.80}.")
        try:
            inputs = self._read_inputs(eval_set[0])
            return self._examples(inputs, self._read_targets(eval_set[1], inputs))
        except ValueError as error:
            raise ValueError(f"`eval_set`: {error}") from error

    def _split(self, chosen, targets):
        """Returns the indices to train on and those to validate."""
        strata = self._strata(select(targets, chosen))
        try:
            fraction, seed = self.validation_fraction, self.seed
            return train_test_split(chosen, test_size=fraction, random_state=seed, stratify=strata)
        except ValueError as error:
            raise ValueError(
                f"`validation_fraction={self.validation_fraction}` cannot be split off. {error} Pass `eval_set` "
                "instead."
            ) from error

    def _train(self, examples, held_out, weights):
        """Fine-tunes as the commands do with `do_train`; returns the `FittedModel`."""
        use_xla = uses_xla(self.use_xla, len(examples) * self.num_train_epochs)
        model = load_description([path_text(self.model, "model")])
        model.check_length(self.max_seq_length)
        task = self._make_task(model.config, examples, weights)
        batching = BatchSettings(self.max_seq_length, self.bucket_by_length, use_xla)
        counter = TokenCounter(model.tokenizer)
        encoded = task.encode_examples(counter, examples, self.max_seq_length, True)
        TokenCountLog(f"{len(examples)} training examples", self.max_seq_length).add(counter.counts().numpy())
        if (weights != weights[0]).any():
            self._add_weights(task, encoded, weights, batching)
        validation = {}
        if held_out is not None:
            dev = task.encode_examples(model.tokenizer, held_out, self.max_seq_length, True)
            validation = {"held_out": batching.scoring(dev, self.predict_batch_size)}
            validation["metric_for_best_model"] = self.metric_for_best_model or "loss"
            validation["early_stopping"] = self.early_stopping
        precision = precision_of(self.precision)
        with tempfile.TemporaryDirectory() as folder, dtype_policy(precision), seed_of_weights(self.seed):
            run = self._run_config(folder, task, model, encoded, batching, precision)
            if validation:
                epoch = max(1, len(encoded) // self.train_batch_size)
                run = dataclasses.replace(run, save_checkpoints_steps=epoch)
            trainer = Trainer(task, run)
            _fit(trainer, batches=batching.training(encoded, run), **validation)
        text_inputs = tuple(examples.texts) if isinstance(examples, LabeledTexts) else ("text",)
        return FittedModel(trainer, model.tokenizer, text_inputs, batching, precision)

    def _run_config(self, folder, task, model, encoded, batching, precision):
        step = StepConfig(
            seed=self.seed,
            accumulation=self.gradient_accumulation_steps,
            use_xla=batching.use_xla,
            scale_loss=precision == "mixed_float16",
        )
        run = RunConfig(
            folder,
            self.train_batch_size,
            num_train_steps=0,
            learning_rate=self.learning_rate,
            init_checkpoint=os.fspath(self.model),
            save_checkpoints_steps=sys.maxsize,
            keep_checkpoints=1,
            step=step,
            label_rows=rows_by_label(task, model, os.fspath(self.model)),
        )
        fields = dataclasses.fields(FineTuningConfig)
        length = FineTuningConfig(**{field.name: getattr(self, field.name) for field in fields})
        return fine_tuning_config(run, length, model.config.num_hidden_layers, encoded, batching)

    def _add_weights(self, task, encoded, weights, batching):
        """Adds `sample_weights`, scaled so that their mean is 1 in the task's loss, which the learning rate is for."""
        weights = self._sequence_weights(encoded, weights).astype(np.float32)
        encoded.targets = {**encoded.targets, "sample_weights": weights}
        whole = weighted = 0.0
        for batch in batching.scoring(encoded, self.train_batch_size).batches():
            shares = task.example_weights(batch) * batch["is_real_example"]
            whole += float(tf.reduce_sum(shares))
            weighted += float(tf.reduce_sum(shares * batch["sample_weights"]))
        encoded.targets["sample_weights"] = weights * np.float32(whole / weighted)

    def _check_parameters(self):
        """Raises ValueError if a parameter is not valid for the command's flag of that name."""
        for name, (low, high) in BOUNDS.items():
            value = getattr(self, name, low)
            if value is None and name in _OPTIONAL:
                continue
            if not isinstance(value, Real) or not low <= value <= (float("inf") if high is None else high):
                end = "" if high is None else f" to {high}"
                raise ValueError(f"`{name}` must be a number from {low}{end}{'' if end else ' up'}. Got {value!r}.")
        fraction = self.validation_fraction
        if not isinstance(fraction, Real) or not 0 < fraction < 1:
            raise ValueError(f"`validation_fraction` must be a number between 0 and 1. Got {fraction!r}.")
        if self.use_xla not in USE_XLA:
            raise ValueError(f"`use_xla` must be one of {', '.join(USE_XLA)}. Got {self.use_xla!r}.")

    def __sklearn_tags__(self):
        return with_string_input(super().__sklearn_tags__())


def _fit(trainer, **arguments):
    """Trains; Ctrl-C raises KeyboardInterrupt instead of ending the whole program as in a run."""
    try:
        trainer.fit(**arguments)
    except Stopped as stopped:
        if stopped.signal != signal.SIGINT:
            raise
        raise KeyboardInterrupt from stopped


def weigh_classes(given: str | dict | None, labels: list[str], label_ids, weights, all_occur: bool = True):
    """Returns the weights of classes given as None, "balanced" or {class: weight}; see `losses.class_weights`."""
    if isinstance(given, dict):
        given = [f"{label}:{weight}" for label, weight in given.items()]
    return class_weights([given] if isinstance(given, str) else given, labels, label_ids, all_occur, weights)


def labeled_texts(texts: list, labels: list | None = None) -> LabeledTexts:
    """Returns n texts, or pairs of texts, and their labels in the format of a task."""
    first, second = map(list, zip(*texts, strict=True)) if isinstance(texts[0], tuple) else (texts, None)
    return LabeledTexts([str(n) for n in range(len(texts))], first, second, labels, "X", list(range(len(texts))))
