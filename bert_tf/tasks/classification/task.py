"""Text classification and regression (Devlin et al. 2018, section 4.1), one text or a pair, one label or several."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.data import glue_tasks, windowed
from bert_tf.data.checked_examples import CheckedExamples, TableLayout
from bert_tf.data.features import ENCODER_INPUTS, keras_inputs
from bert_tf.data.windowed import Windowing
from bert_tf.evaluation import calibration
from bert_tf.evaluation.abstention import Abstention
from bert_tf.evaluation.error_reports.report import DisplayedExamples
from bert_tf.models.config import EncoderConfig
from bert_tf.models.encoder import Encoder
from bert_tf.models.heads import ClassificationHead
from bert_tf.models.recurrent import bilstm_on_top
from bert_tf.models.windows import MeanOfWindows, TakeWindows
from bert_tf.tasks.abstention import Abstaining, check_abstention, check_fitted
from bert_tf.tasks.base import TrainedTask
from bert_tf.tasks.class_weights import class_weights
from bert_tf.tasks.classification.data import (
    ClassificationData,
    check_label_options,
    check_trained,
    source_from_options,
    windows_of,
)
from bert_tf.tasks.classification.encoding import targets as targets_of
from bert_tf.tasks.classification.encoding import tokenize_examples
from bert_tf.tasks.classification.foreign_models import declared_problem_type, problem_of
from bert_tf.tasks.classification.options import ClassificationOptions
from bert_tf.tasks.classification.outputs import leaderboard, write_class_predictions, write_leaderboard
from bert_tf.tasks.classification.problems import PROBLEMS, MultiLabel, check_options
from bert_tf.tasks.losses import sum_losses
from bert_tf.tasks.recurrent import RECURRENT_HEAD, lstm_option
from bert_tf.tasks.sequences import at_least_one, encode_served_texts


class ClassificationTask(Abstaining):
    """Text classification or regression: encoder and `ClassificationHead`; see `tasks/base.py` for the methods.

    With `lstm_units`, the head is a `BiLSTMHead` on all tokens instead.

    Args:
        config: configuration of the encoder.
        num_labels: width of the head; 1 for regression.
        problem: "single_label", "multi_label" or "regression". With multiple labels, those with a probability above
            their thresholds are predicted; which ones is served as `predicted`, beside all probabilities, and the most
            probable label as `label`.
        labels: names of the outputs, for predictions; by default "0", "1", ...
        metric_names: metrics to report; by default those of the problem. "ece" is always added for labels.
        gradient_checkpointing: as in `Encoder`.
        class_weights: float > 0 per label: the weight of its examples in the training loss, which is divided by the sum
            of the weights (`balanced`: see `tasks/class_weights.py`). With multiple labels, the weight of the label's
            own decision.
        label_smoothing: fraction of the training target that is spread over all labels, 0 to 1.
        temperature: divisor of the logits before they become probabilities (Guo et al. 2017, section 4.2). It affects
            neither predicted labels nor training nor the `loss` of an evaluation; "ece" is computed with it.
        windows: a `data.windowed.Windowing`, or the dict made by its `to_dict`: the model reads long texts in windows,
            takes int32 [B, N, S] instead of [B, S], and averages the windows' logits. If None, one sequence per text.
        every_window: as in `models/windows.py`: whether the model will be compiled with XLA.
        lstm_units: units per direction of the BiLSTM. If None, there is none.
        abstention: an `evaluation.abstention.Abstention`, or the dict made by its `to_dict`: the probability from which
            a prediction is confident. With multiple labels, the least confident one counts. If None, predictions are
            not marked.
        thresholds: float per label, for multiple labels: the probability above which it is predicted. If None, it is
            0.5 for all.

    Weights and smoothing only affect training: `example_losses`, and thus the `loss` of an evaluation, ignores them, so
    that runs can be compared.

    Raises:
        ValueError: an unknown problem, or options that do not fit it.
    """

    name = "classification"
    options = ClassificationOptions()
    files = (*Abstaining.files, "test_results*.tsv", "predictions*.jsonl", *glue_tasks.LEADERBOARD)
    features = ENCODER_INPUTS
    head = ("classifier/.*",)
    targets: tuple[str, ...] = ("label_ids",)  # of one label; otherwise as the problem says
    uses_pooler = takes_pairs = True

    def __init__(
        self,
        config: EncoderConfig,
        num_labels: int,
        problem: str = "single_label",
        labels: list[str] | None = None,
        metric_names: tuple[str, ...] | None = None,
        gradient_checkpointing: bool = False,
        class_weights: tuple[float, ...] | None = None,
        label_smoothing: float = 0.0,
        temperature: float = 1.0,
        windows: Windowing | dict | None = None,
        every_window: bool = False,
        lstm_units: int | None = None,
        abstention: Abstention | dict | None = None,
        thresholds: Sequence[float] | None = None,
    ):
        self.class_weights = None if class_weights is None else tuple(map(float, class_weights))
        self.label_smoothing = float(label_smoothing)
        self.temperature = float(temperature)
        check_options(problem, num_labels, self.class_weights, self.label_smoothing, self.temperature, thresholds)
        self.config = config
        self.num_labels = num_labels
        self.problem = MultiLabel(thresholds) if thresholds is not None else PROBLEMS[problem]
        self.problem_name = problem
        self.outputs = [str(i) for i in range(num_labels)] if labels is None else list(labels)
        assert len(self.outputs) == num_labels, (self.outputs, num_labels)
        chosen = dict.fromkeys(metric_names or self.problem.metrics_of(num_labels))
        self.metric_names = (*chosen, "ece") if self.problem.has_labels and "ece" not in chosen else tuple(chosen)
        self.gradient_checkpointing = gradient_checkpointing
        self.windows = Windowing(**windows) if isinstance(windows, dict) else windows
        self.every_window = every_window
        self.lstm_units = lstm_units
        self.take_abstention(abstention)
        self._describe(self.problem)
        if lstm_units:
            self.head, self.uses_pooler = RECURRENT_HEAD, False

    def _describe(self, problem):
        self.targets, self.labels = (problem.target,), self.outputs if problem.has_labels else None
        self.has_windows = self.reads_whole_texts = self.windows is not None
        self.has_temperature, self.has_several_labels = problem.has_labels, problem.has_several_labels
        self.example_method, self.metrics_note = problem.example_method, problem.metrics_note

    @classmethod
    def with_foreign_defaults(cls, options, model):
        said, given = declared_problem_type(model.config), options.where_given("problem_type")
        if said and given not in (None, said):
            raise ValueError(
                f"`problem_type` must match the trained model's, {said}; got {given}; omit it, or train the "
                "model again with `do_train`."
            )
        problem = problem_of(model.config, model.labels)
        return dataclasses.replace(options, problem_type=problem) if problem else options

    @classmethod
    def from_pretrained(cls, directory, model):
        """Returns a classifier of single texts: the files do not show whether it was trained on pairs."""
        problem = problem_of(model.config, model.labels)
        if problem is None:
            return None
        labels = model.labels if PROBLEMS[problem].has_labels else None
        task = cls(model.config, len(labels) if labels else 1, problem, labels)
        return TrainedTask(task, ("text",), model.config.max_length)

    @classmethod
    def read_data(cls, options, kinds, trained):
        source = source_from_options(options, trained)
        check_label_options(options, source)
        check_fitted("fit_temperature", options.fit_temperature, options.do_eval)
        check_fitted("fit_thresholds", options.fit_thresholds, options.do_eval)
        check_abstention(options)
        several = {"label_separator": "label_separator" in options.given, "fit_thresholds": options.fit_thresholds}
        given = [name for name, is_given in several.items() if is_given and not source.has_several_labels]
        if given:
            raise ValueError(
                f"`{given[0]}` requires `problem_type=multi_label`, but the problem is {source.problem}. Set "
                f"`problem_type=multi_label`, or remove `{given[0]}`."
            )
        return ClassificationData(source.read(kinds), source.text_inputs, source=source)

    @classmethod
    def checked_examples(cls, examples, data, options):
        """Returns the data to check: texts, labels or values, and how a table was read."""
        source, targets = data.source, examples.labels
        label = None if source.label_columns else source.label_column
        table = None if source.task else TableLayout(source.header, source.text_columns, label)
        if targets is not None and source.has_several_labels:
            targets = list(map(frozenset, targets))
        labels = examples.labels if source.has_labels else None
        bad = {"bad_labels": examples.bad_labels, "bad_texts": examples.bad_texts}
        bad |= {"dialect": source.dialect}
        return CheckedExamples(examples.path, examples.where, examples.texts, targets, labels, table=table, **bad)

    @classmethod
    def create(cls, model, data, options, before, use_xla=False):
        if before is None and not options.do_train:
            _check_problem(model, data.source)
        labels = list(data.labels) if data.labels else data.source.labels(data.examples, model.labels)
        of_run = {
            "metric_names": data.source.metrics,
            "gradient_checkpointing": options.gradient_checkpointing,
            "every_window": use_xla,
        }
        if before and not options.do_train:
            check_trained(options, before.task.windows)
            return cls(model.config, **before.task.to_dict() | of_run)
        weights = None
        if labels and "train" in data.examples:
            label_ids = targets_of(data.examples["train"], labels, data.source.problem)["label_ids"]
            weights = class_weights(options.class_weights, labels, label_ids, example_weights=data.weights)
        return cls(
            model.config,
            len(labels) if labels else 1,
            data.source.problem,
            labels,
            class_weights=weights,
            label_smoothing=options.label_smoothing,
            temperature=before.task.temperature if before else 1.0,  # a finished run keeps the fitted values
            thresholds=before.task.problem.fitted_thresholds if before else None,
            abstention=before.task.abstention if before else None,
            windows=windows_of(options),
            lstm_units=options.lstm_units,
            **of_run,
        )

    def to_dict(self) -> dict:
        options: dict[str, Any] = {"class_weights": None, "label_smoothing": 0.0, "temperature": 1.0}
        changed = {name: getattr(self, name) for name, usual in options.items() if getattr(self, name) != usual}
        if self.windows is not None:
            changed["windows"] = dataclasses.asdict(self.windows)
        if self.problem.fitted_thresholds:
            changed["thresholds"] = list(self.problem.fitted_thresholds)
        return {"num_labels": self.num_labels, "problem": self.problem_name, "labels": self.outputs, **changed,
                **lstm_option(self.lstm_units), **self.abstention_as_option()}  # fmt: skip

    def build_model(self) -> keras.Model:
        inputs = keras_inputs(self.features, windows=self.windows is not None)
        sequences = inputs if self.windows is None else TakeWindows(self.every_window, name="take_windows")(inputs)
        logits = self._logits(Encoder(self.config, gradient_checkpointing=self.gradient_checkpointing), sequences)
        if self.windows is not None:
            logits = MeanOfWindows(self.every_window, name="mean_of_windows")(logits, inputs["input_mask"])
        return keras.Model(inputs, logits, name="classification")

    def _logits(self, encoder, sequences):
        if self.lstm_units:
            return bilstm_on_top(encoder, sequences, self.num_labels, self.lstm_units, of_row=True)
        head = ClassificationHead.of(self.config, self.num_labels)
        return head(encoder(sequences)["pooled_output"])

    def identity(self):
        options: dict[str, Any] = {"class_weights": self.class_weights and list(self.class_weights)}
        options |= {"lstm_units": self.lstm_units}
        return {name: value for name, value in options.items() if value}

    def head_difference(self, saved, config, labels):
        problem = saved.get("problem", "single_label") if saved else problem_of(config, labels)
        same = problem in (None, self.problem_name)
        return super().head_difference(saved, config, labels) or ("" if same else f"its problem type is {problem}")

    def encode_examples(self, tokenizer, examples, max_seq_length, with_targets):
        return tokenize_examples(tokenizer, examples, max_seq_length, self.labels, self.problem_name, self.windows)

    def example_weights(self, batch):
        if self.class_weights is None:
            return super().example_weights(batch)
        return self.problem.example_weights(batch[self.problem.target], tf.constant(self.class_weights))

    def loss(self, outputs, batch, normalizers):
        weights = None if self.class_weights is None else tf.constant(self.class_weights)
        losses = self.problem.losses(outputs, batch[self.problem.target], weights, self.label_smoothing)
        return sum_losses(losses, batch) / normalizers["examples"]

    def distillation_losses(self, outputs, teacher_outputs, batch, temperature):
        return self.problem.distillation_losses(outputs, teacher_outputs, temperature) * self.example_weights(batch)

    def example_losses(self, outputs, batch):
        losses = self.problem.losses(outputs, batch[self.problem.target], None, 0.0)
        return losses, tf.ones_like(losses)

    def answers(self, outputs: np.ndarray) -> np.ndarray:
        """Converts logits [n, L] to probabilities [n, L], or scores [n] for regression."""
        return self.problem.answers(outputs.astype(np.float64) / self.temperature)

    def card_limitations(self, max_seq_length):
        if self.windows is None:
            return super().card_limitations(max_seq_length)
        most = self.windows.max_windows
        return [f"A text is read in at most {most} windows of {max_seq_length} tokens; the rest is ignored."]

    def card_facts(self):
        return self.problem.card_facts(self.outputs)

    def preprocess(self, tokenizer, texts, max_seq_length):
        if self.windows is None:
            return encode_served_texts(tokenizer, texts, max_seq_length), None
        features = windowed.read_windows(tokenizer, texts, max_seq_length, self.windows)
        return {name: at_least_one(values) for name, values in features.items()}, None

    def postprocess(self, outputs, origin=None):
        logits = outputs if self.temperature == 1 else outputs / self.temperature
        served = self.problem.serve(logits, tf.constant(self.outputs))
        return served | self._judged(served.get("probabilities"))

    def certainty(self, outcome):
        answers, target = self.decode(outcome), outcome.encoded.targets[self.problem.target]
        return self.problem.confidence(answers).numpy(), self.problem.right(answers, target)

    def _judged(self, probabilities):
        """Returns what is served beside the probabilities, tensors or arrays, by the thresholds."""
        confident = self.confident(self.problem.confidence(probabilities)) if self.abstention else {}
        return self.problem.predicted(probabilities) | confident

    def example_answer(self, outputs, origin=None):
        return self.problem.serve_example(self.postprocess(outputs))

    def metrics(self, outputs, encoded):
        answers, target = self.answers(outputs), encoded.targets[self.problem.target]
        chosen = [name for name in self.metric_names if name != "ece"]
        scores = self.problem.score(answers, target, chosen, self.num_labels)
        if self.problem.has_labels:
            scores["ece"] = calibration.expected_calibration_error(answers, target)
        return scores

    def fit_temperature(self, outputs: np.ndarray, targets: dict[str, np.ndarray]) -> float:
        """Fits, sets and returns the temperature with the lowest loss on held-out examples.

        Args:
            outputs: logits [n, L].
            targets: {name: [n]}, as from `examples.targets`.
        """
        assert self.problem.has_labels, self.problem_name
        self.temperature = calibration.fit_temperature(outputs, targets[self.problem.target])
        return self.temperature

    def evaluate(self, outcomes):
        if self.options.fit_temperature:
            first = outcomes[0]
            temperature = self.fit_temperature(first.outputs, first.encoded.targets)
            logging.info("Temperature fitted on %s: %.4f", first.examples.path, temperature)
        if self._fits_thresholds():
            self._fit_thresholds(outcomes[0])
        return super().evaluate(outcomes)

    def _fits_thresholds(self):
        """A new temperature moves all probabilities, and fitted thresholds follow."""
        return self.options.fit_thresholds or bool(self.problem.fitted_thresholds and self.options.fit_temperature)

    def _fit_thresholds(self, outcome):
        target = outcome.encoded.targets[self.problem.target]
        self.problem = MultiLabel(calibration.fit_thresholds(self.decode(outcome), target, self.outputs))
        pairs = zip(self.outputs, self.problem.fitted_thresholds, strict=True)
        shown = ", ".join(f"{label} {threshold:.4f}" for label, threshold in pairs)
        logging.info("Thresholds fitted on %s: %s", outcome.examples.path, shown)

    def share_to_fit(self):
        """A new temperature moves all probabilities, new thresholds change predictions, and this threshold follows."""
        moved = self.options.fit_temperature or self.options.fit_thresholds
        return super().share_to_fit() or (self.abstention.share if self.abstention and moved else None)

    def fitted_metrics(self):
        found = super().fitted_metrics()
        if self.options.fit_temperature:
            found |= {"ece"}
        if self._fits_thresholds():
            found |= {*self.metric_names} - {"ece"}
        return found

    def error_report(self, outcome):
        target, separator = outcome.encoded.targets[self.problem.target], self.options.label_separator
        read = outcome.examples
        shown = DisplayedExamples(read.path, read.ids, read.lines, read.texts, outcome.encoded.lengths)
        return self.problem.error_report(shown, target, self.decode(outcome), self.outputs, separator)

    def decode(self, outcome):
        return self.answers(outcome.outputs)

    def write_answers(self, directory, outcome, answers):
        examples = outcome.examples
        more = {name: np.asarray(each) for name, each in self._judged(answers).items()}
        write_class_predictions(directory, examples, answers, self.labels, outcome.suffix, more)
        if wanted := leaderboard(self.options.task_name, outcome.split):
            name, scale = wanted
            chosen = self.problem.choose(answers, self.outputs)
            write_leaderboard(directory, name, examples.ids, chosen, scale)


def _check_problem(model, source):
    """Raises ValueError if a GLUE task does not match the problem of a model trained elsewhere."""
    problem = problem_of(model.config, model.labels)
    if source.task and problem not in (None, source.problem):
        raise ValueError(
            f"The trained model does not match `task_name={source.task.name}`, which is for {source.problem}: "
            f"according to its configuration, the model is for {problem}. Pass a model for {source.problem}."
        )
