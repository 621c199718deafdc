"""Matching texts, with hard negatives or a score if used: from the files of a run of `EmbeddingTask` to tokens."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from absl import logging

from bert_tf.data import glue, tables
from bert_tf.data.columns import number
from bert_tf.data.dialect import Dialect
from bert_tf.data.ragged import splits_of
from bert_tf.data.ranking_files import RankingExamples, read_ranking_file
from bert_tf.data.row_errors import line_position
from bert_tf.data.table_reader import names_in
from bert_tf.data.tables import LabeledTexts
from bert_tf.data.truncation import count_truncated
from bert_tf.data.windowed import Windowed
from bert_tf.tasks.embedding.losses import LOSS_FUNCTIONS
from bert_tf.tasks.embedding.options import EmbeddingOptions
from bert_tf.tasks.options import ACTIONS
from bert_tf.tasks.ranking_data import check_run_files, read_rankings
from bert_tf.tasks.sequences import pack_sequences
from bert_tf.utils.files import find_files


@dataclasses.dataclass
class TextGroups:
    """n queries, each with a matching text and with texts that do not match, as parallel lists.

    Attributes:
        ids: "0", "1", ...
        queries: the queries; the same again for each of its matching texts.
        positives: a matching text each.
        negatives: for each query any number of hard negatives.
        path: the file, or several as `files.find_files` takes them.
        lines: as in `LabeledTexts`.
        labels: a teacher's margin between the positive and the only negative. If None, there are none.
    """

    ids: list[str]
    queries: list[str]
    positives: list[str]
    negatives: list[list[str]]
    path: str
    lines: list[int] | list[str]
    labels: list[float] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def texts(self) -> dict[str, list[str]]:
        """{name: n texts}; the negatives of a query are one text."""
        return {"query": self.queries, "positive": self.positives, "negatives": list(map("\n".join, self.negatives))}

    @property
    def groups(self) -> list[list[str]]:
        """The texts of each example: the query, the matching text and the negatives."""
        return [[*each[:2], *each[2]] for each in zip(self.queries, self.positives, self.negatives, strict=True)]

    def where(self, index: int) -> str:
        """Returns "file:line" of example `index`, the beginning of error messages."""
        return line_position(self.path, self.lines[index])


# === Lists ===
# Files as rerankers have them: a query, its positives and its negatives.


def is_list_file(path: str, dialect: Dialect) -> bool:
    """Returns whether a file, or the first of several, is one of queries with lists of texts."""
    first = find_files(path)[0]
    is_list = first.lower().removesuffix(".gz").endswith((".jsonl", ".parquet"))
    return is_list and "query" in (names := names_in(first, dialect)) and ("positives" in names or "documents" in names)


def group_texts(examples: RankingExamples, one_negative: bool) -> TextGroups:
    """Returns an example for each relevant document of a query, with the documents that are not relevant.

    Args:
        examples: queries with relevances.
        one_negative: make an example for each pair of a relevant document and another one, with the difference of
            their scores as the label, if they have scores.
    """
    found = TextGroups([], [], [], [], examples.path, [], None if examples.scores is None else [])
    for row, (query, documents) in enumerate(zip(examples.queries, examples.documents, strict=True)):
        relevances = examples.relevances[row]
        negatives = [place for place, relevance in enumerate(relevances) if relevance < 1]
        for positive in (place for place, relevance in enumerate(relevances) if relevance > 0):
            for group in [[each] for each in negatives] if one_negative else [negatives]:
                found.ids.append(str(len(found.ids)))
                found.queries.append(query)
                found.positives.append(documents[positive])
                found.negatives.append([documents[place] for place in group])
                found.lines.append(examples.lines[row])
                if examples.scores is not None:
                    found.labels.append(examples.scores[row][positive] - examples.scores[row][group[0]])
    return found


def _read_lists(options, kind, with_scores):
    loss, path = LOSS_FUNCTIONS[options.loss], options.files[kind]
    is_training = kind == "train"
    if with_scores and not (is_training and loss.margins):
        what = f"`loss={options.loss}`" if is_training else "an evaluation by correlation"
        raise ValueError(
            f"{path}: {what} requires pairs with scores. Received queries with lists of texts; choose another loss, or "
            "pass `eval_by=retrieval` for an evaluation."
        )
    by_score = evaluation_by(options.loss, options.eval_by) == "spearman"
    if with_scores and options.given_label_column is not None and not by_score:
        raise ValueError(f"`label_column` requires a table. Received queries with lists of texts, whose `scores` give "
                         f"the margins: {path}; remove it.")  # fmt: skip
    if options.drop_empty:
        raise ValueError(f"`drop_empty` requires a table. Received queries with lists of texts: {path}; remove it.")
    read = read_ranking_file(path, True, options.dialect, with_scores)
    examples = group_texts(read, one_negative=is_training and loss.texts == (3,))
    if not len(examples):
        raise ValueError(f"{path}: `loss={options.loss}` requires negatives. No query has any; add some.")
    return examples


# === Tables ===
# Tables with a column for each text, and GLUE's.


def evaluation_by(loss: str, eval_by: str = "auto") -> str:
    """Returns the kind of evaluation: `eval_by`, or the one that fits a loss if it is "auto"."""
    return ("spearman" if LOSS_FUNCTIONS[loss].by_score else "retrieval") if eval_by == "auto" else eval_by


def read_embedding_data(
    options: EmbeddingOptions, kinds: Sequence[str]
) -> dict[str, LabeledTexts | TextGroups | RankingExamples]:
    """Reads the files of a run, or the GLUE task: {kind of split: its examples}.

    Raises:
        ValueError: options contradict each other, or a file is not as described.
    """
    loss, eval_by = LOSS_FUNCTIONS[options.loss], evaluation_by(options.loss, options.eval_by)
    by_score = eval_by == "spearman"
    _check_numbers(options)
    _check_task(options)
    if loss.margins and not by_score and options.highest_score:
        raise ValueError(
            f"`highest_score` cannot be combined with `loss={options.loss}`, because margins are not divided by it. "
            "Remove it, or adapt `temperature`."
        )
    scores = {"train": loss.scores, "dev": by_score, "final": by_score, "test": False}
    _check_scores(options, {kind: scores[kind] for kind in kinds})
    read = _read_glue if options.task_name else _read_file
    of_lists = [kind for kind in kinds if eval_by == "ranking" and kind in ("dev", "final")]
    if of_lists and options.task_name:
        raise ValueError(
            f"`eval_by=ranking` requires queries with documents. Received `task_name={options.task_name}`; remove one."
        )
    examples = {kind: read_rankings(options, kind) if kind in of_lists else read(options, kind, scores[kind])
                for kind in kinds}  # fmt: skip
    check_run_files(options, (examples[kind] for kind in of_lists))
    if "train" in examples and loss.binary:
        _check_binary(examples["train"], options.loss)
    if "train" in examples and loss.margins:
        _check_margins(examples["train"], options.temperature)
    return examples


def _check_numbers(options):
    """Raises ValueError if the user gave a parameter that the loss does not read."""
    for name in ("temperature", "margin"):
        value, read_by = getattr(options, f"given_{name}"), [k for k, v in LOSS_FUNCTIONS.items() if name in v.numbers]
        if value is not None and options.loss not in read_by:
            raise ValueError(
                f"`{name}` requires `loss={'` or `loss='.join(read_by)}`. Received `{name}={value}` with "
                f"`loss={options.loss}`, which does not read it; remove `{name}`, or choose another loss."
            )


def _check_scores(options, scores):
    """Raises ValueError if nothing reads the scores that the user gave; pairs of any score would count as matching.

    Args:
        scores: {kind of split: whether its scores are read}.
    """
    if options.task_name and not scores.get("train", True):
        raise ValueError(
            f"Training on `task_name={options.task_name}`, whose pairs have scores, requires `loss=cosine`. Received "
            f"`loss={options.loss}`; pass `loss=cosine`."
        )
    given = {"label_column": options.given_label_column, "highest_score": options.highest_score}
    unread = [name for name, value in given.items() if value is not None]
    labeled = [is_read for kind, is_read in scores.items() if kind != "test"]
    if unread and labeled and not any(labeled):
        readers = [name for name, loss in LOSS_FUNCTIONS.items() if loss.scores]
        if unread[0] == "highest_score":  # by which margins are not divided
            readers = [name for name in readers if not LOSS_FUNCTIONS[name].margins]
        raise ValueError(
            f"`{unread[0]}` requires a loss that reads scores ({', '.join(readers)}), or `eval_by=spearman`. Received "
            f"`loss={options.loss}`, which does not read scores; remove `{unread[0]}`, or choose one of these losses."
        )


def _check_task(options):
    if bool(options.task_name) != bool(options.data_dir):
        given = "task_name" if options.task_name else "data_dir"
        raise ValueError(f"`task_name` and `data_dir` must be used together. Received `{given}` alone.")


def _check_columns(options, kind):
    """Raises ValueError if the columns of a table are too few or too many for their use."""
    numbers, what = {
        "train": (LOSS_FUNCTIONS[options.loss].texts, f"`loss={options.loss}`"),
        "dev": ((2, 3), "`do_eval`"),
        "final": ((2, 3), "`test_file`"),
        "test": ((1, 2), "`do_predict`"),
    }[kind]
    columns = options.text_column
    if len(columns) not in numbers:
        raise ValueError(
            f"`text_column` must name {' or '.join(map(str, numbers))} columns for {what}. Received "
            f"{len(columns)}: {','.join(columns)}."
        )


def _read_glue(options, kind, with_scores):
    _check_columns(options, kind)
    task = glue.find_glue_task(options.task_name)
    if task.scale is None:
        raise ValueError(f"`task_name` must be a GLUE task with pair scores. Received: {task.name}.")
    table = glue.read_split(options.data_dir, task.name, kind)
    return _with_scores(table, options.highest_score or task.scale[1], with_scores)


def _read_file(options, kind, with_scores):
    action, path, columns = ACTIONS[kind], options.files[kind], options.text_column
    if not path:
        raise ValueError(
            f"`do_{action}` requires texts. Pass `{action}_file`, or `task_name` with `data_dir`."
        )
    if kind != "test" and options.given_text_column is None and is_list_file(path, options.dialect):
        return _read_lists(options, kind, with_scores)
    _check_columns(options, kind)
    more = {"header": options.header, "skip_bad_rows": options.skip_bad_rows, "dialect": options.dialect}
    more["drop_empty"] = options.drop_empty and kind != "test"
    is_margin = kind == "train" and LOSS_FUNCTIONS[options.loss].margins
    highest, labels = 1.0 if is_margin else options.highest_score or 1.0, {}
    if with_scores:
        kind_of_score = number() if is_margin else number(-highest, highest)
        labels = {"label_column": options.label_column, "label": kind_of_score}
        labels["remedy"] = "check `label_column`, which holds the scores, `text_column` and `highest_score`"
    table = tables.read_table(path, text_columns=columns[:2], **more, **labels)
    if len(columns) == 3:
        table = _with_third_text(table, tables.read_table(path, text_columns=columns[2:], **more))
    return _with_scores(table, highest, with_scores)


def _with_third_text(pairs, third):
    """Joins two tables of one file: the pairs whose line also has a third text, with that text."""
    third_of = dict(zip(third.lines, third.text_a, strict=True))
    kept = [i for i, line in enumerate(pairs.lines) if line in third_of]
    lists = {name: [getattr(pairs, name)[i] for i in kept] for name in ("ids", "text_a", "text_b", "lines")}
    labels = pairs.labels and [pairs.labels[i] for i in kept]
    bad_texts = dict(sorted({**third.bad_texts, **pairs.bad_texts}.items()))
    text_c = [third_of[line] for line in lists["lines"]]
    return dataclasses.replace(pairs, **lists, labels=labels, bad_texts=bad_texts, text_c=text_c)


def _with_scores(examples, highest, with_scores):
    """Returns the examples with labels scaled to at most 1, or without labels."""
    scores = [score / highest for score in examples.labels] if with_scores else None
    return dataclasses.replace(examples, labels=scores)


_MOST_APART, _LITTLE_APART = 2.0, 0.1  # differences of two cosines: the highest, and one that separates hardly anything


def _check_margins(examples, temperature):
    """Warns if most cosines cannot differ as much as the margins demand, or need hardly differ at all."""
    margin = float(np.percentile(np.abs(examples.labels), 99))  # not the highest: a few outliers do no harm
    wanted = margin * temperature
    if _LITTLE_APART <= wanted <= _MOST_APART:
        return
    if wanted > _MOST_APART:
        what, remedy = "but two cosines differ by at most 2", "Pass"
    else:
        what = "which hardly separates the texts"
        remedy = "If the scores are probabilities, use logits. If the reranker hardly separates the texts itself, do "
        remedy += "not distill it. Otherwise, pass"
    remedy += f" `temperature={max(1e-6, float(f'{1 / margin:.1g}')):g}`" if margin else " other scores"
    logging.warning(
        "%s: 99%% of the differences between the scores of positives and negatives are at most %.3g. With "
        "`temperature=%g`, cosines are trained to differ by up to %.3g, %s. %s.",
        *(examples.path, margin, temperature, wanted, what, remedy),
    )


def _check_binary(examples, loss):
    wrong = next((n for n, score in enumerate(examples.labels) if score not in (0, 1)), None)
    if wrong is not None:
        raise ValueError(
            f"{examples.where(wrong)}: the score must be 0 or `highest_score` for `loss={loss}`. Received: "
            f"{examples.labels[wrong]:g} of it; correct this line, or use another `loss`."
        )


# === Encoding ===
# Encodes matching texts as the sequences of one example.


_CHUNK = 10_000  # texts tokenized at a time: few enough to keep memory small


def encode_text_groups(
    tokenizer, groups: Sequence[Sequence[str]], max_seq_length: int, targets: Mapping[str, np.ndarray], path: str
) -> Windowed:
    """Encodes n examples with a sequence for each of their texts: [CLS] text [SEP].

    Args:
        tokenizer: a `Tokenizer`.
        groups: the texts of each example, at least one.
        max_seq_length: maximum sequence length; longer texts are truncated.
        targets: {name: [n]}.
        path: path of the file, for the log.
    """
    ordered, counts = [text for group in groups for text in group], np.array(list(map(len, groups)))
    starts = range(0, len(ordered), _CHUNK)
    tokens = ([tokenizer.tokenize(ordered[start : start + _CHUNK])] for start in starts)
    sequences, needed = pack_sequences(tokenizer, tokens, max_seq_length)
    cut = count_truncated(needed, max_seq_length, np.repeat(np.arange(len(groups)), counts), len(groups))
    logging.info(
        "%s: %d examples of %.3g texts, %.1f tokens per text; %d exceed max_seq_length=%d and were truncated.",
        *(path, len(groups), counts.mean(), sequences.lengths.mean(), len(cut.examples), max_seq_length),
    )
    return Windowed(sequences, splits_of(counts), dict(targets), truncation=cut)
