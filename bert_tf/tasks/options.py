"""Options of the tasks, and the flags that are made of them; imports no TensorFlow, so that `--help` answers at once.

An option is a field of a dataclass. `option` gives it a flag of the task's program; a plain field is named like a flag
that programs share. A field `given_x` holds the value of flag `x` where the user gave it, else None.
"""

import dataclasses
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from bert_tf.data.dialect import ENCODING_HELP, SEPARATOR_HELP, Dialect
from bert_tf.utils import names
from bert_tf.utils.names import LAYERS, WORD_BOUNDARIES
from bert_tf.utils.settings import Flag

if TYPE_CHECKING:
    from typing_extensions import Self  # in `typing` from Python 3.11 on

_FLAG_KINDS = {str: "string", bool: "bool", int: "integer", float: "float", Sequence[str]: "list"}


def option(default: Any, help_text: str, **of_flag: Any) -> Any:
    """Returns a field of an options class that becomes a flag; `of_flag`: `choices`, `low` and `high` of `Flag`."""
    metadata = {"flag": {"help": help_text, **of_flag}}
    if isinstance(default, list):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def flags_of(kind: type) -> tuple[Flag, ...]:
    """Returns the flags of an options class, one for each field that `option` made."""
    defaults, annotations = vars(kind()), get_type_hints(kind)
    return tuple(
        Flag(field.name, defaults[field.name], kind=_flag_kind(annotations[field.name]), **field.metadata["flag"])
        for field in dataclasses.fields(kind)
        if "flag" in field.metadata
    )


def _flag_kind(annotation):
    alternatives = get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    (kind,) = (each for each in alternatives if each is not types.NoneType)
    if kind not in _FLAG_KINDS:
        raise ValueError(f"An option must be of the type str, bool, int, float or Sequence[str]. Received: {kind}.")
    return _FLAG_KINDS[kind]


# === Runs ===
# Options that several tasks have.


# Kind of split -> the options do_X and X_file; a `test_file` has no action of its own: `do_eval` scores it last.
ACTIONS = {"train": "train", "dev": "eval", "test": "predict", "final": "test"}


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """Options of the runs of all tasks: actions, files and sequence length.

    Attributes:
        test_file: labeled examples that are scored with the final model, by which nothing is selected or fitted.
        skip_bad_rows: lines that are not as they must be are left out and counted, instead of ending the run.
    """

    train_file: str | None = None
    eval_file: str | None = None
    predict_file: str | None = None
    test_file: str | None = None
    output_dir: str | None = None
    init_checkpoint: str | None = None
    do_train: bool = False
    do_eval: bool = False
    do_predict: bool = False
    max_seq_length: int = 128
    rematerialize: bool = False
    skip_bad_rows: bool = dataclasses.field(default=False, metadata={"has_no_flag": True})
    given_max_seq_length: int | None = None

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
        if not self.files[kind]:
            action = ACTIONS[kind]
            raise ValueError(f"`do_{action}` requires {examples}. Specify `{action}_file`.")
        return self.files[kind]


_SEVERAL = "Several files, or a quoted glob pattern, are separated by commas."


@dataclasses.dataclass(frozen=True)
class TextFileOptions(RunOptions):
    """Options of tasks whose examples are in text files."""

    encoding: str | None = option(None, ENCODING_HELP)

    @property
    def dialect(self) -> Dialect:
        """How the files are written."""
        return Dialect(encoding=self.encoding)


@dataclasses.dataclass(frozen=True)
class TableOptions(TextFileOptions):
    """Options of tasks whose examples are in tables."""

    separator: str | None = option(None, SEPARATOR_HELP)

    @property
    def dialect(self) -> Dialect:
        return Dialect(self.separator, self.encoding)


_TEXTS_BY_ID = "a .tsv file with id and text, without a header, or .jsonl or .parquet with id or _id, text and title."


@dataclasses.dataclass(frozen=True)
class RankingFileOptions(TableOptions):
    """Options of tasks whose files may be TREC runs: the files that a run refers to."""

    queries_file: str | None = option(None, f"Texts of the queries of runs: {_TEXTS_BY_ID}")
    documents_file: str | None = option(None, f"Texts of the documents of runs: {_TEXTS_BY_ID}")
    qrels_file: str | None = option(None, "Relevances of the documents of runs, as TREC or BEIR writes them.")


@dataclasses.dataclass(frozen=True)
class RecurrentOptions(RunOptions):
    """Options of tasks that may have a BiLSTM between encoder and head."""

    lstm_units: int | None = None
    lora_rank: int = 0


@dataclasses.dataclass(frozen=True)
class AbstentionOptions(RunOptions):
    """Options of tasks with selective prediction (abstention)."""

    fit_abstention: float | None = option(
        None,
        "With --do_eval: choose, on --eval_file, the lowest confidence threshold at which this share of the accepted "
        "predictions is correct, such as 0.95 (selective prediction). It is stored with the model, which then "
        "reports for each prediction whether it is confident.",
        low=0, high=1,
    )


# === Classification ===


_TABLE = f"a .tsv, .csv, .jsonl or .parquet file; the first three may be gzipped (.gz). {_SEVERAL}"
_DROP_EMPTY = option(
    False,
    "Drop rows of --train_file, --eval_file and --test_file whose text or required label is empty, and log their "
    "number. If false, a missing text or label is an error.",
)


@dataclasses.dataclass(frozen=True)
class ClassificationOptions(AbstentionOptions, RecurrentOptions, TableOptions):
    """Which texts are classified, what a label is, and how long texts are read."""

    train_file: str | None = option(None, f"Training examples: {_TABLE}")
    eval_file: str | None = option(None, f"Evaluation examples: {_TABLE}")
    predict_file: str | None = option(None, f"Examples to predict for: {_TABLE}")
    header: bool = option(True, "Read column names from line 1 of a .tsv or .csv file.")
    task_name: str | None = option(
        None,
        "Task whose official files are in --data_dir: cola, sst-2, mrpc, sts-b, qqp, mnli, qnli, rte, wnli or ax of "
        "GLUE, or xnli.",
    )
    data_dir: str | None = option(
        None,
        "Directory of --task_name, with train.tsv, dev.tsv and test.tsv, or the task's own names for these files.",
    )
    xnli_language: str | None = option(None, "Language of xnli, as its files name it. Default: en.")
    text_column: Sequence[str] = option(
        ["text"],
        "Text column, by name or by number from 0; two, separated by a comma, for text pairs.",
    )
    label_column: str = option("label", "Label column, by name or by number from 0.")
    problem_type: str = option(
        "single_label",
        "Kind of label in your own files. single_label: one name; multi_label: several, with --label_separator "
        "between them; regression: a number.",
        choices=names.PROBLEMS,
    )
    label_separator: str = option(",", "Separator between the labels of an example that has several.")
    label_columns: Sequence[str] | None = option(
        None,
        "Columns named after the labels, instead of --label_column. Each cell is 1 or true if the example has the "
        "label; 0, false or empty if not.",
    )
    drop_empty: bool = _DROP_EMPTY
    fit_temperature: bool = option(
        False,
        "With --do_eval: fit on --eval_file the temperature that calibrates the probabilities best, and store it "
        "with the model.",
    )
    fit_thresholds: bool = option(
        False,
        "With --do_eval and --problem_type=multi_label: fit the probability threshold of each label to its highest F1 "
        "on --eval_file, and store it with the model. Unfitted thresholds are 0.5.",
    )
    long_text: str = option(
        "truncate",
        "Treatment of texts over --max_seq_length. truncate: cut the end off; window: read the text in overlapping "
        "windows and average the predictions.",
        choices=("truncate", "window"),
    )
    doc_stride: int | None = option(
        None,
        "Number of tokens from the start of one window to the start of the next. Default: half of --max_seq_length.",
        low=1,
    )
    max_windows: int = option(32, "Maximum number of windows per text; the rest is cut off.", low=1)
    class_weights: Sequence[str] | None = None
    label_smoothing: float = 0.0
    given_problem_type: str | None = None
    given_label_column: str | None = None
    given_label_separator: str | None = None
    given_long_text: str | None = None
    given_doc_stride: int | None = None
    given_max_windows: int | None = None


CLASSIFICATION_FLAGS = flags_of(ClassificationOptions)


# === Embedding ===


LOSSES = ("in_batch_negatives", "cosine", "contrastive", "triplet", "margin_mse")
EVALUATIONS = ("auto", "spearman", "retrieval", "ranking")


@dataclasses.dataclass(frozen=True)
class EmbeddingOptions(RankingFileOptions):
    """Which texts belong together, what training aims at, and how a vector is made."""

    train_file: str | None = option(
        None,
        f"Training pairs of texts: {_TABLE} Without --text_column, .jsonl and .parquet files can also contain query, "
        "positives and negatives per row, as for run_reranker.",
    )
    eval_file: str | None = option(None, f"Evaluation pairs of texts, or lists as in --train_file: {_TABLE}")
    predict_file: str | None = option(None, f"Texts, or pairs of them, to predict for: {_TABLE}")
    header: bool = option(True, "Read column names from line 1 of a .tsv or .csv file.")
    task_name: str | None = option(
        None,
        "GLUE task to use instead of files, whose pairs have scores: sts-b, from --data_dir.",
    )
    data_dir: str | None = option(None, "Directory of --task_name.")
    text_column: Sequence[str] = option(
        ["text_a", "text_b"],
        "Columns of the two texts of a pair, by name or by number from 0; a third one holds texts that do not belong "
        "to the first (hard negatives).",
    )
    label_column: str = option(
        "label",
        "Column of the pair's score (with --loss=margin_mse: the margin), for losses and evaluations that use one.",
    )
    drop_empty: bool = _DROP_EMPTY
    highest_score: float | None = option(
        None,
        "Score of two texts with the same meaning; scores are divided by it, but not the margins of --loss=margin_mse. "
        "Default: 1, or that of --task_name.",
        low=1e-6,
    )
    loss: str = option(
        "in_batch_negatives",
        "Training objective. in_batch_negatives: a pair's texts are closer than those of other pairs in the batch; "
        "cosine: the cosine equals the score; contrastive: pairs of score 1 are close, pairs of score 0 far apart; "
        "triplet: the second text is closer than the third; margin_mse: the second text is "
        "closer by the label, which is the difference between a reranker's logits (distillation).",
        choices=LOSSES,
    )
    temperature: float = option(
        0.05,
        "With --loss=in_batch_negatives or --loss=margin_mse: temperature that divides the cosines. For "
        "margin_mse, the default suits differences between logits.",
        low=1e-6,
    )
    margin: float = option(
        0.5,
        "With --loss=contrastive or --loss=triplet: distance, in cosines, that is far enough.",
        low=0, high=2,
    )
    matryoshka_dims: Sequence[str] | None = option(
        None,
        "Numbers of leading dimensions to train as embeddings of their own, such as 384,256,128,64. The loss is the "
        "mean over them (Matryoshka representation learning). Default: all dimensions only.",
    )
    prompts: str | None = option(
        None,
        "Texts to prepend in training, evaluation and searches: a JSON object with query, for first texts, and "
        "document, for all others; or one text for all. If empty, nothing is prepended. Default: as --init_checkpoint "
        "says.",
    )
    eval_by: str = option(
        "auto",
        "Evaluation. spearman: rank correlation of scores and cosines; retrieval: how often a first text finds its "
        "second among all; ranking: order of each query's documents by MRR@10, nDCG@10 and MAP, of an --eval_file as "
        "for run_reranker; auto: spearman or retrieval, whichever fits --loss.",
        choices=EVALUATIONS,
    )
    layers: str | None = option(
        None,
        "Encoder layers to pool, by name. Default: as --init_checkpoint says, otherwise last.",
        choices=LAYERS,
    )
    pooling: Sequence[str] | None = option(
        None,
        "Pooling of token features into one vector; the vectors of several poolings are concatenated. Default: as "
        "--init_checkpoint says, otherwise mean.",
        choices=names.POOLINGS,
    )
    normalize: bool | None = option(
        None,
        "Scale each embedding to unit length. Default: as --init_checkpoint says, otherwise false.",
    )
    freeze_layers: str = "0"
    given_text_column: Sequence[str] | None = None
    given_label_column: str | None = None
    given_temperature: float | None = None
    given_margin: float | None = None


EMBEDDING_FLAGS = flags_of(EmbeddingOptions)


# === Multiple choice ===


_CHOICES = f"SWAG's .csv, or .jsonl or .parquet with context, choices and label; may be gzipped (.gz). {_SEVERAL}"


@dataclasses.dataclass(frozen=True)
class MultipleChoiceOptions(AbstentionOptions, RecurrentOptions, TableOptions):
    """Which questions are answered."""

    train_file: str | None = option(None, f"Training questions: {_CHOICES}")
    eval_file: str | None = option(None, f"Evaluation questions: {_CHOICES}")
    predict_file: str | None = option(None, f"Questions to predict for: {_CHOICES} Labels are ignored.")


MULTIPLE_CHOICE_FLAGS = flags_of(MultipleChoiceOptions)


# === Reranking ===


RANKING_LOSSES = ("binary_cross_entropy", "pairwise", "listwise_softmax")
_QUERIES = (
    "a .jsonl or .parquet file with query, positives and negatives, or query, documents and relevances; .tsv or .csv "
    "with query, positive and negative (MS MARCO triples); or a TREC run (.run, .trec), with --queries_file, "
    f"--documents_file and --qrels_file; may be gzipped (.gz). {_SEVERAL}"
)


@dataclasses.dataclass(frozen=True)
class RerankingOptions(RankingFileOptions):
    """Which documents are ranked for which queries, and what training aims at."""

    train_file: str | None = option(None, f"Training queries: {_QUERIES}")
    eval_file: str | None = option(None, f"Evaluation queries: {_QUERIES}")
    predict_file: str | None = option(None, f"Queries to predict for: {_QUERIES} Relevances are ignored.")
    loss: str = option(
        "binary_cross_entropy",
        "Training objective. binary_cross_entropy: the score of each document is the probability that it is relevant; "
        "pairwise: a more relevant document has a higher score than a less relevant one (RankNet); listwise_softmax: "
        "cross-entropy of the softmax over a query's documents.",
        choices=RANKING_LOSSES,
    )


RERANKING_FLAGS = flags_of(RerankingOptions)


# === Question answering ===
# google-research/bert's, except --eval_file.


_QUESTIONS = "a file in SQuAD format, 1.1 or 2.0; may be gzipped (.json.gz)"


@dataclasses.dataclass(frozen=True)
class SquadOptions(RecurrentOptions):
    """Which questions are answered, and how contexts are read and spans chosen."""

    train_file: str | None = option(None, f"Training questions: {_QUESTIONS}.")
    eval_file: str | None = option(None, f"Evaluation questions: {_QUESTIONS}.")
    predict_file: str | None = option(
        None,
        f"Questions to predict for: {_QUESTIONS}. Also evaluated if it has the answers.",
    )
    max_seq_length: int = 384
    doc_stride: int = option(
        128,
        "Number of tokens from the start of one window of a context to the start of the next.",
        low=1,
    )
    max_query_length: int = option(64, "Maximum question length in tokens; the rest is cut off.", low=1)
    n_best_size: int = option(20, "Number of answers per question in nbest_predictions.json.", low=1)
    max_answer_length: int = option(30, "Maximum answer length in tokens.", low=1)
    version_2_with_negative: bool = option(False, "Allow questions without an answer (SQuAD 2.0).")
    null_score_diff_threshold: float | None = option(
        None,
        "With --version_2_with_negative: margin by which the score of no answer must exceed that of the best answer, "
        "for no answer to be predicted. Default: the best margin that --do_eval found, otherwise 0.",
    )
    verbose_logging: bool = option(False, "Log every question of --do_predict with its answer and scores.")


SQUAD_FLAGS = flags_of(SquadOptions)


# === Tagging ===


_SENTENCES = (
    "columns with one word per line (CoNLL format), .jsonl with tokens and tags, or .jsonl or .json with texts and "
    f"their entities, as annotation tools export them; may be gzipped (.gz). {_SEVERAL}"
)


@dataclasses.dataclass(frozen=True)
class TaggingOptions(RecurrentOptions, TextFileOptions):
    """Which sentences are tagged, what a tag is, and whether the encoder is trained."""

    train_file: str | None = option(None, f"Training sentences: {_SENTENCES}")
    eval_file: str | None = option(None, f"Evaluation sentences: {_SENTENCES}")
    predict_file: str | None = option(None, f"Sentences to tag: {_SENTENCES} Tags are ignored.")
    text_column: int = option(0, "Word column, by number from 0; a negative number counts from the end.")
    tag_column: int = option(-1, "Tag column, by number from 0; a negative number counts from the end.")
    features: str | None = option(
        None,
        "Layers of the encoder, which is then frozen, to tag from with a two-layer BiLSTM. Default: the encoder is "
        "fine-tuned.",
        choices=LAYERS,
    )
    tag_scheme: str = option(
        "auto",
        "Tagging scheme, which marks where entities begin and end. auto: detected from the tags.",
        choices=("auto", "iob1", "iob2", "bioes"),
    )
    word_boundaries: str | None = option(
        None,
        "Where the words of a text end; each word has one tag. whitespace: at spaces; punctuation: also around "
        "punctuation and each character of scripts such as Chinese; characters: after every character, so that "
        "entities can end anywhere. Default: punctuation if the training file has character spans or one Chinese or "
        "similar character per line; otherwise whitespace.",
        choices=WORD_BOUNDARIES,
    )
    doc_stride: int | None = option(
        None,
        "For sentences over --max_seq_length: number of tokens from the start of one window to the start of the "
        "next. Default: half of --max_seq_length.",
        low=1,
    )
    class_weights: Sequence[str] | None = None
    label_smoothing: float = 0.0
    freeze_layers: str = "0"
    layerwise_lr_decay: float = 1.0
    unfreeze_epochs: float = 0.0
    reinit_layers: int = 0


TAGGING_FLAGS = flags_of(TaggingOptions)
