"""Questions with choices: SWAG's tables (Zellers et al. 2018), and .jsonl or .parquet with any number of choices."""

import dataclasses
import os

from bert_tf.data.cells import NAME, TEXT, without_surrogates
from bert_tf.data.column_names import names_in
from bert_tf.data.rows import Column, excerpt, read_rows, where
from bert_tf.data.tables import check_ids, refuse_missing

_LISTS = (".jsonl", ".parquet")  # the formats in which a value can be a list
_OWN = (
    'a line is {"context": ..., "choices": [..., ...], "label": ...}: text, texts, and the right one\'s number from 0'
)
_SWAG = (
    "SWAG's columns are sent1, sent2, ending0, ending1, ... and label; write other questions as .jsonl with context, "
    "choices and label"
)


@dataclasses.dataclass(frozen=True)
class ChoiceExamples:
    """n questions in the order of the file, as parallel lists.

    Attributes:
        ids: name of each; "0", "1", ... where the file gives none.
        contexts: what the choice is about.
        choices: of each two texts at least.
        labels: the number of the right choice, from 0; None where none were asked for.
        path: the file.
        lines: 1-based line on which each begins; in a Parquet file the 1-based row.
    """

    ids: list[str]
    contexts: list[str]
    choices: list[list[str]]
    labels: list[int] | None
    path: str
    lines: list[int]

    def __len__(self) -> int:
        return len(self.ids)

    def where(self, index: int) -> str:
        """Returns "file:line" of question `index`, as error messages begin with it."""
        return where(self.path, self.lines[index])


def read_choices(path: str | os.PathLike, with_labels: bool) -> ChoiceExamples:
    """Reads a file of questions; its extension tells the format, .gz files are unpacked.

    .csv and .tsv: SWAG's. The context is `sent1`; a choice is `sent2`, which begins the second sentence, and one of
    `ending0`, `ending1`, ..., which ends it. All questions have as many choices as there are such columns.
    .jsonl and .parquet: `context`, `choices`, a list of two texts at least, and an `id` where the first question has
    one. Other columns are ignored in all formats.

    Args:
        path: the file.
        with_labels: read `label`, the number of the right choice, from 0.

    Raises:
        ValueError: the file is not as described; the message names file, line, what must hold and what to do.
    """
    path = os.fspath(path)
    in_lists = path.lower().removesuffix(".gz").endswith(_LISTS)
    names = names_in(path)
    wanted, take = _of_lists(names) if in_lists else _of_swag(names)
    has_id, texts = in_lists and "id" in names, list(wanted)
    wanted += [_column("label", "the number of the right choice, from 0", wanted)] if with_labels else []
    wanted += [_column("id", "a name for each question", wanted)] if has_id else []
    rows = read_rows(path, wanted, header=True)
    if not rows:
        raise ValueError(f"{path} must hold at least one question. Received a file with none; check the path.")
    refuse_missing(path, rows, texts)
    examples = ChoiceExamples([], [], [], [] if with_labels else None, path, [line for line, _ in rows])
    for i, (line, values) in enumerate(rows):
        at = where(path, line)
        examples.ids.append(_id(at, values.pop()) if has_id else str(i))
        label = values.pop() if with_labels else None
        context, choices = take(at, values)
        examples.contexts.append(context)
        examples.choices.append(choices)
        if with_labels:
            examples.labels.append(_label(at, label, len(choices)))
    check_ids(examples)
    return examples


def _column(name, meaning, like):
    return Column(name, remedy=like[0].remedy, meaning=meaning)


def _of_swag(names):
    """Returns the columns that a table must have, and what makes a context and choices of a row's values."""
    count = 2
    while f"ending{count}" in names:
        count += 1
    meanings = {"sent1": "the context", "sent2": "what every choice begins with"}
    meanings |= {f"ending{i}": f"choice {i}" for i in range(count)}

    def take(at, values):
        context, begin, *endings = values
        for i, ending in enumerate(endings):
            if not ending.strip():
                raise ValueError(
                    f"{at}: every choice must have text, and all questions of a table as many choices, {count}. "
                    f"Received {ending!r} in column 'ending{i}'; fill it in, or write the questions as .jsonl, where "
                    "their choices may differ in number."
                )
        return context, [f"{begin} {ending}" if begin.strip() else ending for ending in endings]

    return [Column(name, remedy=_SWAG, meaning=meaning) for name, meaning in meanings.items()], take


def _of_lists(names):
    """As `_of_swag`, for files whose values are lists."""
    meanings = {"context": "what the choice is about", "choices": "a list of texts"}
    return [Column(name, remedy=_OWN, meaning=meaning) for name, meaning in meanings.items()], _take_lists


def _take_lists(at, values):
    context, choices = values
    if TEXT.read(context) is None:
        raise ValueError(f"{at}: 'context' must be a text. Received: {excerpt(context)}; {_OWN}.")
    if not isinstance(choices, list) or len(choices) < 2:
        raise ValueError(f"{at}: 'choices' must be a list of two texts at least. Received: {excerpt(choices)}; {_OWN}.")
    for i, choice in enumerate(choices):
        if not isinstance(choice, str) or not choice.strip():
            raise ValueError(
                f"{at}: every choice must have text. Received {excerpt(choice)} as choice {i} of {excerpt(choices)}; "
                "write it there, or take it out of the list."
            )
    return context, list(map(without_surrogates, choices))


def _label(at, value, count):
    text = str(value).strip() if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if text.isascii() and text.isdecimal() and int(text) < count:
        return int(text)
    raise ValueError(
        f"{at}: the label must be the number of the right one of {count} choices, from 0 to {count - 1}. Received: "
        f"{excerpt(value)}; correct this line."
    )


def _id(at, value):
    name = NAME.read(value)
    if name is None:
        raise ValueError(f"{at}: {NAME.must}. Received 'id': {excerpt(value)}; correct this line.")
    return name
