"""The data of an embedding run, from tables with a column for each text, files with lists of texts, or GLUE."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from absl import logging

from bert_tf.data import glue, tables
from bert_tf.data.columns import number
from bert_tf.data.ranking_files import RankingExamples
from bert_tf.data.tables import LabeledTexts
from bert_tf.tasks.embedding.losses import LOSS_FUNCTIONS, evaluation_by
from bert_tf.tasks.embedding.options import EmbeddingOptions
from bert_tf.tasks.embedding.text_groups import TextGroups, is_list_file, read_text_groups
from bert_tf.tasks.options import ACTIONS
from bert_tf.tasks.ranking_data import check_run_files, read_rankings


def read_embedding_data(
    options: EmbeddingOptions, kinds: Sequence[str]
) -> dict[str, LabeledTexts | TextGroups | RankingExamples]:
    """Reads the files of a run, or the GLUE task: {kind of split: its examples}.

    Raises:
        ValueError: options contradict each other, or a file is not as described.
    """
    loss, eval_metric = LOSS_FUNCTIONS[options.loss], evaluation_by(options.loss, options.eval_metric)
    by_score = eval_metric == "spearman"
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
    of_lists = [kind for kind in kinds if eval_metric == "ranking" and kind in ("dev", "final")]
    if of_lists and options.task_name:
        raise ValueError(
            f"`eval_metric=ranking` requires queries with documents; got `task_name={options.task_name}`; remove one."
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
        value, read_by = options.where_given(name), [k for k, v in LOSS_FUNCTIONS.items() if name in v.numbers]
        if value is not None and options.loss not in read_by:
            raise ValueError(
                f"`{name}` requires `loss={'` or `loss='.join(read_by)}`; got `{name}={value}` with "
                f"`loss={options.loss}`, which does not read it; remove `{name}`, or choose such a loss."
            )


def _check_scores(options, scores):
    """Raises ValueError if nothing reads the scores that the user gave; pairs of any score would count as matching.

    Args:
        scores: {kind of split: whether its scores are read}.
    """
    if options.task_name and not scores.get("train", True):
        raise ValueError(
            f"Training on `task_name={options.task_name}`, whose pairs have scores, requires `loss=cosine`; got "
            f"`loss={options.loss}`; pass `loss=cosine`."
        )
    given = {"label_column": options.where_given("label_column"), "highest_score": options.highest_score}
    unread = [name for name, value in given.items() if value is not None]
    labeled = [is_read for kind, is_read in scores.items() if kind != "test"]
    if unread and labeled and not any(labeled):
        readers = [name for name, loss in LOSS_FUNCTIONS.items() if loss.scores]
        if unread[0] == "highest_score":  # by which margins are not divided
            readers = [name for name in readers if not LOSS_FUNCTIONS[name].margins]
        raise ValueError(
            f"`{unread[0]}` requires a loss that reads scores ({', '.join(readers)}), or `eval_metric=spearman`; got "
            f"`loss={options.loss}`, which does not read scores; remove `{unread[0]}`, or choose one of these losses."
        )


def _check_task(options):
    if bool(options.task_name) != bool(options.data_dir):
        given = "task_name" if options.task_name else "data_dir"
        raise ValueError(f"`task_name` and `data_dir` must be used together; got `{given}` alone.")


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
            f"`text_column` must name {' or '.join(map(str, numbers))} columns for {what}; got "
            f"{len(columns)}: {','.join(columns)}."
        )


def _read_glue(options, kind, with_scores):
    _check_columns(options, kind)
    task = glue.find_glue_task(options.task_name)
    if task.scale is None:
        raise ValueError(f"`task_name` must be a GLUE task with pair scores; got {task.name}.")
    table = glue.read_split(options.data_dir, task.name, kind)
    return _with_scores(table, options.highest_score or task.scale[1], with_scores)


def _read_file(options, kind, with_scores):
    action, path, columns = ACTIONS[kind], options.files[kind], options.text_column
    if not path:
        raise ValueError(
            f"`do_{action}` requires texts. Pass `{action}_file`, or `task_name` with `data_dir`."
        )
    if kind != "test" and options.where_given("text_column") is None and is_list_file(path, options.dialect):
        return read_text_groups(options, kind, with_scores)
    _check_columns(options, kind)
    more = {"header": options.header, "skip_bad_rows": options.skip_bad_rows, "dialect": options.dialect}
    more["drop_empty"] = options.drop_empty and kind != "test"
    is_margin = kind == "train" and LOSS_FUNCTIONS[options.loss].margins
    highest, labels = 1.0 if is_margin else options.highest_score or 1.0, {}
    if with_scores:
        kind_of_score = number() if is_margin else number(-highest, highest)
        labels = {"label_column": options.label_column, "label": kind_of_score}
        labels["remedy"] = "check `label_column`, which contains the scores, `text_column` and `highest_score`"
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
            f"{examples.where(wrong)}: the score must be 0 or `highest_score` for `loss={loss}`; got "
            f"{examples.labels[wrong]:g} of it; correct this line, or use a `loss` that takes other scores."
        )
