"""The interface of tasks: everything that training, evaluation, export and serving ask of one."""

import abc
import dataclasses
import types
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import keras
import numpy as np
import tensorflow as tf

from bert_tf.data.dataset import Tokenized
from bert_tf.data.lint_sample import LintSample
from bert_tf.data.windowed import Windowed
from bert_tf.evaluation.error_reports.common import ErrorReport
from bert_tf.evaluation.metrics import mean_loss
from bert_tf.models.config import EncoderConfig
from bert_tf.models.recurrent import RECURRENT
from bert_tf.models.sentence_transformers_files import PoolingConfig
from bert_tf.tasks.options import RecurrentOptions, RunOptions
from bert_tf.utils.html_report import Page

# === Parts ===
# A task that can be trained, and one that can be served: each can stand alone.


Tensors = Mapping[str, tf.Tensor]
Outputs = tf.Tensor | Tensors  # of a model: one tensor, or several by name
ReducedOutputs = np.ndarray | Mapping[str, np.ndarray]  # the same of a whole file, [n, ...]
EncodedExamples = Tokenized | Windowed


class BaseTask(Protocol):
    """A model's configuration, inputs and head, which every task has.

    Attributes:
        config: of the encoder.
        features: names of the model's inputs, from `data/features.py`.
        head: patterns of the paths of the task's own head; `checkpoints/heads.py` knows all others.
        uses_pooler: whether the encoder's pooler is used.
    """

    config: EncoderConfig
    features: tuple[str, ...]
    head: tuple[str, ...]
    uses_pooler: bool

    @abc.abstractmethod
    def build_model(self) -> keras.Model:
        """Returns a new functional model from `features` to this task's outputs."""


class TrainableTask(BaseTask, Protocol):
    """A task that `training/` can train and score.

    Attributes:
        targets: names of the features that the loss compares the outputs with.
        metric_names: what `metrics` returns.
        loss_weights: of the parts that the loss is the sum of, by the names that such figures have among the scores:
            "masked_lm_loss"; empty: it has no parts.
    """

    targets: tuple[str, ...]
    metric_names: tuple[str, ...]
    loss_weights: Mapping[str, float] = types.MappingProxyType({})

    @abc.abstractmethod
    def loss_normalizers(self, batch: Tensors) -> Tensors:
        """Returns what the losses are divided by, float32 []: sums over the batch, which add up over its parts."""

    def loss_parts(self, outputs: Outputs, batch: Tensors, normalizers: Tensors) -> Tensors:
        """Returns {part: float32 []} for the names in `loss_weights`, not yet weighed; in all else as `loss`."""
        raise AssertionError("a task must have `loss_weights` and `loss_parts`, or a `loss` of its own")

    def loss(self, outputs: Outputs, batch: Tensors, normalizers: Tensors) -> tf.Tensor:
        """Returns float32 []: the sum of the examples' losses over `normalizers`, which may be of a larger batch.

        Here the sum of the parts by their weights. A training step makes that sum itself, to have the parts too.
        """
        parts = self.loss_parts(outputs, batch, normalizers)
        return tf.add_n([weight * parts[name] for name, weight in self.loss_weights.items()])

    @abc.abstractmethod
    def example_losses(self, outputs: Outputs, batch: Tensors) -> tuple[tf.Tensor, tf.Tensor] | None:
        """Returns each example's loss and its weight in the mean over examples, float32 [B] each; or None."""

    @abc.abstractmethod
    def reduce_outputs(self, outputs: Outputs, batch: Tensors) -> Outputs:
        """Returns what is kept of a batch when a file is scored or answered: a tensor [B, ...], or a dict of them.

        In the graph. Where batches differ in shape after B, the narrower ones are padded with 0.
        """

    @abc.abstractmethod
    def metrics(self, outputs: ReducedOutputs, encoded: EncodedExamples | None) -> dict[str, float]:
        """Returns {metric: score} over a whole file of examples; `outputs` is what `reduce_outputs` kept, in numpy."""


class ServableTask(BaseTask, Protocol):
    """A task that `export/` can turn into signatures.

    Attributes:
        name: of the task.
        example_method: name of the signature that takes tf.Examples, "classify" or "regress"; None: there is none.
        labels: names of the outputs, in the order of their ids; None: they have none.
        list_inputs: names of the text inputs of which an example has several, strings [n, k] instead of [n].
        reads_whole_texts: a long text is read through windows, and not only as far as one sequence goes.
    """

    name: str
    example_method: str | None
    labels: list[str] | None = None
    list_inputs: tuple[str, ...] = ()
    reads_whole_texts: bool = True

    def for_serving(self, model: keras.Model) -> keras.Model:
        """Returns what is served of a model that `build_model` returned: here, all of it."""
        return model

    def card_limitations(self, max_seq_length: int) -> list[str]:
        """Returns the limitations of the served model for its model card, one sentence each."""
        return [
            f"Only the first {max_seq_length} tokens of an example, including special tokens, are read."
        ]

    @abc.abstractmethod
    def read(self, tokenizer: Any, texts: Sequence[tf.Tensor], max_seq_length: int) -> tuple[Tensors, Any]:
        """Turns texts into the model's inputs, in the graph.

        Args:
            tokenizer: a `Tokenizer`, or anything with its interface.
            texts: tensors of strings [n], one for each text that an example has; [n, k] for `list_inputs`.
            max_seq_length: of the longest sequence.

        Returns:
            {name: tensor} for `features`, and what `answer` needs besides the outputs, or None.
        """

    @abc.abstractmethod
    def answer(self, outputs: Outputs, origin: Any = None) -> Tensors:
        """Returns what is served for the outputs: {name: tensor [n, ...]}.

        Args:
            outputs: what the model made of `read`'s features, or of features that were sent as they are.
            origin: what `read` gave with them; None for features that were sent as they are.
        """

    @abc.abstractmethod
    def example_answer(self, outputs: Outputs, origin: Any = None) -> Tensors:
        """Returns what `example_method` serves: `scores` and `classes` [n, L], or `outputs` [n, 1]."""


# === Task ===
# Training, evaluation, prediction and export ask the task; none of them knows a concrete one.
#
#     TrainableTask     a model, its loss, and what is kept of its outputs         pretraining
#     ServableTask      text to the model's inputs, its outputs to answers         fill-mask
#     FineTuningTask    both, and files: read, encoded, scored, answered           classification, SQuAD, tagging


class Examples(Protocol):
    """The examples of one file, in its order.

    Attributes:
        path: the file.
        ids: a name for each.
    """

    path: str
    ids: list[str]

    def __len__(self) -> int: ...


@dataclasses.dataclass(frozen=True)
class TaskData:
    """The examples that a task read for a run.

    Attributes:
        examples: split -> its examples; splits are "train", "dev" and "test", and where there are several of a kind
            "dev_<name>": names of files and scores of such a split end in `_<name>`.
        text_inputs: names of the texts that an example has where the model is asked, such as ("text",).
    """

    examples: Mapping[str, Examples]
    text_inputs: tuple[str, ...] = ("text",)


class SplitPredictions(NamedTuple):
    """The outputs of a model for the examples of one split.

    Attributes:
        split: such as "dev" or "test_mismatched".
        examples: the file's.
        encoded: the same, as the model read them.
        outputs: what the task kept of its outputs.
        losses: sums and weights, float32 [n] each; None without targets.
    """

    split: str
    examples: Examples
    encoded: EncodedExamples
    outputs: ReducedOutputs
    losses: tuple[np.ndarray, np.ndarray] | None

    @property
    def suffix(self) -> str:
        """The end of the names of this split's files and scores: "" or "_mismatched"."""
        return self.split.removeprefix("dev").removeprefix("test")


@dataclasses.dataclass(frozen=True)
class TrainedTask:
    """A task as described by the task.json of a trained model.

    Attributes:
        task: with the options that it was trained with.
        text_inputs: names of the texts that an example has: ("text",), ("text_a", "text_b"), ("question", "context").
        max_seq_length: of the longest sequence in training.
    """

    task: "FineTuningTask"
    text_inputs: tuple[str, ...]
    max_seq_length: int


class FineTuningTask(TrainableTask, ServableTask):
    """A task that learns from files, answers for files, and is served: `TrainableTask`, `ServableTask` and what
    follows.

    Attributes:
        name: in task.json.
        options: of the run; the class has an instance with the defaults, which says what options there are.
        files: patterns of what it writes into output_dir, in addition to what every run writes.
        labels: names of the outputs in the order of their ids, for labels.txt; None: they have no names.
        architecture: what Transformers' class for the task is called behind the family's name, "ForMultipleChoice";
            None: the head's names and the pooler decide.
        recipe: how the model makes a vector of a text; None: that is not what it is for.
        has_temperature: its outputs are logits, which a temperature softens; else they are values.
        has_windows: an example has several sequences: what is per token is [B, N, S].
        every_window: as in `models/windows.py`, for tasks with windows.
    """

    name: ClassVar[str]
    options: RunOptions = RunOptions()
    files: ClassVar[tuple[str, ...]] = ()
    example_method = None
    uses_pooler = False
    labels: list[str] | None = None
    architecture: ClassVar[str | None] = None
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
            options: of the run, of the class of `cls.options`, as everywhere here.
            kinds: of splits: some of "train", "dev" and "test"; the last is read without targets.
            trained: the existing model, which is not trained now; None: there is none.

        Raises:
            ValueError: options contradict each other or the model, or a file is not as described.
        """

    @classmethod
    @abc.abstractmethod
    def create(
        cls, model: Any, data: TaskData, options: RunOptions, before: TrainedTask | None, use_xla: bool = False
    ) -> Self:
        """Returns the task of a run.

        Args:
            model: the `loading.Description` of what it starts from.
            data: of `read_data`.
            options: of the run.
            before: the existing model, also one that this run trained earlier and continues; None: there is none.
            use_xla: the model will be compiled.

        Raises:
            ValueError: options contradict each other, the data or the model.
        """

    @classmethod
    def with_trained_defaults(cls, options: RunOptions, trained: TrainedTask) -> RunOptions:
        """Returns the options that a model was trained with; the program takes them where the user gave none.

        Raises:
            ValueError: the user gave others than the model can have.
        """
        return dataclasses.replace(options, max_seq_length=trained.max_seq_length)

    @classmethod
    def with_foreign_defaults(cls, options: RunOptions, model: Any) -> RunOptions:
        """Returns the options that are given in the files of a model trained with other software.

        Args:
            options: of a run that does not train.
            model: its `loading.Description`; there is no task.json with it.

        Raises:
            ValueError: the user gave others than the files say.
        """
        return options

    @classmethod
    def from_foreign_model(cls, directory: str, model: Any) -> TrainedTask | None:
        """Returns the task of a model trained with other software, read from its files; None: they do not name it.

        Args:
            directory: of the model.
            model: its `loading.Description`.

        Raises:
            ValueError: it is for this task, in a way that is not served here.
        """
        return None

    @abc.abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Returns the arguments, except `config`, that recreate this task; JSON values."""

    def identity(self) -> dict[str, Any]:
        """Returns which of the task's options decide what training computes: a run continues only with the same."""
        return {}

    @classmethod
    def lint_sample(cls, examples: Examples, data: TaskData, options: RunOptions) -> LintSample | None:
        """Returns what is checked of the examples of a file (`example_checks`), one of `data`; None: nothing is."""
        return None

    # From examples to sequences of tokens, and from outputs to scores and files.

    @abc.abstractmethod
    def encode_examples(
        self, tokenizer: Any, examples: Examples, max_seq_length: int, with_targets: bool
    ) -> EncodedExamples:
        """Returns examples as the model reads them, with targets where they are wanted and known."""

    def example_weights(self, batch: Tensors) -> tf.Tensor:
        """Returns float32 [B]: each example's weight in the loss, to be multiplied by `is_real_example`."""
        return tf.ones_like(batch["is_real_example"])

    def loss_normalizers(self, batch):
        return {"examples": tf.reduce_sum(self.example_weights(batch) * batch["is_real_example"])}

    def loss(self, outputs, batch, normalizers):
        losses, _ = self.example_losses(outputs, batch)
        return tf.reduce_sum(losses * batch["is_real_example"]) / normalizers["examples"]

    def distillation_losses(
        self, outputs: Outputs, teacher_outputs: Outputs, batch: Tensors, temperature: float
    ) -> tf.Tensor:
        """Returns float32 [B]: how far each example's outputs are from a teacher's, times its weight in the loss.

        Args:
            outputs, teacher_outputs: of the model and of another one for the same task and labels.
            batch: as in `loss`.
            temperature: over 0, that softens both; the result is multiplied by its square.
        """
        raise AssertionError(f"{self.name} does not support distillation")

    def reduce_outputs(self, outputs, batch):
        return outputs

    # What follows is asked of the task of a run, with `options`.

    def evaluate(self, outcomes: Sequence[SplitPredictions]) -> dict[str, float]:
        """Returns the scores over all files to score on; the task keeps what it learns from them, such as a threshold.

        Args:
            outcomes: of the splits of "dev", one at least.
        """
        scores = {}
        for outcome in outcomes:
            values = self.metrics(outcome.outputs, outcome.encoded) | {"loss": mean_loss(outcome.losses)}
            scores |= {f"{name}{outcome.suffix}": value for name, value in values.items()}
        return scores

    def error_report(self, outcome: SplitPredictions) -> ErrorReport | None:
        """Returns the examples of a file with right answers, these, and the model's, as the page of the run and
        eval_predictions.tsv show them; None: they show nothing of this task.

        Args:
            outcome: of a split whose right answers are known, after `evaluate`.
        """
        return None

    def extra_report_sections(self, page: Page, outcomes: Sequence[SplitPredictions]):
        """Adds sections on all scored files to the page of the run, in addition to `error_report`; here, none."""

    def write_scored(self, directory: str, outcomes: Sequence[SplitPredictions], suffix: str = ""):
        """Writes further files on the scored examples, in addition to eval_results.txt and eval_predictions.tsv.

        The names of files end in `suffix` before the extension, as theirs do.
        """

    @abc.abstractmethod
    def decode(self, outcome: SplitPredictions) -> Any:
        """Returns the answer for each example of a file."""

    @abc.abstractmethod
    def write_answers(self, directory: str, outcome: SplitPredictions, answers: Any):
        """Writes the answers for a file to answer, as `decode` gave them."""

    def score_answers(self, outcome: SplitPredictions, answers: Any) -> dict[str, float]:
        """Returns the scores of such answers, where the file to answer holds the right ones; else {}."""
        return {}

    def example_answer(self, outputs, origin=None):
        raise AssertionError(f"{self.name} has no signature on tf.Example")


# === Shared by tasks ===
# The BiLSTM between the encoder and the head, as the paper has it on its left-to-right model (section 5.1), and the
# names of Transformers' classes.


RECURRENT_HEAD = (f"{RECURRENT}/.*",)  # the paths of its weights


def read_lstm_units(options: RecurrentOptions) -> int | None:
    """Returns the units of each direction of the BiLSTM that is asked for; None: there is to be none.

    Raises:
        ValueError: it does not go together with another option.
    """
    if options.lstm_units and options.lora_rank:
        raise ValueError(
            "`lstm_units` and `lora_rank` cannot be combined, because the format of adapters does not include a "
            f"BiLSTM. Received `lstm_units={options.lstm_units}` and `lora_rank={options.lora_rank}`; remove one of "
            "them."
        )
    return options.lstm_units


def lstm_option(units: int | None) -> dict[str, int]:
    """Returns what task.json, and what a run must have alike to be continued, say of a BiLSTM; {}: there is none."""
    return {"lstm_units": units} if units else {}


def names_class(config: EncoderConfig, ending: str) -> bool:
    """Whether a configuration of Transformers names a class that ends so: "ForTokenClassification"."""
    named = config.extra.get("architectures")
    names = [*(named if isinstance(named, list) else []), config.extra.get("head_class")]
    return any(isinstance(name, str) and name.endswith(ending) for name in names)
