"""Options that several tasks have; those of one task are in its folder. Imports no TensorFlow, so `--help` is quick.

An option is a field of a dataclass. `option` gives it a flag of the task's program; a plain field has the name of a
flag that programs share.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from bert_tf.data.dialect import Dialect
from bert_tf.utils.settings import SCORES, UserSettings, option_as
from bert_tf.utils.settings import option as option

if TYPE_CHECKING:
    from typing_extensions import Self  # in `typing` from Python 3.11 on


# Kind of split -> the options do_X and X_file; a `test_file` has no action of its own: `do_eval` scores it last.
ACTIONS = {"train": "train", "dev": "eval", "test": "predict", "final": "test"}


@dataclasses.dataclass(frozen=True)
class RunOptions(UserSettings):
    """Options of the runs of all tasks: actions, files and sequence length.

    Attributes:
        test_file: labeled examples that are scored with the final model, by which nothing is selected or fitted.
        skip_bad_rows: malformed lines are skipped and counted, instead of ending the run.
    """

    GROUP: ClassVar[str] = "Data"

    train_file: str | None = option(None, "Training examples.", essential=True, decides_result="train_examples")
    eval_file: str | None = option(None, "Evaluation examples.", essential=True, decides_result=SCORES)
    predict_file: str | None = option(None, "Examples to predict for.", essential=True)
    test_file: str | None = option(
        None,
        "Labeled examples in the format of --eval_file, on which the final model is also evaluated. They are not used "
        "to select or fit anything. The names of the output files include that of the test file.",
        requires=("do_eval",), decides_result=SCORES,
    )
    output_dir: str | None = option(
        None,
        "Directory for checkpoints, metrics and predictions.",
        required=True, group="Output", essential=True,
    )
    init_checkpoint: str | None = option(
        None,
        "Model to start from: a Hugging Face, sentence-transformers or bert_tf directory, or a TF1 checkpoint "
        "(its directory or prefix).",
        group="Model", essential=True, decides_result="init_checkpoint", reads_model=True,
    )
    do_train: bool = option(False, "Train the model.", group="What to do", essential=True)
    do_eval: bool = option(False, "Evaluate on held-out examples.", group="What to do", essential=True)
    do_predict: bool = option(False, "Predict for examples without labels.", group="What to do", essential=True)
    max_seq_length: int = option(
        128,
        "Maximum sequence length in tokens, including special tokens. Without training, the default is that of a "
        "trained model, a published embedder or a published reranker.",
        low=3, group="Model", essential=True, decides_result="train_examples",
    )
    gradient_checkpointing: bool = option(
        False,
        "Recompute activations in the backward pass, to save memory.",
        group="Training", aliases=("rematerialize",),
    )
    skip_bad_rows: bool = dataclasses.field(default=False, metadata={"has_no_flag": True})

    @property
    def files(self) -> dict[str, str | None]:
        """The file of each kind of split."""
        return {kind: getattr(self, f"{action}_file") for kind, action in ACTIONS.items()}

    def without_fits(self) -> "Self":
        """Returns the options of a run that fits nothing on the examples that it scores."""
        fits = {field.name: field.default for field in dataclasses.fields(self) if field.name.startswith("fit_")}
        return dataclasses.replace(self, **fits)

    def file_of(self, kind: str, examples: str) -> str:
        """Returns the file of a kind of split; `examples` is a noun for its contents, for the message.

        Raises:
            ValueError: the file was not given.
        """
        path = self.files[kind]
        if not path:
            action = ACTIONS[kind]
            raise ValueError(f"`do_{action}` requires {examples}. Specify `{action}_file`.")
        return path


SEVERAL_FILES = "Several files, or a quoted glob pattern, are separated by commas."


@dataclasses.dataclass(frozen=True)
class TextFileOptions(RunOptions):
    """Options of tasks whose examples are in text files."""

    encoding: str | None = option_as(Dialect, "encoding", decides_result="train_examples")

    @property
    def dialect(self) -> Dialect:
        """How the files are written."""
        return Dialect(encoding=self.encoding)


@dataclasses.dataclass(frozen=True)
class TableOptions(TextFileOptions):
    """Options of tasks whose examples are in tables."""

    separator: str | None = option_as(Dialect, "separator", decides_result="train_examples")

    @property
    def dialect(self) -> Dialect:
        return Dialect(self.separator, self.encoding)


_TEXTS_BY_ID = "a .tsv file with id and text, without a header, or .jsonl or .parquet with id or _id, text and title."


@dataclasses.dataclass(frozen=True)
class RankingFileOptions(TableOptions):
    """Options of tasks whose files may be TREC runs: the files that a run refers to."""

    GROUP: ClassVar[str] = "Data"

    queries_file: str | None = option(
        None,
        f"Texts of the queries of runs: {_TEXTS_BY_ID}",
        decides_result="train_examples",
    )
    documents_file: str | None = option(
        None,
        f"Texts of the documents of runs: {_TEXTS_BY_ID}",
        decides_result="train_examples",
    )
    qrels_file: str | None = option(
        None,
        "Relevance judgments for the documents of runs, in TREC or BEIR format.",
        decides_result="train_examples",
    )


@dataclasses.dataclass(frozen=True)
class RecurrentOptions(RunOptions):
    """Options of tasks that may have a BiLSTM between encoder and head."""

    GROUP: ClassVar[str] = "Layers, adapters and loss"

    lstm_units: int | None = option(
        None,
        "Units per direction of a BiLSTM between encoder and head, which the BERT paper adds to a left-to-right "
        "encoder. Default: no BiLSTM.",
        low=1, requires=("do_train",), excludes=("lora_rank",),
        decides_result="lstm_units",  # the format of adapters has no BiLSTM
    )


@dataclasses.dataclass(frozen=True)
class SelectionOptions(RunOptions):
    """Options of tasks of which a metric selects the best checkpoint."""

    GROUP: ClassVar[str] = "Training"

    metric_for_best_model: str | None = option(
        None,
        "Metric that selects the best checkpoint, such as accuracy, f1, matthews or loss. Every checkpoint is "
        "evaluated on --eval_file, and the best one is kept.",
        essential=True, requires=("do_train",), aliases=("keep_best",), decides_result="metric_for_best_model",
    )
    early_stopping: int = option(
        0,
        "Number of consecutive checkpoints without improvement after which training stops. 0 turns it off.",
        low=0, requires=("do_train", "metric_for_best_model"), decides_result="early_stopping",
    )


@dataclasses.dataclass(frozen=True)
class LabelOptions(SelectionOptions):
    """Options of tasks whose examples, or words, have labels."""

    GROUP: ClassVar[str] = "Layers, adapters and loss"

    class_weights: Sequence[str] | None = option(
        None,
        "Weights of the labels in the loss: `balanced`, label:weight pairs, or a .json file with an object of "
        "labels and weights. Other labels have weight 1.",
        requires=("do_train",), decides_result="class_weights",
    )
    label_smoothing: float = option(
        0.0,
        "Fraction of the target distribution that is spread over all labels.",
        low=0, high=1, requires=("do_train",), decides_result=True,
    )
    rename_labels: Sequence[str] = option(
        [],
        "With a trained model as --init_checkpoint: old:new pairs of a label of the model and its name in "
        "--train_file. Renamed labels keep their weights in the head, like labels with unchanged names.",
        requires=("do_train",), decides_result="rename_labels",
    )


@dataclasses.dataclass(frozen=True)
class TeacherOptions(RunOptions):
    """The teacher and the distillation settings; defaults for tasks without these options."""

    GROUP: ClassVar[str] = "Distillation"

    teacher: str | None = option(
        None,
        "Model that was fine-tuned for the same task and labels; training also matches its predictions (knowledge "
        "distillation).",
        requires=("do_train",), decides_result="teacher", reads_model=True,
    )
    distillation_temperature: float = option(
        2.0,
        "Temperature that divides the teacher's and the student's logits before they are compared.",
        low=0, requires=("teacher",), decides_result="distillation_temperature",
    )
    distillation_weight: float = option(
        0.5,
        "Weight of the distillation loss against --teacher; the label loss gets the remainder.",
        low=0, high=1, requires=("teacher",), decides_result="distillation_weight",
    )


@dataclasses.dataclass(frozen=True)
class AbstentionOptions(RunOptions):
    """Options of tasks with selective prediction (abstention)."""

    GROUP: ClassVar[str] = "Evaluation"

    fit_abstention: float | None = option(
        None,
        "Choose, on --eval_file, the lowest confidence threshold at which this fraction of the accepted predictions is "
        "correct, such as 0.95 (selective prediction). The threshold is stored with the model, which then reports "
        "whether each prediction is confident.",
        low=0, high=1, requires=("do_eval",), decides_result=SCORES,
    )


# What several tasks say of their files.
AS_TRAINED = "in the formats of --train_file"
TABLE_FILES = f"a .tsv, .csv, .jsonl or .parquet file; the first three may be gzipped (.gz). {SEVERAL_FILES}"
DROP_EMPTY = option(
    False,
    "Drop rows of --train_file, --eval_file and --test_file whose text or required label is empty, and log their "
    "number. If false, a missing text or label is an error.",
    decides_result="train_examples",
)
