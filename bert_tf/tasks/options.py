"""Options of the tasks, and the flags that are made of them; imports no TensorFlow, so that `--help` answers at once.

An option is a field of a dataclass. `option` gives it a flag of the task's program; a plain field is named like a flag
that programs share. A field `given_x` holds the value of flag `x` where the user gave it, else None.
"""

import dataclasses
import types
from collections.abc import Sequence
from typing import Any, get_args

from bert_tf.utils import names
from bert_tf.utils.names import LAYERS
from bert_tf.utils.settings import Flag

_FLAG_KINDS = {str: "string", bool: "bool", int: "integer", float: "float", Sequence[str]: "list"}


def option(default: Any, help_text: str, **of_flag) -> Any:
    """Returns a field of an options class that has a flag; `of_flag`: `choices`, `low` and `high` of `Flag`."""
    metadata = {"flag": {"help": help_text, **of_flag}}
    if isinstance(default, list):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def flags_of(kind: type) -> tuple[Flag, ...]:
    """Returns the flags of an options class, one for each field that `option` made."""
    defaults = vars(kind())
    return tuple(
        Flag(field.name, defaults[field.name], kind=_flag_kind(field.type), **field.metadata["flag"])
        for field in dataclasses.fields(kind)
        if "flag" in field.metadata
    )


def _flag_kind(annotation):
    alternatives = get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    (kind,) = (each for each in alternatives if each is not types.NoneType)
    return _FLAG_KINDS[kind]


# === Runs ===
# Options that several tasks have.


ACTIONS = {"train": "train", "dev": "eval", "test": "predict"}  # kind of split -> the options do_X and X_file


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """The actions and files of a run of any task, and how long sequences are.

    Attributes:
        skip_bad_rows: lines that are not as they must be are left out and counted, instead of ending the run.
    """

    train_file: str | None = None
    eval_file: str | None = None
    predict_file: str | None = None
    output_dir: str | None = None
    init_checkpoint: str | None = None
    do_train: bool = False
    do_eval: bool = False
    do_predict: bool = False
    max_seq_length: int = 128
    rematerialize: bool = False
    skip_bad_rows: bool = dataclasses.field(default=False, metadata={"has_no_flag": True})

    @property
    def files(self) -> dict[str, str | None]:
        """The file of each kind of split."""
        return {"train": self.train_file, "dev": self.eval_file, "test": self.predict_file}

    def file_of(self, kind: str, examples: str) -> str:
        """Returns the file of a kind of split; `examples` is a noun for its contents, for the message.

        Raises:
            ValueError: the file was not given.
        """
        if not self.files[kind]:
            action = ACTIONS[kind]
            raise ValueError(f"`do_{action}` requires {examples}. Specify `{action}_file`.")
        return self.files[kind]


@dataclasses.dataclass(frozen=True)
class RecurrentOptions(RunOptions):
    """Of tasks that may have a BiLSTM between encoder and head."""

    lstm_units: int | None = None
    lora_rank: int = 0


@dataclasses.dataclass(frozen=True)
class AbstentionOptions(RunOptions):
    """Of tasks whose answers may be none."""

    fit_abstention: float | None = option(
        None,
        "With --do_eval: choose on --eval_file the least probability at which this share of the answers is right, such "
        "as 0.95; keep it with the model, and say of each answer whether it is confident.",
        low=0,
        high=1,
    )


# === Classification ===


_EXAMPLES = "Examples as .tsv, .csv, .jsonl or .parquet, the first three also packed (.gz)"


@dataclasses.dataclass(frozen=True)
class ClassificationOptions(AbstentionOptions, RecurrentOptions):
    """Which texts are classified, what a label is, and how long texts are read."""

    train_file: str | None = option(None, f"{_EXAMPLES}, to train on.")
    eval_file: str | None = option(None, f"{_EXAMPLES}, to score on.")
    predict_file: str | None = option(None, f"{_EXAMPLES}, to answer for.")
    header: bool = option(True, "Whether line 1 of a .tsv or .csv file names its columns.")
    task_name: str | None = option(
        None,
        "A task whose official files lie in --data_dir: cola, sst-2, mrpc, sts-b, qqp, mnli, qnli, rte, wnli or ax of "
        "GLUE, or xnli.",
    )
    data_dir: str | None = option(
        None,
        "The folder of --task_name, with train.tsv, dev.tsv and test.tsv, or whatever the task's files are called.",
    )
    xnli_language: str | None = option(None, "The language of xnli, as its files call it; default: en.")
    text_column: Sequence[str] = option(
        ["text"], "Column of the text, by name or by number from 0; two, with a comma between them, for pairs."
    )
    label_column: str = option("label", "Column of the label, by name or by number from 0.")
    problem_type: str = option(
        "single_label",
        "What a label is, in files of your own: one name; several, with --label_separator between them; or a number.",
        choices=names.PROBLEMS,
    )
    label_separator: str = option(",", "What separates the labels of an example with several.")
    fit_temperature: bool = option(
        False,
        "With --do_eval: fit the temperature by which probabilities are most honest on --eval_file, and keep it with "
        "the model.",
    )
    long_text: str = option(
        "truncate",
        "Of texts over --max_seq_length: cut the end off, or read them through overlapping windows and average the "
        "answers.",
        choices=("truncate", "window"),
    )
    doc_stride: int | None = option(
        None,
        "Tokens from the start of one window to that of the next; default: half of --max_seq_length.",
        low=1,
    )
    max_windows: int = option(32, "Most windows of a text; the rest is cut.", low=1)
    class_weights: Sequence[str] | None = None
    label_smoothing: float = 0.0
    given_problem_type: str | None = None
    given_label_separator: str | None = None
    given_long_text: str | None = None
    given_doc_stride: int | None = None
    given_max_windows: int | None = None


CLASSIFICATION_FLAGS = flags_of(ClassificationOptions)


# === Embedding ===


LOSSES = ("in_batch_negatives", "cosine", "contrastive", "triplet")
EVALUATIONS = ("auto", "spearman", "retrieval")

_PAIRS = "Pairs of texts as .tsv, .csv, .jsonl or .parquet, the first three also packed (.gz)"


@dataclasses.dataclass(frozen=True)
class EmbeddingOptions(RunOptions):
    """Which texts belong together, what training aims at, and how a vector is made."""

    train_file: str | None = option(None, f"{_PAIRS}, to train on.")
    eval_file: str | None = option(None, f"{_PAIRS}, to score on.")
    predict_file: str | None = option(None, "Texts, or pairs of them, to answer for, in a table likewise.")
    header: bool = option(True, "Whether line 1 of a .tsv or .csv file names the columns.")
    task_name: str | None = option(
        None, "Instead of files: a task of GLUE whose pairs have scores, sts-b, from --data_dir."
    )
    data_dir: str | None = option(None, "The folder of --task_name.")
    text_column: Sequence[str] = option(
        ["text_a", "text_b"],
        "Columns of the two texts of a pair, by name or by number from 0; a third one of texts that do not belong to "
        "the first.",
    )
    label_column: str = option("label", "Column of the pair's score, for losses and evaluations that read one.")
    highest_score: float | None = option(
        None,
        "The score of two texts that mean the same: scores are divided by it; default: 1, or what --task_name has.",
        low=1e-6,
    )
    loss: str = option(
        "in_batch_negatives",
        "What training aims at: that a pair's texts are nearer than those of other pairs of the batch; that the cosine "
        "is the score; that pairs of score 1 are near and pairs of 0 apart; that the second text is nearer than the "
        "third.",
        choices=LOSSES,
    )
    temperature: float = option(0.05, "Of in_batch_negatives: cosines are divided by it.", low=1e-6)
    margin: float = option(0.5, "Of contrastive and triplet: how far apart, in cosines, is far enough.", low=0, high=2)
    eval_by: str = option(
        "auto",
        "Scores and cosines by rank correlation, or how often a first text finds its second among all; auto: what the "
        "loss reads.",
        choices=EVALUATIONS,
    )
    layers: str | None = option(
        None,
        "Whose features are pooled, by name; default: what --init_checkpoint says, else last.",
        choices=LAYERS,
    )
    pooling: Sequence[str] | None = option(
        None,
        "What one vector is made of; several with commas between them are concatenated; default: what "
        "--init_checkpoint says, else mean.",
        choices=names.POOLINGS,
    )
    normalize: bool | None = option(
        None, "Divide each vector by its length; default: what --init_checkpoint says, else false."
    )
    freeze_layers: str = "0"


EMBEDDING_FLAGS = flags_of(EmbeddingOptions)


# === Multiple choice ===


_CHOICES = "Questions as SWAG's .csv, or as .jsonl or .parquet with context, choices and label; also packed (.gz)"


@dataclasses.dataclass(frozen=True)
class MultipleChoiceOptions(AbstentionOptions, RecurrentOptions):
    """Which questions are answered."""

    train_file: str | None = option(None, f"{_CHOICES}, to train on.")
    eval_file: str | None = option(None, f"{_CHOICES}, to score on.")
    predict_file: str | None = option(None, f"{_CHOICES}, to answer; labels are ignored.")


MULTIPLE_CHOICE_FLAGS = flags_of(MultipleChoiceOptions)


# === Question answering ===
# google-research/bert's, except --eval_file.


_QUESTIONS = "Questions in SQuAD's format, 1.1 or 2.0, also packed (.json.gz)"


@dataclasses.dataclass(frozen=True)
class SquadOptions(RecurrentOptions):
    """Which questions are answered, and how contexts are read and spans chosen."""

    train_file: str | None = option(None, f"{_QUESTIONS}, to train on.")
    eval_file: str | None = option(None, f"{_QUESTIONS}, to score on.")
    predict_file: str | None = option(None, f"{_QUESTIONS}, to answer; scored too where it has the answers.")
    max_seq_length: int = 384
    doc_stride: int = option(128, "Tokens from the start of one window of a context to that of the next.", low=1)
    max_query_length: int = option(64, "Longest question in tokens; the rest is cut.", low=1)
    n_best_size: int = option(20, "Answers to each question in nbest_predictions.json.", low=1)
    max_answer_length: int = option(30, "Longest answer in tokens.", low=1)
    version_2_with_negative: bool = option(False, "Questions may have no answer (SQuAD 2.0).")
    null_score_diff_threshold: float | None = option(
        None,
        "With --version_2_with_negative: a question has no answer if no answer scores higher than the best one by more "
        "than this. Default: what --do_eval found to be best, else 0.",
    )
    verbose_logging: bool = option(False, "Log every question of --do_predict with its answer and scores.")


SQUAD_FLAGS = flags_of(SquadOptions)


# === Tagging ===


_SENTENCES = "Sentences as columns, a word per line (CoNLL's format), or .jsonl with tokens and tags; also packed (.gz)"


@dataclasses.dataclass(frozen=True)
class TaggingOptions(RecurrentOptions):
    """Which sentences are tagged, what a tag is, and whether the encoder is trained."""

    train_file: str | None = option(None, f"{_SENTENCES}, to train on.")
    eval_file: str | None = option(None, f"{_SENTENCES}, to score on.")
    predict_file: str | None = option(None, f"{_SENTENCES}, to tag; tags are ignored.")
    text_column: int = option(0, "Column of the word, by number from 0; a negative one counts from the end.")
    tag_column: int = option(-1, "Column of the tag, likewise.")
    features: str | None = option(
        None,
        "Freeze the encoder and tag by these of its layers, with two layers of BiLSTM on them; default: fine-tune the "
        "encoder.",
        choices=LAYERS,
    )
    tag_scheme: str = option(
        "auto",
        "How tags mark where an entity begins and ends; auto: detected from the tags.",
        choices=("auto", "iob1", "iob2", "bioes"),
    )
    doc_stride: int | None = option(
        None,
        "In sentences over --max_seq_length, tokens from the start of one window to that of the next; default: "
        "half of --max_seq_length.",
        low=1,
    )
    class_weights: Sequence[str] | None = None
    label_smoothing: float = 0.0
    freeze_layers: str = "0"
    layerwise_lr_decay: float = 1.0
    unfreeze_epochs: float = 0.0
    reinit_layers: int = 0


TAGGING_FLAGS = flags_of(TaggingOptions)
