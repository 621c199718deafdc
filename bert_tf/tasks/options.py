"""Options of the tasks, and the flags that are made of them; imports no TensorFlow, so that `--help` answers at once.

An option is a field of a dataclass. `option` gives it a flag of the task's program; a plain field is named like a flag
that programs share. A field `given_x` holds the value of flag `x` where the user gave it, else None.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from bert_tf.data.dialect import Dialect
from bert_tf.utils import names
from bert_tf.utils.names import LAYERS, WORD_BOUNDARIES
from bert_tf.utils.settings import option, option_as

if TYPE_CHECKING:
    from typing_extensions import Self  # in `typing` from Python 3.11 on


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

    GROUP: ClassVar[str] = "Data"

    train_file: str | None = option(None, "Training examples.", essential=True)
    eval_file: str | None = option(None, "Evaluation examples.", essential=True)
    predict_file: str | None = option(None, "Examples to predict for.", essential=True)
    test_file: str | None = option(
        None,
        "With --do_eval: labeled examples in the format of --eval_file, on which the final model is evaluated too. "
        "They are not used to select or fit anything. The names of the output files include that of the test file.",
        requires=("do_eval",),
    )
    output_dir: str | None = option(
        None,
        "Directory for checkpoints, metrics and predictions.",
        required=True, group="Output", essential=True,
    )
    init_checkpoint: str | None = option(
        None,
        "Model to start from: a Hugging Face, sentence-transformers or bert_tf directory, or the prefix of a TF1 "
        "checkpoint (.../bert_model.ckpt).",
        group="Model", essential=True,
    )
    do_train: bool = option(False, "Train the model.", group="What to do", essential=True)
    do_eval: bool = option(False, "Evaluate on held-out examples.", group="What to do", essential=True)
    do_predict: bool = option(False, "Predict for examples without labels.", group="What to do", essential=True)
    max_seq_length: int = option(
        128,
        "Maximum sequence length in tokens, including special tokens. Without --do_train, a trained model keeps its "
        "own by default, and so do published embedders and rerankers.",
        low=3, group="Model", essential=True,
    )
    rematerialize: bool = option(False, "Recompute activations in the backward pass, to save memory.", group="Training")
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

    encoding: str | None = option_as(Dialect, "encoding")

    @property
    def dialect(self) -> Dialect:
        """How the files are written."""
        return Dialect(encoding=self.encoding)


@dataclasses.dataclass(frozen=True)
class TableOptions(TextFileOptions):
    """Options of tasks whose examples are in tables."""

    separator: str | None = option_as(Dialect, "separator")

    @property
    def dialect(self) -> Dialect:
        return Dialect(self.separator, self.encoding)


_TEXTS_BY_ID = "a .tsv file with id and text, without a header, or .jsonl or .parquet with id or _id, text and title."


@dataclasses.dataclass(frozen=True)
class RankingFileOptions(TableOptions):
    """Options of tasks whose files may be TREC runs: the files that a run refers to."""

    GROUP: ClassVar[str] = "Data"

    queries_file: str | None = option(None, f"Texts of the queries of runs: {_TEXTS_BY_ID}")
    documents_file: str | None = option(None, f"Texts of the documents of runs: {_TEXTS_BY_ID}")
    qrels_file: str | None = option(None, "Relevances of the documents of runs, as TREC or BEIR writes them.")


@dataclasses.dataclass(frozen=True)
class RecurrentOptions(RunOptions):
    """Options of tasks that may have a BiLSTM between encoder and head."""

    GROUP: ClassVar[str] = "Layers, adapters and loss"

    lstm_units: int | None = option(
        None,
        "Units per direction of a BiLSTM between encoder and head, as the BERT paper has it on a left-to-right "
        "encoder. Default: no BiLSTM.",
        low=1,
    )
    lora_rank: int = 0


@dataclasses.dataclass(frozen=True)
class SelectionOptions(RunOptions):
    """Options of tasks of which a metric selects the best checkpoint."""

    GROUP: ClassVar[str] = "Training"

    keep_best: str | None = option(
        None,
        "Metric by which every checkpoint is evaluated on --eval_file and the best one kept: accuracy, f1, "
        "matthews, loss, ...",
        essential=True, requires=("do_train",),
    )
    early_stopping: int = option(
        0,
        "With --keep_best: number of consecutive checkpoints without improvement after which training stops. 0 "
        "turns it off.",
        low=0, requires=("do_train", "keep_best"),
    )


@dataclasses.dataclass(frozen=True)
class LabelOptions(SelectionOptions):
    """Options of tasks whose examples, or words, have labels."""

    GROUP: ClassVar[str] = "Layers, adapters and loss"

    class_weights: Sequence[str] | None = option(
        None,
        "Weights of the labels in the loss: `balanced`, label:weight pairs, or a .json file with an object of "
        "labels and weights. Other labels have weight 1.",
        requires=("do_train",),
    )
    label_smoothing: float = option(
        0.0,
        "Share of the target distribution that is spread over all labels.",
        low=0, high=1, requires=("do_train",),
    )
    rename_labels: Sequence[str] = option(
        [],
        "With a trained model as --init_checkpoint: old:new pairs of a label of the model and its name in "
        "--train_file. Renamed labels keep their weights in the head, like labels with unchanged names.",
        requires=("do_train",),
    )


@dataclasses.dataclass(frozen=True)
class TeacherOptions(RunOptions):
    """The teacher and the distillation settings; defaults for tasks without these options."""

    GROUP: ClassVar[str] = "Distillation"

    teacher: str | None = option(
        None,
        "Model that was fine-tuned for the same task and labels; training also matches its predictions (knowledge "
        "distillation).",
        requires=("do_train",),
    )
    distillation_temperature: float = option(
        2.0,
        "Temperature that divides the teacher's and the student's logits before they are compared.",
        low=0, requires=("teacher",),
    )
    distillation_weight: float = option(
        0.5,
        "Weight of the distillation loss against --teacher; the loss on the labels has the rest.",
        low=0, high=1, requires=("teacher",),
    )


@dataclasses.dataclass(frozen=True)
class AbstentionOptions(RunOptions):
    """Options of tasks with selective prediction (abstention)."""

    GROUP: ClassVar[str] = "Evaluation"

    fit_abstention: float | None = option(
        None,
        "With --do_eval: choose, on --eval_file, the lowest confidence threshold at which this share of the accepted "
        "predictions is correct, such as 0.95 (selective prediction). It is stored with the model, which then "
        "reports for each prediction whether it is confident.",
        low=0, high=1, requires=("do_eval",),
    )


# === Classification ===


_TABLE = f"a .tsv, .csv, .jsonl or .parquet file; the first three may be gzipped (.gz). {_SEVERAL}"
_DROP_EMPTY = option(
    False,
    "Drop rows of --train_file, --eval_file and --test_file whose text or required label is empty, and log their "
    "number. If false, a missing text or label is an error.",
)


@dataclasses.dataclass(frozen=True)
class ClassificationOptions(LabelOptions, RecurrentOptions, TeacherOptions, AbstentionOptions, TableOptions):
    """Which texts are classified, what a label is, and how long texts are read."""

    GROUP: ClassVar[str] = "Data"

    train_file: str | None = option(None, f"Training examples: {_TABLE}", essential=True)
    eval_file: str | None = option(None, f"Evaluation examples: {_TABLE}", essential=True)
    predict_file: str | None = option(None, f"Examples to predict for: {_TABLE}", essential=True)
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
        essential=True,
    )
    label_column: str = option("label", "Label column, by name or by number from 0.", essential=True)
    problem_type: str = option(
        "single_label",
        "Kind of label in your own files. single_label: one name; multi_label: several, with --label_separator "
        "between them; regression: a number.",
        choices=names.PROBLEMS, essential=True,
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
        group="Evaluation", requires=("do_eval",),
    )
    fit_thresholds: bool = option(
        False,
        "With --do_eval and --problem_type=multi_label: fit the probability threshold of each label to its highest F1 "
        "on --eval_file, and store it with the model. Unfitted thresholds are 0.5.",
        group="Evaluation", requires=("do_eval",),
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
    given_problem_type: str | None = None
    given_label_column: str | None = None
    given_label_separator: str | None = None
    given_long_text: str | None = None
    given_doc_stride: int | None = None
    given_max_windows: int | None = None



# === Embedding ===


LOSSES = ("in_batch_negatives", "cosine", "contrastive", "triplet", "margin_mse")
EVALUATIONS = ("auto", "spearman", "retrieval", "ranking")


@dataclasses.dataclass(frozen=True)
class EmbeddingOptions(SelectionOptions, RankingFileOptions):
    """Which texts belong together, what training aims at, and how a vector is made."""

    GROUP: ClassVar[str] = "Data"

    train_file: str | None = option(
        None,
        f"Training pairs of texts: {_TABLE} Without --text_column, .jsonl and .parquet files can also contain query, "
        "positives and negatives per row, as for run_reranker.",
        essential=True,
    )
    eval_file: str | None = option(
        None,
        f"Evaluation pairs of texts, or lists as in --train_file: {_TABLE}",
        essential=True,
    )
    predict_file: str | None = option(None, f"Texts, or pairs of them, to predict for: {_TABLE}", essential=True)
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
        essential=True,
    )
    label_column: str = option(
        "label",
        "Column of the pair's score (with --loss=margin_mse: the margin), for losses and evaluations that use one.",
        essential=True,
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
        choices=LOSSES, group="Layers, adapters and loss", essential=True,
    )
    temperature: float = option(
        0.05,
        "With --loss=in_batch_negatives or --loss=margin_mse: temperature that divides the cosines. For "
        "margin_mse, the default suits differences between logits.",
        low=1e-6, group="Layers, adapters and loss",
    )
    margin: float = option(
        0.5,
        "With --loss=contrastive or --loss=triplet: distance, in cosines, that is far enough.",
        low=0, high=2, group="Layers, adapters and loss",
    )
    matryoshka_dims: Sequence[str] | None = option(
        None,
        "Numbers of leading dimensions to train as embeddings of their own, such as 384,256,128,64. The loss is the "
        "mean over them (Matryoshka representation learning). Default: all dimensions only.",
        group="Layers, adapters and loss",
    )
    prompts: str | None = option(
        None,
        "Texts to prepend in training, evaluation and searches: a JSON object with query, for first texts, and "
        "document, for all others; or one text for all. If empty, nothing is prepended. Default: as --init_checkpoint "
        "says.",
        group="Embeddings and features",
    )
    eval_by: str = option(
        "auto",
        "Evaluation. spearman: rank correlation of scores and cosines; retrieval: how often a first text finds its "
        "second among all; ranking: order of each query's documents by MRR@10, nDCG@10 and MAP, of an --eval_file as "
        "for run_reranker; auto: spearman or retrieval, whichever fits --loss.",
        choices=EVALUATIONS, group="Evaluation",
    )
    layers: str | None = option(
        None,
        "Encoder layers to pool, by name. Default: as --init_checkpoint says, otherwise last.",
        choices=LAYERS, group="Embeddings and features",
    )
    pooling: Sequence[str] | None = option(
        None,
        "Pooling of token features into one vector; the vectors of several poolings are concatenated. Default: as "
        "--init_checkpoint says, otherwise mean.",
        choices=names.POOLINGS, group="Embeddings and features", essential=True,
    )
    normalize: bool | None = option(
        None,
        "Scale each embedding to unit length. Default: as --init_checkpoint says, otherwise false.",
        group="Embeddings and features",
    )
    freeze_layers: str = "0"
    given_text_column: Sequence[str] | None = None
    given_label_column: str | None = None
    given_temperature: float | None = None
    given_margin: float | None = None



# === Multiple choice ===


_CHOICES = f"SWAG's .csv, or .jsonl or .parquet with context, choices and label; may be gzipped (.gz). {_SEVERAL}"


@dataclasses.dataclass(frozen=True)
class MultipleChoiceOptions(SelectionOptions, RecurrentOptions, TeacherOptions, AbstentionOptions, TableOptions):
    """Which questions are answered."""

    GROUP: ClassVar[str] = "Data"

    train_file: str | None = option(None, f"Training questions: {_CHOICES}", essential=True)
    eval_file: str | None = option(None, f"Evaluation questions: {_CHOICES}", essential=True)
    predict_file: str | None = option(None, f"Questions to predict for: {_CHOICES} Labels are ignored.", essential=True)



# === Reranking ===


RANKING_LOSSES = ("binary_cross_entropy", "pairwise", "listwise_softmax")
_QUERIES = (
    "a .jsonl or .parquet file with query, positives and negatives, or query, documents and relevances; .tsv or .csv "
    "with query, positive and negative (MS MARCO triples); or a TREC run (.run, .trec), with --queries_file, "
    f"--documents_file and --qrels_file; may be gzipped (.gz). {_SEVERAL}"
)


@dataclasses.dataclass(frozen=True)
class RerankingOptions(SelectionOptions, TeacherOptions, RankingFileOptions):
    """Which documents are ranked for which queries, and what training aims at."""

    GROUP: ClassVar[str] = "Data"

    train_file: str | None = option(None, f"Training queries: {_QUERIES}", essential=True)
    eval_file: str | None = option(None, f"Evaluation queries: {_QUERIES}", essential=True)
    predict_file: str | None = option(
        None,
        f"Queries to predict for: {_QUERIES} Relevances are ignored.",
        essential=True,
    )
    loss: str = option(
        "binary_cross_entropy",
        "Training objective. binary_cross_entropy: the score of each document is the probability that it is relevant; "
        "pairwise: a more relevant document has a higher score than a less relevant one (RankNet); listwise_softmax: "
        "cross-entropy of the softmax over a query's documents.",
        choices=RANKING_LOSSES, group="Layers, adapters and loss", essential=True,
    )



# === Question answering ===
# google-research/bert's, except --eval_file.


_QUESTIONS = "a file in SQuAD format, 1.1 or 2.0; may be gzipped (.json.gz)"


@dataclasses.dataclass(frozen=True)
class SquadOptions(RecurrentOptions, TeacherOptions):
    """Which questions are answered, and how contexts are read and spans chosen."""

    GROUP: ClassVar[str] = "Data"

    train_file: str | None = option(None, f"Training questions: {_QUESTIONS}.", essential=True)
    eval_file: str | None = option(None, f"Evaluation questions: {_QUESTIONS}.", essential=True)
    predict_file: str | None = option(
        None,
        f"Questions to predict for: {_QUESTIONS}. Also evaluated if it has the answers.",
        essential=True,
    )
    max_seq_length: int = 384
    doc_stride: int = option(
        128,
        "Number of tokens from the start of one window of a context to the start of the next.",
        low=1,
    )
    max_query_length: int = option(64, "Maximum question length in tokens; the rest is cut off.", low=1)
    n_best_size: int = option(
        20,
        "Number of answers per question in nbest_predictions.json.",
        low=1, group="Prediction",
    )
    max_answer_length: int = option(30, "Maximum answer length in tokens.", low=1, group="Prediction")
    version_2_with_negative: bool = option(False, "Allow questions without an answer (SQuAD 2.0).", essential=True)
    null_score_diff_threshold: float | None = option(
        None,
        "With --version_2_with_negative: margin by which the score of no answer must exceed that of the best answer, "
        "for no answer to be predicted. Default: the best margin that --do_eval found, otherwise 0.",
        group="Evaluation", requires=("version_2_with_negative",),
    )
    verbose_logging: bool = option(
        False,
        "Log every question of --do_predict with its answer and scores.",
        group="Prediction",
    )



# === Tagging ===


_SENTENCES = (
    "columns with one word per line (CoNLL format), .jsonl with tokens and tags, or .jsonl or .json with texts and "
    f"their entities, as annotation tools export them; may be gzipped (.gz). {_SEVERAL}"
)


@dataclasses.dataclass(frozen=True)
class TaggingOptions(LabelOptions, RecurrentOptions, TeacherOptions, TextFileOptions):
    """Which sentences are tagged, what a tag is, and whether the encoder is trained."""

    GROUP: ClassVar[str] = "Data"

    train_file: str | None = option(None, f"Training sentences: {_SENTENCES}", essential=True)
    eval_file: str | None = option(None, f"Evaluation sentences: {_SENTENCES}", essential=True)
    predict_file: str | None = option(None, f"Sentences to tag: {_SENTENCES} Tags are ignored.", essential=True)
    text_column: int = option(
        0,
        "Word column, by number from 0; a negative number counts from the end.",
        essential=True,
    )
    tag_column: int = option(-1, "Tag column, by number from 0; a negative number counts from the end.", essential=True)
    features: str | None = option(
        None,
        "Layers of the encoder, which is then frozen, to tag from with a two-layer BiLSTM. Default: the encoder is "
        "fine-tuned.",
        choices=LAYERS, group="Layers, adapters and loss", essential=True, requires=("do_train",),
    )
    tag_scheme: str = option(
        "auto",
        "Tagging scheme, which marks where entities begin and end. auto: detected from the tags.",
        choices=("auto", "iob1", "iob2", "bioes"),
    )
    lstm_units: int | None = option_as(
        RecurrentOptions, "lstm_units",
        help="Units per direction of the BiLSTM. With --features: of its two layers, 256 by default. Without: of a "
        "single layer between encoder and head, which is absent by default.",
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
    freeze_layers: str = "0"
    layerwise_lr_decay: float = 1.0
    unfreeze_epochs: float = 0.0
    reinit_layers: int = 0

