"""Classification of one text or a pair: the whole of BERT's fine-tuning for GLUE (Devlin et al. 2018, section 4.1)."""

import dataclasses
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config import EncoderConfig
from bert_tf.data.features import ENCODER_INPUTS, keras_inputs
from bert_tf.evaluation import metrics
from bert_tf.modeling.encoder import Encoder
from bert_tf.modeling.heads import ClassificationHead


@dataclasses.dataclass(frozen=True)
class Problem:
    """What the head's numbers stand for.

    Attributes:
        target: the feature that the loss compares them with: `label_ids` [B], `label_ids` [B, L] of 0 and 1 for
            several labels, or `label_values` [B].
        losses: (float32 logits [B, L], target) -> float32 [B].
        answers: logits as numpy [n, L] -> probabilities [n, L], or scores [n].
        score: (answers, target, names, L) -> {metric: score}.
        default_metrics: what is reported where nobody chose.
        serve: (logits, label names) -> what is served, {name: tensor}; in the graph.
        example_method: TensorFlow Serving's request on tf.Examples that fits, "classify" or "regress".
        serve_example: what `serve` returned -> what that request answers with.
    """

    target: str
    losses: Callable
    answers: Callable
    score: Callable
    default_metrics: tuple[str, ...]
    serve: Callable
    example_method: str
    serve_example: Callable


def _softmax(logits):
    shifted = np.exp(logits - logits.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def _several_losses(logits, target):
    each = tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.cast(target, tf.float32), logits=logits)
    return tf.reduce_mean(each, -1)


def _serve_labels(squash):
    def serve(logits, names):
        return {
            "label": tf.gather(names, tf.argmax(logits, -1)),
            "probabilities": squash(logits),
            "labels": tf.tile(names[tf.newaxis], [tf.shape(logits)[0], 1]),
        }

    return serve


def _as_classes(served):
    return {"scores": served["probabilities"], "classes": served["labels"]}


PROBLEMS = {
    "single_label": Problem(
        "label_ids",
        lambda logits, target: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logits),
        _softmax,
        lambda answers, target, names, n: metrics.classification(target, answers.argmax(-1), names, n),
        ("accuracy", "f1", "precision", "recall", "matthews"),
        _serve_labels(tf.nn.softmax),
        "classify",
        _as_classes,
    ),
    "multi_label": Problem(
        "label_ids",
        _several_losses,
        lambda logits: 1 / (1 + np.exp(-logits)),
        lambda answers, target, names, n: metrics.classification(target.ravel(), (answers > 0.5).ravel(), names, 2),
        ("accuracy", "f1"),
        _serve_labels(tf.sigmoid),
        "classify",
        _as_classes,
    ),
    "regression": Problem(
        "label_values",
        lambda logits, target: tf.math.squared_difference(logits[:, 0], target),
        lambda logits: logits[:, 0],
        lambda answers, target, names, n: metrics.regression(target, answers, names),
        ("pearson", "spearman"),
        lambda logits, names: {"score": logits[:, 0]},
        "regress",
        lambda served: {"outputs": served["score"][:, tf.newaxis]},
    ),
}


class ClassificationTask:
    """The encoder with `ClassificationHead` on its pooled output; see `tasks/task.py` for what the methods mean.

    Args:
        config: of the encoder.
        num_labels: width of the head; 1 for regression.
        problem: "single_label", "multi_label" or "regression".
        labels: names of the outputs, for answers; by default "0", "1", ...
        metric_names: which scores to report; by default the problem's own.
        rematerialize: as in `Encoder`.
    """

    features = ENCODER_INPUTS
    # A sentence encoder may come without a pooler; what a pretraining or fine-tuning checkpoint has on top is not ours.
    fresh = ("classifier/.*", "bert/pooler/dense/.*")
    unused = ("cls/.*",)

    def __init__(
        self,
        config: EncoderConfig,
        num_labels: int,
        problem: str = "single_label",
        labels: list[str] | None = None,
        metric_names: tuple[str, ...] | None = None,
        rematerialize: bool = False,
    ):
        if problem not in PROBLEMS:
            raise ValueError(f"problem must be one of {sorted(PROBLEMS)}. Received: {problem!r}.")
        self.config = config
        self.num_labels = num_labels
        self.problem = PROBLEMS[problem]
        self.problem_name = problem
        self.labels = [str(i) for i in range(num_labels)] if labels is None else list(labels)
        assert len(self.labels) == num_labels, (self.labels, num_labels)
        self.metric_names = tuple(metric_names or self.problem.default_metrics)
        self.rematerialize = rematerialize

    def to_dict(self) -> dict:
        """Returns the arguments, beside `config`, that make this task again."""
        return {"num_labels": self.num_labels, "problem": self.problem_name, "labels": self.labels}

    def build_model(self) -> keras.Model:
        inputs = keras_inputs(self.features)
        encoder = Encoder(self.config, rematerialize=self.rematerialize)
        head = ClassificationHead(self.num_labels, self.config.hidden_dropout_prob, self.config.initializer_range)
        return keras.Model(inputs, head(encoder(inputs)["pooled_output"]), name="classification")

    def denominators(self, batch):
        return {"examples": tf.reduce_sum(batch["is_real_example"])}

    def loss(self, outputs, batch, denominators):
        return tf.reduce_sum(self.example_losses(outputs, batch) * batch["is_real_example"]) / denominators["examples"]

    def example_losses(self, outputs, batch):
        return self.problem.losses(outputs, batch[self.problem.target])

    def answers(self, outputs: np.ndarray) -> np.ndarray:
        """Turns logits [n, L] into probabilities [n, L], or scores [n] for regression."""
        return self.problem.answers(outputs.astype(np.float64))

    @property
    def example_method(self):
        return self.problem.example_method

    def answer(self, outputs):
        return self.problem.serve(outputs, tf.constant(self.labels))

    def example_answer(self, outputs):
        return self.problem.serve_example(self.answer(outputs))

    def metrics(self, outputs, targets):
        target = targets[self.problem.target]
        return self.problem.score(self.answers(outputs), target, self.metric_names, self.num_labels)
