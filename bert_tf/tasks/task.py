"""What a task is. Training, evaluation, prediction and export ask the task; none of them knows a concrete one.

    Trainable    a model, its loss, and what is kept of its outputs            pretraining
    Served       text to the model's inputs, its outputs to answers            fill-mask
    FineTuned    both, and files: read, laid out in rows, scored, answered     classification, SQuAD, tagging
"""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
import tensorflow as tf

from bert_tf.data.checks.samples import Sample
from bert_tf.evaluation.error_reports.judged import Judged
from bert_tf.evaluation.metrics import mean_loss
from bert_tf.models.sentence_files import Recipe
from bert_tf.tasks.protocols import Collected, Outputs, Rows, Served, Tensors, Trainable
from bert_tf.utils.report import Page
from bert_tf.utils.settings import Flag, Settings

ACTIONS = {"train": "train", "dev": "eval", "test": "predict"}  # kind of split -> the settings do_X and X_file


class Examples(Protocol):
    """The examples of one file, in its order.

    Attributes:
        path: the file.
        ids: a name for each.
    """

    path: str
    ids: list[str]

    def __len__(self) -> int: ...


class TaskData(Protocol):
    """What a task read for a run.

    Attributes:
        examples: split -> its examples; splits are "train", "dev" and "test", and where there are several of a kind
            "dev_<name>": names of files and scores of such a split end in `_<name>`.
        text_inputs: names of the texts that an example has where the model is asked, such as ("text",).
    """

    examples: dict[str, Examples]
    text_inputs: tuple[str, ...]


class Outcome(NamedTuple):
    """What a model gave for one split.

    Attributes:
        split: such as "dev" or "test_mismatched".
        examples: the file's.
        rows: as the model read them.
        outputs: what the task kept of its outputs.
        losses: sums and weights, float32 [n] each; None without targets.
    """

    split: str
    examples: Examples
    rows: Rows
    outputs: Collected
    losses: tuple[np.ndarray, np.ndarray] | None

    @property
    def suffix(self) -> str:
        """What the names of this split's files and scores end in: "" or "_mismatched"."""
        return self.split.removeprefix("dev").removeprefix("test")


@dataclasses.dataclass(frozen=True)
class TrainedTask:
    """A task as task.json beside a trained model describes it.

    Attributes:
        task: with the options that it was trained with.
        text_inputs: names of the texts that an example has: ("text",), ("text_a", "text_b"), ("question", "context").
        max_seq_length: longest row in training.
    """

    task: "FineTuned"
    text_inputs: tuple[str, ...]
    max_seq_length: int


class FineTuned(Trainable, Served):
    """A task that learns from files, answers for files, and is served: `Trainable`, `Served` and what follows.

    Attributes:
        name: in task.json.
        flags: of its program, beside those of all fine-tuning (`cli/fine_tuning.py`).
        files: patterns of what it writes into output_dir, beside what every run writes.
        labels: names of the outputs in the order of their ids, for labels.txt; None: they have no names.
        architecture: what Transformers' class for the task is called behind the family's name, "ForMultipleChoice";
            None: the head's names and the pooler tell.
        recipe: how the model makes a vector of a text; None: that is not what it is for.
        has_temperature: its outputs are logits, which a temperature softens; else they are values.
        has_windows: an example has several rows: what is per token is [B, N, S].
        every_window: as in `models/windows.py`, for tasks with windows.
    """

    name: ClassVar[str]
    flags: ClassVar[tuple[Flag, ...]] = ()
    files: ClassVar[tuple[str, ...]] = ()
    example_method = None
    uses_pooler = False
    labels: list[str] | None = None
    architecture: ClassVar[str | None] = None
    recipe: Recipe | None = None
    has_temperature: bool = True
    has_windows: bool = False
    every_window: bool = False

    # From files to a task.

    @classmethod
    @abc.abstractmethod
    def read_data(cls, settings: Settings, kinds: Sequence[str], trained: TrainedTask | None) -> TaskData:
        """Reads the files of a run.

        Args:
            settings: the flags.
            kinds: of splits: some of "train", "dev" and "test"; the last is read without targets.
            trained: the existing model, which is not trained now; None: there is none.

        Raises:
            ValueError: settings contradict each other or the model, or a file is not as described.
        """

    @classmethod
    @abc.abstractmethod
    def create(
        cls, model: Any, data: TaskData, settings: Settings, before: TrainedTask | None, use_xla: bool = False
    ) -> Self:
        """Returns the task of a run.

        Args:
            model: the `model_files.Description` of what it starts from.
            data: of `read_data`.
            settings: the flags.
            before: the existing model, also one that this run trained earlier and continues; None: there is none.
            use_xla: the model will be compiled.

        Raises:
            ValueError: settings contradict each other, the data or the model.
        """

    @classmethod
    def adopted(cls, settings: Settings, trained: TrainedTask) -> Settings:
        """Returns the settings with the values that a trained model was trained with, where the user gave none."""
        return settings.adopt({"max_seq_length": trained.max_seq_length})

    @classmethod
    def adopted_from_others(cls, settings: Settings, model: Any) -> Settings:
        """Returns the settings with what the files of a model that others trained say, where the user said nothing.

        Args:
            settings: of a run that does not train.
            model: its `model_files.Description`; there is no task.json beside it.

        Raises:
            ValueError: the user said something else than the files.
        """
        return settings

    @classmethod
    def recognize(cls, directory: str, model: Any) -> TrainedTask | None:
        """Returns the task of a model that others trained, as files beside it say; None: they say nothing of this task.

        Args:
            directory: of the model.
            model: its `model_files.Description`.

        Raises:
            ValueError: it is for this task, in a way that is not served here.
        """
        return None

    @abc.abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Returns the arguments, beside `config`, that recreate this task; JSON values."""

    def identity(self) -> dict[str, Any]:
        """Returns which of the task's options decide what training computes: a run continues only with the same."""
        return {}

    @classmethod
    def samples(cls, data: TaskData, settings: Settings) -> dict[str, Sample]:
        """Returns split -> what is checked of its examples (`data/checks`); {}: there is nothing to say of them.

        Args:
            data: of `read_data`.
            settings: the flags that it was read by.
        """
        return {}

    # From examples to rows, and from outputs to scores and files.

    @abc.abstractmethod
    def lay_out(self, tokenizer: Any, examples: Examples, max_seq_length: int, with_targets: bool) -> Rows:
        """Lays examples out in rows, with targets where they are wanted and known."""

    def example_weights(self, batch: Tensors) -> tf.Tensor:
        """Returns float32 [B]: each example's weight in the loss, to be multiplied by `is_real_example`."""
        return tf.ones_like(batch["is_real_example"])

    def denominators(self, batch):
        return {"examples": tf.reduce_sum(self.example_weights(batch) * batch["is_real_example"])}

    def loss(self, outputs, batch, denominators):
        losses, _ = self.example_losses(outputs, batch)
        return tf.reduce_sum(losses * batch["is_real_example"]) / denominators["examples"]

    def soft_losses(self, outputs: Outputs, taught: Outputs, batch: Tensors, temperature: float) -> tf.Tensor:
        """Returns float32 [B]: how far each example's outputs are from a teacher's, times its weight in the loss.

        Args:
            outputs, taught: of the model and of another one for the same task and labels.
            batch: as in `loss`.
            temperature: over 0, that softens both; the result is multiplied by its square.
        """
        raise AssertionError(f"{self.name} learns from no teacher")

    def collected(self, outputs, batch):
        return outputs

    def evaluate(self, outcomes: Sequence[Outcome], settings: Settings) -> dict[str, float]:
        """Returns the scores over all files to score on; the task keeps what it learns from them, such as a threshold.

        Args:
            outcomes: of the splits of "dev", one at least.
            settings: the flags.
        """
        scores = {}
        for outcome in outcomes:
            values = self.metrics(outcome.outputs, outcome.rows) | {"loss": mean_loss(outcome.losses)}
            scores |= {f"{name}{outcome.suffix}": value for name, value in values.items()}
        return scores

    def judged(self, outcome: Outcome, settings: Settings) -> Judged | None:
        """Returns the examples of a file with right answers, these, and the model's, as the page of the run and
        eval_predictions.tsv show them; None: they show nothing of this task.

        Args:
            outcome: of a split whose right answers are known, after `evaluate`.
            settings: the flags.
        """
        return None

    def show_more(self, page: Page, outcomes: Sequence[Outcome], settings: Settings):
        """Adds to the page of the run what is to be seen of all scored files beside `judged`; here, nothing."""

    def write_scored(self, directory: str, outcomes: Sequence[Outcome], settings: Settings, suffix: str = ""):
        """Writes, beside eval_results.txt and eval_predictions.tsv, what else there is to the scored examples.

        The names of files end in `suffix` before the extension, as theirs do.
        """

    @abc.abstractmethod
    def decode(self, outcome: Outcome) -> Any:
        """Returns the answer for each example of a file."""

    @abc.abstractmethod
    def write_answers(self, directory: str, outcome: Outcome, answers: Any, settings: Settings):
        """Writes the answers for a file to answer, as `decode` gave them."""

    def score_answers(self, outcome: Outcome, answers: Any) -> dict[str, float]:
        """Returns the scores of such answers, where the file to answer holds the right ones; else {}."""
        return {}

    def example_answer(self, outputs, origin=None):
        raise AssertionError(f"{self.name} has no signature on tf.Example")
