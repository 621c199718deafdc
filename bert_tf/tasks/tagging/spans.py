"""Reads texts whose entities are character spans: our own predictions, and the exports of Doccano and Label Studio."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from absl import logging

from bert_tf.data.columns import NAME, SPAN_KEYS
from bert_tf.data.dialect import Dialect, extension_of
from bert_tf.data.list_cells import as_list
from bert_tf.data.row_errors import excerpt, line_position
from bert_tf.data.table_reader import iterate_lines, parse_object
from bert_tf.evaluation.entities import EntitySpan
from bert_tf.utils import files
from bert_tf.utils.counts import number_of

_SURROGATES = re.compile("[\ud800-\udfff]")
_FORMS = (
    'a line is {"text": ..., "entities": [{"start": 0, "end": 4, "type": "PER"}]}, the same with "label": '
    '[[0, 4, "PER"]], as Doccano exports it, or a task of Label Studio\'s JSON export'
)


class SpanTexts(NamedTuple):
    """n texts in the order of the file.

    Attributes:
        ids: name of each; "0", "1", ... if the file has none.
        lines: 1-based line of each, or the 1-based item of a .json file's list.
        texts: the texts.
        entities: the entities of each text, from left to right: its characters `first` to `last`. If None, they were
            not requested.
    """

    ids: list[str]
    lines: list[int]
    texts: list[str]
    entities: list[list[EntitySpan]] | None


def has_spans(path: str, encoding: str | None) -> bool:
    """Returns whether a .jsonl or .json file has texts with character spans, rather than tokens with tags."""
    if extension_of(path) == ".json":
        return True
    line, first = next(_read_objects(path, encoding), (1, {}))
    if {"tokens", "tags"} <= first.keys() and (key := next((k for k in SPAN_KEYS if _are_spans(first.get(k))), None)):
        raise _competing(line_position(path, line), "tags", key)
    return "tokens" not in first and bool({"text", "data"} & first.keys())


def read_span_texts(path: str, with_entities: bool, encoding: str | None = None) -> SpanTexts:
    """Reads texts and their entities; the keys of the first object decide the form.

    Offsets are half-open and count code points; those of Label Studio count UTF-16 code units. White space in the name
    of a type becomes "_".

    Args:
        path: a .jsonl file with one object per line, or a .json file with a list of objects.
        with_entities: whether to read entities; if false, only texts.
        encoding: as in `files.read_text`.

    Raises:
        ValueError: the file has another form, or entities overlap; the message names the file and the line.
    """
    rows = list(_read_objects(path, encoding))
    if not rows:
        raise ValueError(f"{path} contains no texts. Check the path.")
    is_studio = "data" in rows[0][1]
    key = next((key for key in SPAN_KEYS if key in rows[0][1]), None)
    if with_entities and not is_studio and key is None:
        at = line_position(path, rows[0][0])
        raise ValueError(f"{at}: the entities are missing. Found the keys {excerpt(list(rows[0][1]), 200)}; {_FORMS}.")
    kept, lines, texts, entities = [], [], [], []
    for line, row in rows:
        at = line_position(path, line)
        text = _studio_text(at, row) if is_studio else row.get("text")
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"{at}: the text must be a non-blank string; got {excerpt(text)}; remove the line.")
        text = _SURROGATES.sub("\ufffd", text)
        if with_entities:
            _refuse_others(at, row, "data" if is_studio else key)
            spans = _studio_spans(at, row, text) if is_studio else _spans(at, row, key, text)
            if spans is None:
                continue
            entities.append(_in_order(at, text, spans))
        kept.append(row)
        lines.append(line)
        texts.append(text)
    if len(kept) < len(rows):
        logging.warning("%s: skipped %s without an annotation.", path, number_of(len(rows) - len(kept), "task"))
    if not kept:
        raise ValueError(f"{path}: no task has an annotation that was not skipped. Export annotated tasks.")
    ids = [NAME.read(row.get("id")) for row in kept]
    return SpanTexts(list(map(str, range(len(ids)))) if None in ids else ids, lines, texts,
                     entities if with_entities else None)  # fmt: skip


def _read_objects(path, encoding) -> Iterator[tuple[int, dict]]:
    """Yields (line, object) of each line of a .jsonl file, or (item, object) of each item of a .json file's list."""
    Dialect(encoding=encoding).check(path)
    if extension_of(path) != ".json":
        for line, (text,) in iterate_lines(path, encoding):
            if text.strip():
                yield line, parse_object(line_position(path, line), text)
        return
    text = files.read_text(path, encoding)
    try:
        items = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} must be a list of objects in JSON. It cannot be parsed ({error}).") from error
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError(f"{path} must be a list of objects in JSON; got {excerpt(items)}; {_FORMS}.")
    yield from enumerate(items, 1)


def _refuse_others(at, row, key):
    """Raises ValueError if a line has entities under a key that is not read."""
    for other in SPAN_KEYS:
        if other != key and _are_spans(row.get(other)) and row[other] != row.get(key):
            raise _competing(at, key, other)


def _are_spans(value):
    items = as_list(value)
    return isinstance(items, list) and any(isinstance(item, dict | list | tuple) for item in items)


def _competing(at, one, other):
    return ValueError(
        f"{at}: a line must have entities in one place; got {one!r} and {other!r}; remove one of them."
    )


def _either(at, value, one, other):
    """Returns the value of the one of two keys that an entity has."""
    if one in value and other in value and value[one] != value[other]:
        raise ValueError(
            f"{at}: {one!r} and {other!r} of an entity mean the same; got {excerpt(value)}; remove one of "
            "them."
        )
    return value.get(one, value.get(other))


def _spans(at, row, key, text):
    values = as_list(row.get(key))
    if not isinstance(values, list):
        raise ValueError(f"{at}: {key!r} must be a list of entities; got {excerpt(values)}; {_FORMS}.")
    return [_span(at, text, value) for value in values]


def _span(at, text, value):
    quoted = None
    if isinstance(value, dict):
        start, end = (_either(at, value, name, f"{name}_offset") for name in ("start", "end"))
        kind, quoted = _either(at, value, "type", "label"), value.get("text")
    elif isinstance(value, list | tuple) and len(value) == 3:
        start, end, kind = value
    else:
        raise ValueError(f"{at}: an entity must have a start, an end and a type; got {excerpt(value)}; {_FORMS}.")
    _check_span(at, text, start, end, kind, value)
    if quoted is not None and quoted != text[start:end]:
        raise ValueError(
            f"{at}: the text of an entity must be at its offsets, which count code points from 0; got "
            f"{excerpt(quoted)}, but {excerpt(text[start:end])} is at {start} to {end}; correct the offsets."
        )
    return start, end, kind


def _check_span(at, text, start, end, kind, value):
    if type(start) is not int or type(end) is not int or not 0 <= start < end <= len(text):
        raise ValueError(
            f"{at}: an entity must have whole numbers as start and end, with 0 <= start < end <= {len(text)}, the "
            f"length of the text in code points; got {excerpt(value)}."
        )
    if not isinstance(kind, str) or not kind.strip():
        raise ValueError(f"{at}: the type of an entity must be a string; got {excerpt(value)}.")


def _studio_text(at, row):
    """Returns the text of a task: `text` in `data`, or the only text that there is."""
    data: Any = row.get("data")
    if isinstance(data, dict):
        texts = [value for value in data.values() if isinstance(value, str)]
        if "text" in data or len(texts) == 1:
            return data.get("text", texts[0] if texts else None)
    raise ValueError(
        f"{at}: the text of a task must be data.text, or the only text in data; got {excerpt(data)}; name it "
        "text in the labeling project."
    )


def _studio_spans(at, row, text):
    """Returns the spans of a task's only annotation, or None if it has none or it was skipped."""
    annotations = row.get("annotations")
    if not isinstance(annotations, list) or not all(isinstance(each, dict) for each in annotations):
        raise ValueError(f"{at}: 'annotations' must be a list of objects; got {excerpt(annotations)}; {_FORMS}.")
    several = [each for each in annotations if not each.get("was_cancelled")]
    several = [each for each in several if each.get("ground_truth")] or several
    if len(several) > 1:
        raise ValueError(
            f"{at}: a task must have one annotation; got {len(several)}; mark one of them as ground truth, or "
            "remove the others."
        )
    results = [each for each in several[0].get("result", []) if each.get("type") == "labels"] if several else []
    return [_studio_span(at, text, each.get("value")) for each in results] if several else None


def _studio_span(at, text, value):
    labels = value.get("labels") if isinstance(value, dict) else None
    if not isinstance(labels, list) or len(labels) != 1:
        raise ValueError(f"{at}: a region must have one label; got {excerpt(value)}; remove the others.")
    start, end, quoted = (value.get(name) for name in ("start", "end", "text"))
    if type(start) is not int or type(end) is not int:
        _check_span(at, text, start, end, labels[0], value)
    # JavaScript counts UTF-16 code units, of which an emoji has two; other programs write code points.
    units = text.encode("utf-16-le")
    in_points = tuple(len(units[: 2 * offset].decode("utf-16-le", "ignore")) for offset in (start, end))
    for first, last in (in_points, (start, end)):
        if quoted is None or _without_space(text[first:last]) == _without_space(quoted):
            _check_span(at, text, first, last, labels[0], value)
            return first, last, labels[0]
    raise ValueError(
        f"{at}: the text of a region must be at its offsets; got {excerpt(quoted)}, but "
        f"{excerpt(text[start:end])} is at {start} to {end}; correct the region."
    )


def _without_space(text):
    return "".join(str(text).replace("\\n", "").split())  # Label Studio writes a line break in a region as \n


def _in_order(at, text, spans):
    """Returns the entities of (start, end, type) from left to right; raises ValueError if they overlap."""
    entities, before = [], None
    for start, end, kind in sorted(spans):
        if before and start < before[1]:
            raise ValueError(
                f"{at}: entities must not overlap; got {before[2]} {excerpt(text[before[0] : before[1]])} at "
                f"{before[0]} to {before[1]}, and {kind} {excerpt(text[start:end])} at {start} to {end}; remove one."
            )
        if not text[start:end].strip():
            raise ValueError(f"{at}: an entity must have a word; got only whitespace at {start} to {end}.")
        before = start, end, kind
        entities.append(EntitySpan("_".join(kind.split()), start, end - 1))
    return entities
