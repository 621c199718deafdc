"""Multiple-choice questions, from SWAG's tables (Zellers et al. 2018), .jsonl or .parquet, to sequences."""

import dataclasses
import os

import numpy as np

from bert_tf.data.columns import NAME, TEXT, without_surrogates
from bert_tf.data.dialect import DEFAULT_DIALECT, Dialect
from bert_tf.data.list_cells import as_list
from bert_tf.data.row_errors import excerpt, line_position
from bert_tf.data.table_columns import Column
from bert_tf.data.table_reader import names_in, read_rows
from bert_tf.data.tables import read_files, refuse_missing
from bert_tf.data.windowed import Windowed
from bert_tf.tasks.text_lists import encode_text_lists

_LISTS = (".jsonl", ".parquet")  # the formats in which a value can be a list
_OWN = (
    'a line is {"context": ..., "choices": [..., ...], "label": ...}: text, texts, and the index of the correct choice'
)
_SWAG = (
    "SWAG's columns are sent1, sent2, ending0, ending1, ... and label; write other questions as .jsonl with context, "
    "choices and label"
)


@dataclasses.dataclass(frozen=True)
class ChoiceExamples:
    """n questions in the order of the file, as parallel lists.

    Attributes:
        ids: name of each; "0", "1", ... if the file has none.
        contexts: context of each question.
        choices: at least two texts each.
        labels: index of the correct choice. If None, they were not requested.
        path: the file.
        lines: 1-based line where each begins; for a Parquet file, the 1-based row.
    """

    ids: list[str]
    contexts: list[str]
    choices: list[list[str]]
    labels: list[int] | None
    path: str
    lines: list[int] | list[str]

    def __len__(self) -> int:
        return len(self.ids)

    def where(self, index: int) -> str:
        """Returns "file:line" of question `index`, the beginning of error messages."""
        return line_position(self.path, self.lines[index])


def read_choice_file(
    path: str | os.PathLike, with_labels: bool, dialect: Dialect = DEFAULT_DIALECT
) -> ChoiceExamples:
    """Reads a file of questions, or several; its extension decides the format; .gz files are decompressed.

    .csv and .tsv: SWAG's. The context is `sent1`; a choice is `sent2`, the beginning of the second sentence, and one of
    `ending0`, `ending1`, ..., its end. All questions have as many choices as there are such columns.
    .jsonl and .parquet: `context`, `choices`, a list of at least two texts, and an `id` if the first question has one.
    Other columns are ignored in all formats.

    Args:
        path: the file; several as `files.find_files` takes them.
        with_labels: whether to read `label`, the index of the correct choice, from 0.
        dialect: how a text file is written.

    Raises:
        ValueError: the file is invalid; the message names the file, the line, the problem and a fix.
    """
    return read_files(path, lambda path: _read_questions(path, with_labels, dialect))


def _read_questions(path, with_labels, dialect):
    in_lists = path.lower().removesuffix(".gz").endswith(_LISTS)
    names = names_in(path, dialect)
    wanted, take = _of_lists(names) if in_lists else _of_swag(names)
    has_id, texts = in_lists and "id" in names, list(wanted)
    wanted += [_column("label", "the index of the correct choice, from 0", wanted)] if with_labels else []
    wanted += [_column("id", "the name of each question", wanted)] if has_id else []
    rows = read_rows(path, wanted, header=True, dialect=dialect)
    if not rows:
        raise ValueError(f"{path} contains no questions. Check the path.")
    refuse_missing(path, rows, texts)
    examples = ChoiceExamples([], [], [], [] if with_labels else None, path, [line for line, _ in rows])
    for i, (line, values) in enumerate(rows):
        at = line_position(path, line)
        examples.ids.append(_id(at, values.pop()) if has_id else str(i))
        label = values.pop() if with_labels else None
        context, choices = take(at, values)
        examples.contexts.append(context)
        examples.choices.append(choices)
        if with_labels:
            examples.labels.append(_label(at, label, len(choices)))
    return examples


def _column(name, meaning, like):
    return Column(name, remedy=like[0].remedy, meaning=meaning)


def _of_swag(names):
    """Returns the required columns of a table, and the function from a row's values to context and choices."""
    count = 2
    while f"ending{count}" in names:
        count += 1
    meanings = {"sent1": "the context", "sent2": "the beginning of every choice"}
    meanings |= {f"ending{i}": f"choice {i}" for i in range(count)}

    def take(at, values):
        context, begin, *endings = values
        for i, ending in enumerate(endings):
            if not ending.strip():
                raise ValueError(
                    f"{at}: every choice must have text, and all questions of a table must have {count} choices; "
                    f"got {ending!r} in column 'ending{i}'; fill it in, or write the questions as .jsonl, where "
                    "the number of choices may vary."
                )
        return context, [f"{begin} {ending}" if begin.strip() else ending for ending in endings]

    return [Column(name, remedy=_SWAG, meaning=meaning) for name, meaning in meanings.items()], take


def _of_lists(names):
    """Like `_of_swag`, for files with list values."""
    meanings = {"context": "the context of the choices", "choices": "a list of texts"}
    return [Column(name, remedy=_OWN, meaning=meaning) for name, meaning in meanings.items()], _take_lists


def _take_lists(at, values):
    context, choices = values[0], as_list(values[1])
    if TEXT.read(context) is None:
        raise ValueError(f"{at}: 'context' must be a string; got {excerpt(context)}; {_OWN}.")
    if not isinstance(choices, list) or len(choices) < 2:
        raise ValueError(f"{at}: 'choices' must be a list of at least two texts; got {excerpt(choices)}; {_OWN}.")
    for i, choice in enumerate(choices):
        if not isinstance(choice, str) or not choice.strip():
            raise ValueError(
                f"{at}: every choice must have text; got {excerpt(choice)} as choice {i} of {excerpt(choices)}; "
                "fill it in, or remove it from the list."
            )
    return context, list(map(without_surrogates, choices))


def _label(at, value, count):
    text = str(value).strip() if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if text.isascii() and text.isdecimal() and int(text) < count:
        return int(text)
    raise ValueError(
        f"{at}: the label must be the index of the correct choice, from 0 to {count - 1}; got {excerpt(value)}."
    )


def _id(at, value):
    name = NAME.read(value)
    if name is None:
        raise ValueError(f"{at}: {NAME.must}; got 'id': {excerpt(value)}.")
    return name


def encode_choices(tokenizer, examples: ChoiceExamples, max_seq_length: int) -> Windowed:
    """Encodes questions as in `encode_text_lists`, with `label_ids` int32 [n] if available."""
    encoded = encode_text_lists(tokenizer, examples.contexts, examples.choices, max_seq_length, examples.path)
    targets = {} if examples.labels is None else {"label_ids": np.array(examples.labels, np.int32)}
    return dataclasses.replace(encoded, targets=targets)
