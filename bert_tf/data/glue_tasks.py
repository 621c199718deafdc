"""Layouts of the official files of GLUE and XNLI, one row of a table per task; no code is for single tasks."""

import dataclasses
from collections.abc import Mapping

_LANGUAGES = ("ar", "bg", "de", "el", "en", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh")


@dataclasses.dataclass(frozen=True)
class GlueFile:
    """A file of a task; columns are names, or indices if the file has no header.

    Attributes:
        file: its path in the task's directory; `{language}` is replaced with `xnli_language`.
        text_columns: one or two columns.
        label_column: the label's column; None in test files.
        id_column: the column of ids. If None, the examples are numbered.
        header: whether line 1 names the columns.
        leaderboard: the name of the file of predictions on GLUE's server, or "" if it expects none.
        language_column: only rows with `xnli_language` in this column are read.
        renamed: labels that the file spells differently from the task.
        skip_short: as in `tables.read_table`: the official file has malformed rows.
    """

    file: str
    text_columns: tuple[str | int, ...]
    label_column: str | int | None = None
    id_column: str | int | None = None
    header: bool = True
    leaderboard: str = ""
    language_column: str | int | None = None
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    skip_short: bool = False


@dataclasses.dataclass(frozen=True)
class GlueTask:
    """A task of GLUE, or XNLI.

    Attributes:
        name: the value of `task_name`.
        directory: the directory's name in the official download; `data_dir` points to it.
        splits: "train", "dev", "test", and further dev and test files as "dev_<name>" and "test_<name>" -> the file.
        labels: label names in the order of their ids, sorted as strings; () for scores.
        metrics: official metrics, names from `bert_tf.evaluation.metrics`.
        problem: "single_label" or "regression".
        scale: lowest and highest value of scores.
        languages: the possible values of `xnli_language`; () for a task in English only.
    """

    name: str
    directory: str
    splits: Mapping[str, GlueFile]
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    problem: str = "single_label"
    scale: tuple[float, float] | None = None
    languages: tuple[str, ...] = ()

    def like(self, kind: str) -> tuple[str, ...]:
        """Returns the names of all splits of a kind, "train", "dev" or "test"."""
        return tuple(name for name in self.splits if name == kind or name.startswith(f"{kind}_"))

    @property
    def leaderboard_files(self) -> tuple[str, ...]:
        """Names of the prediction files that GLUE's server expects; () if it expects none."""
        return tuple(split.leaderboard for split in self.splits.values() if split.leaderboard)


def _splits(columns, label, index="index", answers="", **settings):
    """Returns the three files of most tasks: labels in the column `label`, test ids in the column `index`."""
    return {
        "train": GlueFile("train.tsv", columns, label, **settings),
        "dev": GlueFile("dev.tsv", columns, label, **settings),
        "test": GlueFile("test.tsv", columns, id_column=index, leaderboard=answers),
    }


_PAIR = ("sentence1", "sentence2")
_ENTAILMENT = ("entailment", "not_entailment")
_NLI = ("contradiction", "entailment", "neutral")
_COLA = {  # source, label, the author's original mark, sentence
    "train": GlueFile("train.tsv", (3,), 1, header=False),
    "dev": GlueFile("dev.tsv", (3,), 1, header=False),
    "test": GlueFile("test.tsv", ("sentence",), id_column="index", leaderboard="CoLA.tsv"),
}
_MNLI = {
    "train": GlueFile("train.tsv", _PAIR, "gold_label"),
    "dev": GlueFile("dev_matched.tsv", _PAIR, "gold_label"),
    "dev_mismatched": GlueFile("dev_mismatched.tsv", _PAIR, "gold_label"),
    "test": GlueFile("test_matched.tsv", _PAIR, id_column="index", leaderboard="MNLI-m.tsv"),
    "test_mismatched": GlueFile("test_mismatched.tsv", _PAIR, id_column="index", leaderboard="MNLI-mm.tsv"),
}
_XNLI = {  # the training file is a translation of MultiNLI: premise, hypothesis, label
    "train": GlueFile("multinli/multinli.train.{language}.tsv", (0, 1), 2, renamed={"contradictory": "contradiction"}),
    "dev": GlueFile("xnli.dev.tsv", _PAIR, "gold_label", language_column="language"),
    "test": GlueFile("xnli.test.tsv", _PAIR, language_column="language"),
}
# Quora questions contain line breaks and tabs, which the official files did not escape: rows are split in two.
_QQP = _splits(("question1", "question2"), "is_duplicate", "id", "QQP.tsv", skip_short=True)

TASKS = {
    task.name: task
    for task in (
        GlueTask("cola", "CoLA", _COLA, ("0", "1"), ("matthews",)),
        GlueTask("sst-2", "SST-2", _splits(("sentence",), "label", answers="SST-2.tsv"), ("0", "1"), ("accuracy",)),
        GlueTask(
            "mrpc", "MRPC", _splits(("#1 String", "#2 String"), "Quality", answers="MRPC.tsv"), ("0", "1"),
            ("accuracy", "f1"),
        ),
        GlueTask(
            "sts-b", "STS-B", _splits(_PAIR, "score", answers="STS-B.tsv"), (), ("pearson", "spearman"), "regression",
            (0.0, 5.0),
        ),
        GlueTask("qqp", "QQP", _QQP, ("0", "1"), ("accuracy", "f1")),
        GlueTask("mnli", "MNLI", _MNLI, _NLI, ("accuracy",)),
        GlueTask(
            "qnli", "QNLI", _splits(("question", "sentence"), "label", answers="QNLI.tsv"), _ENTAILMENT, ("accuracy",)
        ),
        GlueTask("rte", "RTE", _splits(_PAIR, "label", answers="RTE.tsv"), _ENTAILMENT, ("accuracy",)),
        GlueTask("wnli", "WNLI", _splits(_PAIR, "label", answers="WNLI.tsv"), ("0", "1"), ("accuracy",)),
        GlueTask(
            "ax", "diagnostic", {"test": GlueFile("diagnostic.tsv", _PAIR, id_column="index", leaderboard="AX.tsv")},
                _NLI,
            ("matthews",),
        ),
        GlueTask("xnli", "XNLI", _XNLI, _NLI, ("accuracy",), languages=_LANGUAGES),
    )
}  # fmt: skip

# The files that GLUE's server expects in one zip, with the range that scores are clipped to.
LEADERBOARD = {file: task.scale for task in TASKS.values() for file in task.leaderboard_files}
LEADERBOARD_HEADER = "index\tprediction\n"  # the first line of each of these files
