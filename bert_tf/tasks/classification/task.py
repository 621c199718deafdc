"""Classification of one text or a pair: the whole of BERT's fine-tuning for GLUE (Devlin et al. 2018, section 4.1)."""

import dataclasses

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.data import glue_tasks, windowed
from bert_tf.data.features import ENCODER_INPUTS, keras_inputs
from bert_tf.data.windowed import Windowing
from bert_tf.evaluation import calibration
from bert_tf.evaluation.abstention import Abstention
from bert_tf.models.config import EncoderConfig
from bert_tf.models.encoder import Encoder
from bert_tf.models.heads import ClassificationHead
from bert_tf.models.recurrent import bilstm_on_top
from bert_tf.models.windows import MeanOfWindows, TakeWindows
from bert_tf.tasks import recurrent
from bert_tf.tasks.abstention import Abstaining
from bert_tf.tasks.classification import data as readers
from bert_tf.tasks.classification import options, writers
from bert_tf.tasks.classification.data import check_trained, windows_of
from bert_tf.tasks.classification.examples import shown, tokenize_examples
from bert_tf.tasks.classification.examples import targets as targets_of
from bert_tf.tasks.classification.problems import PROBLEMS, check_options
from bert_tf.tasks.classification.source import leaderboard
from bert_tf.tasks.labels import class_weights
from bert_tf.tasks.others import problem_of, said_problem
from bert_tf.tasks.texts import at_least_one, single_rows


class ClassificationTask(Abstaining):
    """The encoder with `ClassificationHead` on its pooled output; see `tasks/task.py` for what the methods mean.

    With `lstm_units` the head is a `BiLSTMHead` on all pieces instead.

    Args:
        config: of the encoder.
        num_labels: width of the head; 1 for regression.
        problem: "single_label", "multi_label" or "regression". Of several labels those hold whose probability is over
            0.5; what is served is all probabilities, and as `label` the most probable one.
        labels: names of the outputs, for answers; by default "0", "1", ...
        metric_names: which scores to report; by default the problem's own. With labels "ece" comes to them always.
        rematerialize: as in `Encoder`.
        class_weights: float for each label, > 0: what its examples count in the training loss, which is divided by the
            sum of the examples' weights (`balanced` ones: `tasks/labels.py`). Of several labels, what the label's own
            question counts.
        label_smoothing: share of the training target that is spread over all labels, 0 to 1.
        temperature: what the logits are divided by before they become probabilities (Guo et al. 2017, section 4.2). It
            changes no label, and neither training nor the `loss` of an evaluation; "ece" is of the probabilities given.
        windows: a `data.windowed.Windowing`, or the dict that `to_dict` made of one: the model reads long texts through
            windows, takes int32 [B, N, S] instead of [B, S], and averages the windows' logits. None: it reads one row.
        every_window: as in `models/windows.py`: the model is to be trained or asked with XLA.
        lstm_units: of each direction of the BiLSTM; None: there is none.
        abstention: an `evaluation.abstention.Abstention`, or the dict that `to_dict` made of one: by which probability
            an answer is confident. Of several labels, that of the least sure one counts. None: no answer says so.

    Weights and smoothing change training alone: `example_losses`, and so the `loss` of an evaluation, is without them,
    that runs may be compared.

    Raises:
        ValueError: an unknown problem, or options that do not fit it.
    """

    name = "classification"
    flags = options.FLAGS
    files = (*Abstaining.files, "test_results*.tsv", "predictions*.jsonl", *glue_tasks.LEADERBOARD)
    features = ENCODER_INPUTS
    head = ("classifier/.*",)
    uses_pooler = True

    def __init__(
        self,
        config: EncoderConfig,
        num_labels: int,
        problem: str = "single_label",
        labels: list[str] | None = None,
        metric_names: tuple[str, ...] | None = None,
        rematerialize: bool = False,
        class_weights: tuple[float, ...] | None = None,
        label_smoothing: float = 0.0,
        temperature: float = 1.0,
        windows: Windowing | dict | None = None,
        every_window: bool = False,
        lstm_units: int | None = None,
        abstention: Abstention | dict | None = None,
    ):
        self.class_weights = None if class_weights is None else tuple(map(float, class_weights))
        self.label_smoothing = float(label_smoothing)
        self.temperature = float(temperature)
        check_options(problem, num_labels, self.class_weights, self.label_smoothing, self.temperature)
        self.config = config
        self.num_labels = num_labels
        self.problem = PROBLEMS[problem]
        self.problem_name = problem
        self.outputs = [str(i) for i in range(num_labels)] if labels is None else list(labels)
        assert len(self.outputs) == num_labels, (self.outputs, num_labels)
        chosen = dict.fromkeys(metric_names or self.problem.default_metrics)
        self.metric_names = (*chosen, "ece") if self.problem.has_labels and "ece" not in chosen else tuple(chosen)
        self.rematerialize = rematerialize
        self.windows = Windowing(**windows) if isinstance(windows, dict) else windows
        self.every_window = every_window
        self.lstm_units = lstm_units
        self.take_abstention(abstention)
        if lstm_units:
            self.head, self.uses_pooler = recurrent.HEAD, False

    @classmethod
    def adopted_from_others(cls, settings, model):
        said, given = said_problem(model.config), settings.where_given("problem_type")
        if said and given not in (None, said):
            raise ValueError(
                f"`problem_type` must be the trained model's, {said}. Received: {given}; leave it out, or train the "
                "model anew with `do_train`."
            )
        return settings.adopt({"problem_type": problem_of(model.config, model.labels)})

    @classmethod
    def read_data(cls, settings, kinds, trained):
        return readers.read_data(settings, kinds, trained)

    @classmethod
    def samples(cls, data, settings):
        return readers.samples(data)

    @classmethod
    def create(cls, model, data, settings, before, use_xla=False):
        if before is None and not settings.do_train:
            _check_problem(model, data.source)
        labels = data.source.labels(data.examples, model.labels)
        options = {"metric_names": data.source.metrics, "rematerialize": settings.rematerialize}
        options |= {"every_window": use_xla}
        if before and not settings.do_train:
            check_trained(settings, before.task.windows)
            return cls(model.config, **before.task.to_dict() | options)
        weights = None
        if labels and "train" in data.examples:
            label_ids = targets_of(data.examples["train"], labels, data.source.problem)["label_ids"]
            weights = class_weights(settings.class_weights, labels, label_ids)
        return cls(
            model.config,
            len(labels) if labels else 1,
            data.source.problem,
            labels,
            class_weights=weights,
            label_smoothing=settings.label_smoothing,
            temperature=before.task.temperature if before else 1.0,  # a run that is finished keeps what was fitted
            abstention=before.task.abstention if before else None,
            windows=windows_of(settings),
            lstm_units=recurrent.lstm_units(settings),
            **options,
        )

    @property
    def targets(self):
        return (self.problem.target,)

    @property
    def labels(self):
        return self.outputs if self.problem.has_labels else None

    @property
    def has_windows(self):
        return self.windows is not None

    @property
    def has_temperature(self):
        return self.problem.has_labels

    def to_dict(self) -> dict:
        options = {"class_weights": None, "label_smoothing": 0.0, "temperature": 1.0}  # old files have none of them
        changed = {name: getattr(self, name) for name, usual in options.items() if getattr(self, name) != usual}
        if self.windows is not None:
            changed["windows"] = dataclasses.asdict(self.windows)
        return {"num_labels": self.num_labels, "problem": self.problem_name, "labels": self.outputs, **changed,
                **recurrent.as_option(self.lstm_units), **self.abstention_as_option()}  # fmt: skip

    def build_model(self) -> keras.Model:
        inputs = keras_inputs(self.features, windows=self.windows is not None)
        rows = inputs if self.windows is None else TakeWindows(self.every_window, name="take_windows")(inputs)
        logits = self._logits(Encoder(self.config, rematerialize=self.rematerialize), rows)
        if self.windows is not None:
            logits = MeanOfWindows(self.every_window, name="mean_of_windows")(logits, inputs["input_mask"])
        return keras.Model(inputs, logits, name="classification")

    def _logits(self, encoder, rows):
        if self.lstm_units:
            return bilstm_on_top(encoder, rows, self.num_labels, self.lstm_units, of_row=True)
        c = self.config
        head = ClassificationHead(self.num_labels, c.hidden_dropout_prob, c.initializer_range, c.classifier_act)
        return head(encoder(rows)["pooled_output"])

    def identity(self):
        options = {"class_weights": self.class_weights and list(self.class_weights)}
        options |= {"label_smoothing": self.label_smoothing, "lstm_units": self.lstm_units}
        return {name: value for name, value in options.items() if value}

    def lay_out(self, tokenizer, examples, max_seq_length, with_targets):
        return tokenize_examples(tokenizer, examples, max_seq_length, self.labels, self.problem_name, self.windows)

    def example_weights(self, batch):
        if self.class_weights is None:
            return super().example_weights(batch)
        return self.problem.example_weights(batch[self.problem.target], tf.constant(self.class_weights))

    def loss(self, outputs, batch, denominators):
        weights = None if self.class_weights is None else tf.constant(self.class_weights)
        losses = self.problem.losses(outputs, batch[self.problem.target], weights, self.label_smoothing)
        return tf.reduce_sum(losses * batch["is_real_example"]) / denominators["examples"]

    def soft_losses(self, outputs, taught, batch, temperature):
        return self.problem.soft_losses(outputs, taught, temperature) * self.example_weights(batch)

    def example_losses(self, outputs, batch):
        losses = self.problem.losses(outputs, batch[self.problem.target], None, 0.0)
        return losses, tf.ones_like(losses)

    def answers(self, outputs: np.ndarray) -> np.ndarray:
        """Turns logits [n, L] into probabilities [n, L], or scores [n] for regression."""
        return self.problem.answers(outputs.astype(np.float64) / self.temperature)

    @property
    def example_method(self):
        return self.problem.example_method

    def limits(self, max_seq_length):
        if self.windows is None:
            return super().limits(max_seq_length)
        most = self.windows.max_windows
        return [f"A text is read through {most} windows of {max_seq_length} word pieces at most; the rest is cut off."]

    @property
    def reads_whole_texts(self):
        return self.windows is not None

    def read(self, tokenizer, texts, max_seq_length):
        if self.windows is None:
            return single_rows(tokenizer, texts, max_seq_length), None
        features = windowed.read(tokenizer, texts, max_seq_length, self.windows)
        return {name: at_least_one(values) for name, values in features.items()}, None

    def answer(self, outputs, origin=None):
        logits = outputs if self.temperature == 1 else outputs / self.temperature
        served = self.problem.serve(logits, tf.constant(self.outputs))
        return served | self._confident(served.get("probabilities"))

    def certainty(self, outcome):
        answers, target = self.decode(outcome), outcome.rows.targets[self.problem.target]
        return self.problem.confidence(answers).numpy(), self.problem.right(answers, target)

    def _confident(self, probabilities):
        return self.confident(self.problem.confidence(probabilities)) if self.abstention else {}

    def example_answer(self, outputs, origin=None):
        return self.problem.serve_example(self.answer(outputs))

    def metrics(self, outputs, rows):
        answers, target = self.answers(outputs), rows.targets[self.problem.target]
        chosen = [name for name in self.metric_names if name != "ece"]
        scores = self.problem.score(answers, target, chosen, self.num_labels)
        if self.problem.has_labels:
            scores["ece"] = calibration.expected_calibration_error(answers, target)
        return scores

    def fit_temperature(self, outputs: np.ndarray, targets: dict[str, np.ndarray]) -> float:
        """Sets and returns the temperature of the least loss on examples that were not trained on.

        Args:
            outputs: logits [n, L].
            targets: {name: [n]}, as `examples.targets` gives them.
        """
        assert self.problem.has_labels, self.problem_name
        self.temperature = calibration.fit_temperature(outputs, targets[self.problem.target])
        return self.temperature

    def evaluate(self, outcomes, settings):
        if settings.fit_temperature:
            first = outcomes[0]
            temperature = self.fit_temperature(first.outputs, first.rows.targets)
            logging.info("The temperature that fits %s best: %.4f", first.examples.path, temperature)
        return super().evaluate(outcomes, settings)

    def judged(self, outcome, settings):
        target, separator = outcome.rows.targets[self.problem.target], settings.get("label_separator", ",")
        examples = shown(outcome.examples, outcome.rows.lengths)
        return self.problem.judge(examples, target, self.decode(outcome), self.outputs, separator)

    def decode(self, outcome):
        return self.answers(outcome.outputs)

    def write_answers(self, directory, outcome, answers, settings):
        examples = outcome.examples
        more = {name: each.numpy().tolist() for name, each in self._confident(answers).items()}
        writers.write_predictions(directory, examples, answers, self.labels, outcome.suffix, more)
        if wanted := leaderboard(settings.task_name, outcome.split):
            name, scale = wanted
            chosen = self.problem.choose(answers, self.outputs)
            writers.write_leaderboard(directory, name, examples.ids, chosen, scale)


def _check_problem(model, source):
    """Raises ValueError where a GLUE task asks a model that others trained for other answers than it gives."""
    problem = problem_of(model.config, model.labels)
    if source.task and problem not in (None, source.problem):
        raise ValueError(
            f"The trained model must be one for {source.problem}, as `task_name={source.task.name}` is. Received one "
            f"for {problem}, as its configuration says; name another model."
        )
