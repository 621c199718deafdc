"""Losses and data of sentence embedding: pairs with scores, or with positives and negatives."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from bert_tf.data import glue, tables
from bert_tf.data.columns import number
from bert_tf.data.samples import LintSample, TableLayout
from bert_tf.data.table_reader import line_position
from bert_tf.tasks.base import ACTIONS
from bert_tf.utils.settings import Settings

# === Losses ===
# What training on pairs aims at, by name; all from the cosines of vectors.


_NEVER = -1e30  # a logit whose exponential is 0


@dataclasses.dataclass(frozen=True)
class LossParameters:
    """What the losses are set by: `temperature` and `margin`."""

    temperature: float
    margin: float


@dataclasses.dataclass(frozen=True)
class Loss:
    """One loss.

    Attributes:
        compute: vectors float32 [B, N, D] of length 1, the batch, `LossParameters` -> the loss of each example,
            float32 [B].
        texts: how many an example may have.
        scores: whether it reads the pair's score, `label_values`.
        binary: whether the score must be 0 or 1.
        of_batch: whether an example's loss depends on the others of its batch.
    """

    compute: Callable[[tf.Tensor, Mapping[str, tf.Tensor], LossParameters], tf.Tensor]
    texts: tuple[int, ...] = (2,)
    scores: bool = False
    binary: bool = False
    of_batch: bool = False


def _in_batch_negatives(vectors, batch, numbers):
    """Cross-entropy of finding the own second text among all second and third texts of the batch.

    What only fills the batch up is no candidate, nor is a text that is the same as the one to be found.
    """
    count, others = tf.shape(vectors)[0], tf.shape(vectors)[1] - 1
    ids = batch["input_ids"]
    candidates = tf.reshape(tf.transpose(vectors[:, 1:], [1, 0, 2]), [others * count, vectors.shape[-1]])
    candidate_ids = tf.reshape(tf.transpose(ids[:, 1:], [1, 0, 2]), [others * count, -1])
    logits = tf.matmul(vectors[:, 0], candidates, transpose_b=True) / numbers.temperature
    same = tf.reduce_all(ids[:, 1, tf.newaxis] == candidate_ids[tf.newaxis], -1)
    own = tf.eye(count, others * count, dtype=tf.bool)
    real = tf.tile(batch["is_real_example"] > 0, [others])[tf.newaxis]
    logits = tf.where(own | (real & ~same), logits, _NEVER)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(count), logits)


def _cosine(vectors, batch, numbers):
    """The square of how far the cosine is from the score."""
    return tf.square(_cosines(vectors, 1) - batch["label_values"])


def _contrastive(vectors, batch, numbers):
    """Hadsell, Chopra and LeCun 2006, equation 4, with 1 - cosine for the distance; a score of 1 is a similar pair."""
    distance, similar = 1 - _cosines(vectors, 1), batch["label_values"]
    apart = tf.square(tf.nn.relu(numbers.margin - distance))
    return 0.5 * (similar * tf.square(distance) + (1 - similar) * apart)


def _triplet(vectors, batch, numbers):
    """By how much the third text is not `margin` farther than the second, in cosines."""
    return tf.nn.relu(_cosines(vectors, 2) - _cosines(vectors, 1) + numbers.margin)


def _cosines(vectors, n):
    return tf.reduce_sum(vectors[:, 0] * vectors[:, n], -1)


LOSS_FUNCTIONS = {
    "in_batch_negatives": Loss(_in_batch_negatives, texts=(2, 3), of_batch=True),
    "cosine": Loss(_cosine, scores=True),
    "contrastive": Loss(_contrastive, scores=True, binary=True),
    "triplet": Loss(_triplet, texts=(3,)),
}


# === Data ===
# Texts that belong together, with a score where it is read, from the files of a run.


@dataclasses.dataclass
class TextGroups:
    """Texts that belong together, in the order of the file.

    Attributes:
        ids: a name for each.
        texts: one to three lists of n texts: the first texts, those that belong to them, those that do not.
        scores: float of each pair, 1 for the same meaning; None where they are not read.
        path: the file.
        lines: 1-based line on which each begins.
        bad_labels, bad_texts: as in `tables.LabeledTexts`.
    """

    ids: list[str]
    texts: tuple[list[str], ...]
    scores: list[float] | None
    path: str
    lines: list[int]
    bad_labels: dict[int, Any] = dataclasses.field(default_factory=dict)
    bad_texts: dict[int, Any] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    def where(self, index: int) -> str:
        """Returns "file:line" of example `index`, as error messages begin with it."""
        return line_position(self.path, self.lines[index])


@dataclasses.dataclass(frozen=True)
class EmbeddingData:
    """See `task.TaskData`."""

    examples: dict[str, TextGroups]
    text_inputs: tuple[str, ...] = ("text",)


def read_embedding_data(settings: Settings, kinds) -> EmbeddingData:
    """Returns the texts that the settings name; see `FineTuningTask.read_data`.

    Raises:
        ValueError: settings contradict each other, or a file is not as described.
    """
    _check(settings, kinds)
    read = _read_glue if settings.task_name else _read_file
    scores = {"train": LOSS_FUNCTIONS[settings.loss].scores, "dev": evaluates_by_score(settings), "test": False}
    examples = {split: read(settings, split, scores[split]) for split in kinds}
    if "train" in examples and LOSS_FUNCTIONS[settings.loss].binary:
        _check_binary(examples["train"], settings.loss)
    return EmbeddingData(examples)


def embedding_samples(data: EmbeddingData, settings: Settings) -> dict[str, LintSample]:
    """Returns what is checked of the texts; see `FineTuningTask.samples`."""
    table = None if settings.task_name else TableLayout(settings.header, settings.text_column, settings.label_column)

    def sample(groups):
        names = ("text_a", "text_b", "text_c")
        texts = dict(zip(names, groups.texts, strict=False))
        return LintSample(groups.path, groups.where, texts, groups.scores, target="score", table=table,
                      bad_labels=groups.bad_labels, bad_texts=groups.bad_texts)  # fmt: skip

    return {split: sample(groups) for split, groups in data.examples.items()}


def evaluates_by_score(settings: Settings) -> bool:
    """Returns whether cosines are held against scores; otherwise it is counted how often texts find each other."""
    return LOSS_FUNCTIONS[settings.loss].scores if settings.eval_by == "auto" else settings.eval_by == "spearman"


def _check(settings, kinds):
    files = [path for action in ACTIONS.values() if (path := settings.get(f"{action}_file"))]
    if settings.task_name and files:
        raise ValueError(
            f"Texts must come from `task_name` or from files. Received `task_name={settings.task_name}` and {files}."
        )
    if bool(settings.task_name) != bool(settings.data_dir):
        given = "task_name" if settings.task_name else "data_dir"
        raise ValueError(f"`task_name` and `data_dir` must come together. Received `{given}` alone; give both.")
    columns = settings.text_column
    for kind, numbers, what in (
        ("train", LOSS_FUNCTIONS[settings.loss].texts, f"`loss={settings.loss}`"),
        ("dev", (2, 3), "`do_eval`"),
        ("test", (1, 2), "`do_predict`"),
    ):
        if kind in kinds and len(columns) not in numbers:
            raise ValueError(
                f"`text_column` must name {' or '.join(map(str, numbers))} columns for {what}. Received "
                f"{len(columns)}: {','.join(columns)}."
            )


def _read_glue(settings, split, with_scores):
    task = glue.find_glue_task(settings.task_name)
    if task.scale is None:
        raise ValueError(f"`task_name` must be a task of GLUE whose pairs have scores. Received: {task.name}.")
    table = glue.read_split(settings.data_dir, task.name, split)
    highest = settings.highest_score or task.scale[1]
    return _groups(table, [table.text_a, table.text_b], highest if with_scores else None)


def _read_file(settings, split, with_scores):
    action = ACTIONS[split]
    path, columns, more = settings.get(f"{action}_file"), settings.text_column, {"header": settings.header}
    more["skip_bad_rows"] = settings.get("skip_bad_rows", False)
    if not path:
        raise ValueError(
            f"`do_{action}` must have texts. Received no `{action}_file`, and no `task_name` with `data_dir`."
        )
    highest, labels = settings.highest_score or 1.0, {}
    if with_scores:
        labels = {"label_column": settings.label_column, "label": number(-highest, highest)}
        labels["remedy"] = "check `label_column`, which holds the scores, `text_column` and `highest_score`"
    table = tables.read_table(path, text_columns=columns[:2], **more, **labels)
    texts = [texts for texts in (table.text_a, table.text_b) if texts is not None]
    if len(columns) == 3:
        table, texts = _in_both(table, texts, tables.read_table(path, text_columns=columns[2:], **more))
    return _groups(table, texts, highest if with_scores else None)


def _in_both(table, texts, third):
    """Returns the rows of `table` that the third column has a text of too, and their texts.

    Args:
        table: of the first two columns.
        texts: of these two.
        third: `LabeledTexts` of the third column.
    """
    third_of = dict(zip(third.lines, third.text_a, strict=True))
    kept = [i for i, line in enumerate(table.lines) if line in third_of]
    lists = {name: [getattr(table, name)[i] for i in kept] for name in ("ids", "lines")}
    labels = table.labels and [table.labels[i] for i in kept]
    bad_texts = dict(sorted({**third.bad_texts, **table.bad_texts}.items()))
    texts = [[text[i] for i in kept] for text in texts] + [[third_of[line] for line in lists["lines"]]]
    return dataclasses.replace(table, **lists, labels=labels, bad_texts=bad_texts), texts


def _groups(table, texts, highest):
    scores = None if highest is None else [score / highest for score in table.labels]
    bad = {"bad_labels": table.bad_labels, "bad_texts": table.bad_texts}
    return TextGroups(table.ids, tuple(texts), scores, table.path, table.lines, **bad)


def _check_binary(groups, loss):
    wrong = next((n for n, score in enumerate(groups.scores) if score not in (0, 1)), None)
    if wrong is not None:
        raise ValueError(
            f"{line_position(groups.path, groups.lines[wrong])}: the score must be 0 or `highest_score` for "
            f"`loss={loss}`. Received: {groups.scores[wrong]:g} of it; correct this line, or take another `loss`."
        )
