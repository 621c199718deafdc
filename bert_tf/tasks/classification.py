"""Classification of one text or a pair: the whole of BERT's fine-tuning for GLUE (Devlin et al. 2018, section 4.1)."""

import dataclasses

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config import EncoderConfig
from bert_tf.data import windowed
from bert_tf.data.features import ENCODER_INPUTS, keras_inputs
from bert_tf.data.windowed import Windows
from bert_tf.evaluation import calibration
from bert_tf.modeling.encoder import Encoder
from bert_tf.modeling.heads import ClassificationHead
from bert_tf.modeling.windows import MeanOfWindows, TakeWindows
from bert_tf.tasks.problems import PROBLEMS, check_options
from bert_tf.tasks.task import at_least_one, check_first_token, read_rows


class ClassificationTask:
    """The encoder with `ClassificationHead` on its pooled output; see `tasks/task.py` for what the methods mean.

    Args:
        config: of the encoder.
        num_labels: width of the head; 1 for regression.
        problem: "single_label", "multi_label" or "regression". Of several labels those hold whose probability is over
            0.5; what is served is all probabilities, and as `label` the most probable one.
        labels: names of the outputs, for answers; by default "0", "1", ...
        metric_names: which scores to report; by default the problem's own. With labels "ece" comes to them always.
        rematerialize: as in `Encoder`.
        class_weights: float for each label, > 0: what its examples count in the training loss, which is divided by the
            sum of the examples' weights (`balanced` ones: --class_weights). Of several labels, what the label's
            own question counts.
        label_smoothing: share of the training target that is spread over all labels, 0 to 1.
        temperature: what the logits are divided by before they become probabilities (Guo et al. 2017, section 4.2). It
            changes no label, and neither training nor the `loss` of an evaluation; "ece" is of the probabilities given.
        windows: a `data.windowed.Windows`, or the dict that `to_dict` made of one: the model reads long texts through
            windows, takes int32 [B, N, S] instead of [B, S], and averages the windows' logits. None: it reads one row.
        every_window: as in `modeling/windows.py`: the model shall be trained or asked with XLA.

    Weights and smoothing change training alone: `example_losses`, and so the `loss` of an evaluation, is without them,
    that runs may be compared.

    Raises:
        ValueError: an unknown problem, options that do not fit it, or an encoder whose first token sees only itself.
    """

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
        windows: Windows | dict | None = None,
        every_window: bool = False,
    ):
        check_first_token(config, "A classifier")
        self.class_weights = None if class_weights is None else tuple(map(float, class_weights))
        self.label_smoothing = float(label_smoothing)
        self.temperature = float(temperature)
        check_options(problem, num_labels, self.class_weights, self.label_smoothing, self.temperature)
        self.config = config
        self.num_labels = num_labels
        self.problem = PROBLEMS[problem]
        self.problem_name = problem
        self.labels = [str(i) for i in range(num_labels)] if labels is None else list(labels)
        assert len(self.labels) == num_labels, (self.labels, num_labels)
        chosen = dict.fromkeys(metric_names or self.problem.default_metrics)
        self.metric_names = (*chosen, "ece") if self.problem.has_labels and "ece" not in chosen else tuple(chosen)
        self.rematerialize = rematerialize
        self.windows = Windows(**windows) if isinstance(windows, dict) else windows
        self.every_window = every_window

    def to_dict(self) -> dict:
        """Returns the arguments, beside `config`, that make this task again."""
        options = {"class_weights": None, "label_smoothing": 0.0, "temperature": 1.0}  # old files have none of them
        changed = {name: getattr(self, name) for name, usual in options.items() if getattr(self, name) != usual}
        if self.windows is not None:
            changed["windows"] = dataclasses.asdict(self.windows)
        return {"num_labels": self.num_labels, "problem": self.problem_name, "labels": self.labels, **changed}

    def build_model(self) -> keras.Model:
        inputs = keras_inputs(self.features, windows=self.windows is not None)
        rows = inputs if self.windows is None else TakeWindows(self.every_window, name="take_windows")(inputs)
        encoder = Encoder(self.config, rematerialize=self.rematerialize)
        head = ClassificationHead(self.num_labels, self.config.hidden_dropout_prob, self.config.initializer_range)
        logits = head(encoder(rows)["pooled_output"])
        if self.windows is not None:
            logits = MeanOfWindows(self.every_window, name="mean_of_windows")(logits, inputs["input_mask"])
        return keras.Model(inputs, logits, name="classification")

    def denominators(self, batch):
        real = batch["is_real_example"]
        if self.class_weights is not None:
            real = real * self.problem.example_weights(batch[self.problem.target], tf.constant(self.class_weights))
        return {"examples": tf.reduce_sum(real)}

    def loss(self, outputs, batch, denominators):
        weights = None if self.class_weights is None else tf.constant(self.class_weights)
        losses = self.problem.losses(outputs, batch[self.problem.target], weights, self.label_smoothing)
        return tf.reduce_sum(losses * batch["is_real_example"]) / denominators["examples"]

    def example_losses(self, outputs, batch):
        return self.problem.losses(outputs, batch[self.problem.target], None, 0.0)

    def collected(self, outputs, batch):
        return outputs

    def answers(self, outputs: np.ndarray) -> np.ndarray:
        """Turns logits [n, L] into probabilities [n, L], or scores [n] for regression."""
        return self.problem.answers(outputs.astype(np.float64) / self.temperature)

    @property
    def example_method(self):
        return self.problem.example_method

    def read(self, tokenizer, texts, max_seq_length):
        if self.windows is None:
            return read_rows(tokenizer, texts, max_seq_length), None
        features = windowed.read(tokenizer, texts, max_seq_length, self.windows)
        return {name: at_least_one(values) for name, values in features.items()}, None

    def answer(self, outputs, origin=None):
        logits = outputs if self.temperature == 1 else outputs / self.temperature
        return self.problem.serve(logits, tf.constant(self.labels))

    def example_answer(self, outputs, origin=None):
        return self.problem.serve_example(self.answer(outputs))

    def metrics(self, outputs, targets):
        answers, target = self.answers(outputs), targets[self.problem.target]
        chosen = [name for name in self.metric_names if name != "ece"]
        scores = self.problem.score(answers, target, chosen, self.num_labels)
        if self.problem.has_labels:
            scores["ece"] = calibration.expected_calibration_error(answers, target)
        return scores

    def fit_temperature(self, outputs: np.ndarray, targets: dict[str, np.ndarray]) -> float:
        """Sets and returns the temperature of the least loss on examples that were not trained on.

        Args:
            outputs: logits [n, L].
            targets: as for `metrics`.
        """
        assert self.problem.has_labels, self.problem_name
        self.temperature = calibration.fit_temperature(outputs, targets[self.problem.target])
        return self.temperature
