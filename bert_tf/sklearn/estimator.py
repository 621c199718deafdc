"""The base of the fine-tuned estimators: their shared parameters, and training on examples in memory."""

import abc
import dataclasses
import os
import tempfile
from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import check_is_fitted

from bert_tf.data.tables import LabeledTexts
from bert_tf.evaluation.error_reports.page_parts import render_errors, render_headline, render_overview
from bert_tf.runs.fine_tuning_in_memory import fine_tune_in_memory
from bert_tf.runs.fine_tuning_plan import batch_settings
from bert_tf.runs.keywords import read_keywords
from bert_tf.runs.process import unchanged_process
from bert_tf.runs.settings import FineTuningSettings
from bert_tf.runs.task_flags import task_flags, task_settings
from bert_tf.sklearn.fitted_model import FittedModel
from bert_tf.sklearn.sample_weights import as_weights, select
from bert_tf.sklearn.texts import as_texts, column_names, with_string_input
from bert_tf.tasks.base import Examples, FineTuningTask, TaskData
from bert_tf.tasks.classification.data import ClassificationData
from bert_tf.tasks.classification.sources import Source
from bert_tf.tasks.options import RecurrentOptions, RunOptions, SelectionOptions
from bert_tf.utils.files import path_text
from bert_tf.utils.html_report import Page
from bert_tf.utils.settings import options_of

_Fitted = TypeVar("_Fitted", bound="FineTunedEstimator")


@dataclasses.dataclass(eq=False, repr=False)
class FineTunedEstimator(BaseEstimator, abc.ABC):
    """Base class of the fine-tuned estimators: an encoder with a head, trained as the commands do, with their defaults.

    Args:
        model: the initial weights: a directory, as in `bert_tf.load`.
        learning_rate: the peak learning rate of Adam; or "auto" to choose it with a short range test.
        num_train_epochs: passes over the examples.
        train_batch_size: examples per step.
        max_seq_length: longest sequence in tokens; longer texts are truncated.
        warmup_proportion: fraction of the steps used for warmup.
        freeze_layers: number of layers to freeze, from the embeddings up; "all" for the whole encoder.
        layerwise_lr_decay: each layer's learning rate is this times that of the layer above.
        unfreeze_epochs: number of epochs after which one more layer is unfrozen, from the top; 0 to unfreeze all from
            the start.
        reinit_layers: number of layers at the top that, with the pooler, start from random weights.
        lstm_units: units of each direction of a BiLSTM between the encoder and the head; None for no BiLSTM.
        gradient_accumulation_steps: number of micro-batches per batch, to save memory.
        bucket_by_length: whether to batch examples of similar lengths.
        early_stopping: number of epochs without a better score on the validation examples after which training stops,
            keeping the best epoch's weights; 0 to train to the end.
        metric_for_best_model: the validation metric that selects the best epoch, such as "accuracy"; None for "loss".
            If it is given without `early_stopping`, the best of all epochs is kept.
        validation_fraction: with `early_stopping` or `metric_for_best_model`: fraction of the examples that are
            used for validation instead of training, unless `fit` receives an `eval_set`.
        precision: precision of the layers, one of `names.PRECISIONS`; or "auto", as `--precision=auto`.
        use_xla: whether to compile with XLA; "auto": only for long runs on a GPU.
        seed: random seed of new weights, example order, the split and dropout. Equal seeds give equal models.
        predict_batch_size: batch size in prediction and validation.

    A fitted estimator is pickled with its weights and tokenizer. Each `fit` starts from `model` again.

    Attributes:
        n_steps_: training step of the weights that were kept.
        n_features_in_: number of texts of an example, 1 or 2.
        feature_names_in_: the columns of a DataFrame that it was fitted on.
    """

    model: str | os.PathLike
    _: dataclasses.KW_ONLY
    learning_rate: float | str = FineTuningSettings.learning_rate
    num_train_epochs: float = FineTuningSettings.num_train_epochs
    train_batch_size: int = FineTuningSettings.train_batch_size
    max_seq_length: int = RunOptions.max_seq_length
    warmup_proportion: float = FineTuningSettings.warmup_proportion
    freeze_layers: int | str = FineTuningSettings.freeze_layers
    layerwise_lr_decay: float = FineTuningSettings.layerwise_lr_decay
    unfreeze_epochs: float = FineTuningSettings.unfreeze_epochs
    reinit_layers: int = FineTuningSettings.reinit_layers
    lstm_units: int | None = RecurrentOptions.lstm_units
    gradient_accumulation_steps: int = FineTuningSettings.gradient_accumulation_steps
    bucket_by_length: bool = FineTuningSettings.bucket_by_length
    early_stopping: int = SelectionOptions.early_stopping
    metric_for_best_model: str | None = SelectionOptions.metric_for_best_model
    validation_fraction: float = 0.1
    precision: str = FineTuningSettings.precision
    use_xla: bool | str = FineTuningSettings.use_xla
    seed: int = FineTuningSettings.seed
    predict_batch_size: int = FineTuningSettings.predict_batch_size

    # The task that it trains.
    _kind: ClassVar[type[FineTuningTask]]

    def fit(
        self: _Fitted, X: Sequence, y: Sequence, sample_weight: Sequence | None = None, eval_set: tuple | None = None
    ) -> _Fitted:
        """Fine-tunes on n examples.

        Args:
            X, y: the examples and their targets.
            sample_weight: n non-negative numbers: the relative weight of each example in the training loss. 2 gives the
                expected gradient of the example given twice; 0 leaves it out.
            eval_set: (X, y) of validation examples, by which the best epoch is kept.

        Raises:
            ValueError: examples, targets and weights do not match, or a setting is invalid for them or the model.
        """
        settings = self._read_settings()
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
        examples = {"train": self._examples(select(inputs, chosen), select(targets, chosen))}
        examples |= {} if held_out is None else {"dev": held_out}
        self.trained_ = self._train(settings, examples, weights[chosen])
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
            raise ValueError(f"`X` must be {fitted} like those that the estimator was fitted on; got {given}.")
        elif columns and columns != list(getattr(self, "feature_names_in_", columns)):
            raise ValueError(
                f"`X` must have the columns {list(self.feature_names_in_)} that the estimator was fitted on, in this "
                f"order; got {columns}."
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
    def _task_data(self, examples: dict[str, Examples], weights: np.ndarray | None) -> TaskData:
        """Returns the data of a run: {split: examples}, and the weights of those to train on."""

    def _strata(self, targets):
        """Returns the groups, [n], whose proportions a split is to keep; None if there are none."""
        return None

    # --- Training ---

    def _predictions(self, X):
        """Returns what the task decodes from the outputs for n examples."""
        check_is_fitted(self)
        outcome = self.trained_.outcome(self._examples(self._read_inputs(X)), self.predict_batch_size)
        return self.trained_.task.decode(outcome)

    def _read_eval_set(self, eval_set):
        if not isinstance(eval_set, tuple | list) or len(eval_set) != 2:
            raise ValueError(f"`eval_set` must be a pair (X, y); got {eval_set!r:.80}.")
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

    def _read_settings(self):
        """Returns the fine-tuning settings that the parameters specify, after checking all of them."""
        fraction = self.validation_fraction
        if not isinstance(fraction, Real) or not 0 < fraction < 1:
            raise ValueError(f"`validation_fraction` must be a number between 0 and 1; got {fraction!r}.")
        flags = [dataclasses.replace(flag, required=False) for flag in task_flags(self._kind)]
        names = {flag.name for flag in flags}
        given = {name: value for name, value in self.get_params(deep=False).items() if name in names}
        given = {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}
        given |= {"init_checkpoint": path_text(self.model, "model"), "eval_batch_size": self.predict_batch_size}
        return options_of(task_settings(self._kind), read_keywords(type(self).__name__, flags, given))

    def _train(self, settings, examples, weights):
        """Fine-tunes as the commands do with `do_train`; returns the `FittedModel`."""
        implied: dict[str, Any] = {"do_train": True}
        if "dev" in examples:
            implied["metric_for_best_model"] = self.metric_for_best_model or "loss"
        data = self._task_data(examples, weights if (weights != weights[0]).any() else None)
        with tempfile.TemporaryDirectory() as folder, unchanged_process():
            implied["output_dir"] = os.path.join(folder, "run")
            run = fine_tune_in_memory(self._kind, settings.give(implied), data)
        batching = batch_settings(run.settings, run.use_xla)
        return FittedModel(run.trainer, run.model.tokenizer, data.text_inputs, batching, run.settings.precision)

    def __sklearn_tags__(self):
        return with_string_input(super().__sklearn_tags__())


def labeled_texts(texts: list, labels: list | None = None) -> LabeledTexts:
    """Returns n texts, or pairs of texts, and their labels in the format of a task."""
    first, second = map(list, zip(*texts, strict=True)) if isinstance(texts[0], tuple) else (texts, None)
    return LabeledTexts([str(n) for n in range(len(texts))], first, second, labels, "X", list(range(len(texts))))


def texts_data(
    examples: dict[str, LabeledTexts], problem: str, labels: list[str] | None, weights: np.ndarray | None
) -> ClassificationData:
    """Returns labeled texts in memory as the data of a classification run.

    Args:
        examples: {split: examples}.
        problem: type of the labels, one of `names.PROBLEMS`.
        labels: in the order of their ids; None for numbers.
        weights: weights of the training examples, or None.
    """
    text_inputs = tuple(examples["train"].texts)
    source = Source(problem=problem, text_columns=text_inputs)
    return ClassificationData(examples, text_inputs, labels, weights, source=source)
