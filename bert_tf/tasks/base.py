"""Tasks that are trained on files and served: the interface that training, evaluation, prediction and export use.

    TrainableTask     a model, its loss, and what is kept of its outputs         pretraining
    ServableTask      text to the model's inputs, its outputs to answers         fill-mask
    FineTuningTask    both, and files: read, encoded, scored, answered           classification, SQuAD, tagging

None of them depends on a concrete task.
"""

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from bert_tf.data.checked_examples import CheckedExamples
from bert_tf.evaluation.error_reports.report import ErrorReport
from bert_tf.evaluation.metrics import mean_loss
from bert_tf.models.config import EncoderConfig
from bert_tf.models.sentence_transformers_files import PoolingConfig
from bert_tf.tasks.losses import sum_losses
from bert_tf.tasks.options import RunOptions
from bert_tf.tasks.servable_task import ServableTask
from bert_tf.tasks.trainable_task import EncodedExamples, Outputs, ReducedOutputs, Tensors, TrainableTask
from bert_tf.utils.html_report import Page
from bert_tf.utils.json_files import json_text

if TYPE_CHECKING:
    from typing_extensions import Self  # in `typing` from Python 3.11 on


class Examples(Protocol):
    """The examples of one file, in file order.

    Attributes:
        path: the file.
        ids: a name for each.
    """

    path: str
    ids: list[str]

    def __len__(self) -> int: ...


@dataclasses.dataclass(frozen=True)
class TaskData:
    """The examples that a task has read for a run.

    Attributes:
        examples: split -> its examples; splits are "train", "dev", "test" (without targets) and "final" (with them), or
            "dev_<name>" if there are several of a kind, whose files and metrics have names ending in `_<name>`.
        text_inputs: names of the texts of an example in prediction requests, such as ("text",).
        labels: the labels in the order of their ids. If None, they are those of the training examples.
        weights: relative weight of each training example in the loss, float [n]. If None, all are 1.
    """

    examples: Mapping[str, Examples]
    text_inputs: tuple[str, ...] = ("text",)
    labels: Sequence[str] | None = None
    weights: np.ndarray | None = None


class SplitPredictions(NamedTuple):
    """The outputs of a model for the examples of one split.

    Attributes:
        split: such as "dev" or "test_mismatched".
        examples: the examples of the file.
        encoded: the encoded examples.
        outputs: the outputs kept by the task.
        losses: sums and weights, float32 [n] each. If None, there are no targets.
    """

    split: str
    examples: Examples
    encoded: EncodedExamples
    outputs: ReducedOutputs
    losses: tuple[np.ndarray, np.ndarray] | None

    @property
    def suffix(self) -> str:
        """The suffix of this split's files and metrics: "" or "_mismatched"."""
        _, _, name = self.split.partition("_")
        return f"_{name}" if name else ""


@dataclasses.dataclass(frozen=True)
class TrainedTask:
    """A task as described by the task.json of a trained model, or by its other files.

    Attributes:
        task: the task, with the options that it was trained with; for sparse embeddings, one that is only served.
        text_inputs: names of the texts of an example: ("text",), ("text_a", "text_b"), ("question", "context").
        max_seq_length: maximum sequence length in training.
    """

    task: "FineTuningTask"
    text_inputs: tuple[str, ...]
    max_seq_length: int


class FineTuningTask(TrainableTask, ServableTask):
    """A task that is trained and evaluated on files, predicts for files, and can be served.

    It is a `TrainableTask` and a `ServableTask` with the following in addition.

    Attributes:
        name: name in task.json.
        options: options of the run; the class has an instance with the defaults, which defines the options.
        files: patterns of the files it writes to output_dir, in addition to those of every run.
        labels: names of the outputs in the order of their ids, for labels.txt. If None, they have no names.
        architecture: suffix of Transformers' class for the task, such as "ForMultipleChoice". If None, the head's names
            and the pooler determine it.
        recipe: pooling settings of a sentence encoder. If None, the task does not produce embeddings.
        has_temperature: whether its outputs are logits, which a temperature can soften, instead of values.
        has_windows: whether an example has several sequences: per-token tensors are [B, N, S].
        every_window: as in `models/windows.py`, for tasks with windows.
    """

    name: ClassVar[str]
    options: RunOptions = RunOptions()
    files: ClassVar[tuple[str, ...]] = ()
    example_method = None
    uses_pooler = False
    labels: list[str] | None = None
    architecture: str | None = None
    recipe: PoolingConfig | None = None
    has_temperature: bool = True
    has_windows: bool = False
    every_window: bool = False

    # From files to a task.

    @classmethod
    @abc.abstractmethod
    def read_data(cls, options: RunOptions, kinds: Sequence[str], trained: TrainedTask | None) -> TaskData:
        """Reads the files of a run.

        Args:
            options: options of the run, of the class of `cls.options`, as in all methods.
            kinds: kinds of splits: some of `options.ACTIONS`; "test" is read without targets.
            trained: the existing model, if it is not trained now. If None, there is none.

        Raises:
            ValueError: options contradict each other or the model, or a file is not as described.
        """

    @classmethod
    def write_rows(cls, path: str, rows: Sequence[Mapping[str, Any]]) -> str:
        """Writes examples in memory as a file that `read_data` reads; by default, as JSON Lines.

        Args:
            path: path of the file, without its extension.
            rows: the examples; keys are names of columns, and values are JSON values.

        Returns:
            the path of the file.
        """
        with open(f"{path}.jsonl", "w", encoding="utf-8") as file:
            file.writelines(json_text(row, ensure_ascii=False) + "\n" for row in rows)
        return file.name

    @classmethod
    @abc.abstractmethod
    def create(
        cls, model: Any, data: TaskData, options: RunOptions, before: TrainedTask | None, use_xla: bool = False
    ) -> "Self":
        """Creates the task of a run.

        Args:
            model: the `loading.ModelDescription` of the initial model.
            data: the result of `read_data`.
            options: options of the run.
            before: the existing model, including one of an interrupted run. If None, there is none.
            use_xla: whether the model will be compiled.

        Raises:
            ValueError: options contradict each other, the data or the model.
        """

    @classmethod
    def with_trained_defaults(cls, options: RunOptions, trained: TrainedTask) -> RunOptions:
        """Returns the options that a model was trained with, as defaults for options that the user did not set.

        Raises:
            ValueError: the user has set options that the model does not support.
        """
        return dataclasses.replace(options, max_seq_length=trained.max_seq_length)

    @classmethod
    def with_foreign_defaults(cls, options: RunOptions, model: Any) -> RunOptions:
        """Returns the options stored in the files of a model trained with other software.

        Args:
            options: options of a run without training.
            model: its `loading.ModelDescription`; it has no task.json.

        Raises:
            ValueError: the user has set other options than those in the files.
        """
        return options

    @classmethod
    def from_pretrained(cls, directory: str, model: Any) -> TrainedTask | None:
        """Returns the task of a model trained with other software, from its files, or None if they do not define it.

        Args:
            directory: the model directory.
            model: its `loading.ModelDescription`.

        Raises:
            ValueError: it is for this task, in a variant that is not supported.
        """
        return None

    @abc.abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Returns the arguments, except `config`, that recreate this task; JSON values."""

    def identity(self) -> dict[str, Any]:
        """Returns what decides the result of training: a run can only resume with the same.

        The values of options that are declared with `decides_result=True` are added to it.
        """
        return {}

    def label_name(self, output: str) -> str:
        """Returns the name by which users know the label of an output, the end of `output`; "" if it has none."""
        return output

    def head_difference(self, saved: Mapping[str, Any], config: EncoderConfig, labels: Sequence[str]) -> str:
        """Returns why the rows of a trained head mean something else than this task's; "" if they mean the same.

        Args:
            saved: the task.json of the trained model; {} if it has none.
            config: its configuration.
            labels: labels of its outputs.
        """
        other = saved.get("task", self.name)
        return "" if other == self.name else f"it was trained for {other}"

    @classmethod
    def checked_examples(cls, examples: Examples, data: TaskData, options: RunOptions) -> CheckedExamples | None:
        """Returns the data to check of the examples of a file of `data` (`example_checks`), or None."""
        return None

    # From examples to token sequences, and from outputs to metrics and files.

    @abc.abstractmethod
    def encode_examples(
        self, tokenizer: Any, examples: Examples, max_seq_length: int, with_targets: bool
    ) -> EncodedExamples:
        """Encodes examples into model inputs, with targets if requested and available."""

    def sequence_weights(self, encoded: EncodedExamples, weights: np.ndarray) -> np.ndarray:
        """Returns the weight of each encoded sequence; `weights`, float [n], are those of the examples."""
        return weights

    def example_weights(self, batch: Tensors) -> tf.Tensor:
        """Returns float32 [B]: each example's weight in the loss, to be multiplied by `is_real_example`."""
        return tf.ones_like(batch["is_real_example"])

    def loss_normalizers(self, batch: Tensors) -> Tensors:
        return {"examples": tf.reduce_sum(self.example_weights(batch) * batch["is_real_example"])}

    def loss(self, outputs: Outputs, batch: Tensors, normalizers: Tensors) -> tf.Tensor:
        losses, _ = self.example_losses(outputs, batch)
        return sum_losses(losses, batch) / normalizers["examples"]

    def distillation_losses(
        self, outputs: Outputs, teacher_outputs: Outputs, batch: Tensors, temperature: float
    ) -> tf.Tensor:
        """Computes the distillation loss of each example, float32 [B]: its distance to the teacher, weighted.

        Args:
            outputs, teacher_outputs: outputs of the model and of the teacher for the same task and labels.
            batch: as in `loss`.
            temperature: above 0, applied to both; the result is multiplied by its square.
        """
        raise AssertionError(f"{self.name} does not support distillation")

    def reduce_outputs(self, outputs: Outputs, batch: Tensors) -> Outputs:
        return outputs

    # The following methods are called on the task of a run, with `options`.

    def evaluate(self, outcomes: Sequence[SplitPredictions]) -> dict[str, float]:
        """Computes the metrics over all evaluation files, and fits settings such as a threshold on them.

        Args:
            outcomes: predictions for the "dev" splits, at least one, or for "final".
        """
        scores = {}
        for outcome in outcomes:
            values = self.metrics(outcome.outputs, outcome.encoded) | {"loss": mean_loss(outcome.losses)}
            scores |= {f"{name}{outcome.suffix}": value for name, value in values.items()}
        return scores

    def fitted_metrics(self) -> set[str]:
        """Returns the names of the metrics that `evaluate` computes with values that it fits to the same examples."""
        return set()

    def error_report(self, outcome: SplitPredictions) -> ErrorReport | None:
        """Returns the true labels and predictions of a file for the report page and eval_predictions.tsv; None if they
        do not support this task.

        Args:
            outcome: predictions for a split with labels, after `evaluate`.
        """
        return None

    def extra_report_sections(self, page: Page, outcomes: Sequence[SplitPredictions]) -> None:
        """Adds sections on all evaluated files to the report page, after `error_report`; by default none."""

    def write_scored(self, directory: str, outcomes: Sequence[SplitPredictions], suffix: str = "") -> None:
        """Writes more files on the evaluation examples, besides eval_results.txt and eval_predictions.tsv.

        File names end in `suffix` before the extension.
        """

    @abc.abstractmethod
    def decode(self, outcome: SplitPredictions) -> Any:
        """Converts the outputs for a file to predictions, one per example."""

    @abc.abstractmethod
    def write_answers(self, directory: str, outcome: SplitPredictions, answers: Any) -> None:
        """Writes the predictions of `decode` for a prediction file."""

    def score_answers(self, outcome: SplitPredictions, answers: Any) -> dict[str, float]:
        """Computes the metrics of such predictions if the prediction file has labels; otherwise {}."""
        return {}

    def example_answer(self, outputs: Outputs, origin: Any = None) -> Tensors:
        raise AssertionError(f"{self.name} has no signature on tf.Example")
