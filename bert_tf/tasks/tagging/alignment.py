"""Entities as characters of a text and as tags of its words: which entities words cannot represent, and the scores."""

import bisect
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from absl import logging

from bert_tf.data.findings import DataFinding, format_positions, format_share
from bert_tf.evaluation.entities import EntitySpan, parse_entities, tags_of
from bert_tf.tokenization.word_boundaries import inner_span, word_spans
from bert_tf.utils.counts import word_for

if TYPE_CHECKING:
    from bert_tf.tasks.tagging.columns import TaggedExamples

_MOST = 0.2  # share of a file's entities that words may change
_SHOWN = 3  # types in messages


def tag_words(words: Sequence[tuple[int, int]], entities: Sequence[EntitySpan]) -> list[str]:
    """Returns the IOB2 tags of the words that contain entities of a text.

    An entity has all words that it is in; one that begins in a word of an earlier entity has the words after it, and is
    left out if there are none.

    Args:
        words: (start, end) of each word, half-open.
        entities: characters of the text, from left to right, without overlap.
    """
    starts, ends = ([word[side] for word in words] for side in (0, 1))
    marked, free = [], 0
    for kind, start, end in entities:
        first, last = max(free, bisect.bisect_right(ends, start)), bisect.bisect_right(starts, end) - 1
        if first <= last:
            marked.append(EntitySpan(kind, first, last))
            free = last + 1
    return tags_of(marked, len(words), "iob2")


def answered_entities(text: str, tags: Sequence[str], boundaries: str) -> list[EntitySpan]:
    """Returns the entities that tags of a text's words mark, as characters of the text, as they are served.

    Args:
        text: the text.
        tags: of each of its words.
        boundaries: where words end, one of `names.WORD_BOUNDARIES`.
    """
    words = [inner_span(text, *word) if boundaries == "whitespace" else word for word in word_spans(text, boundaries)]
    return [EntitySpan(kind, words[first][0], words[last][1] - 1) for kind, first, last in parse_entities(tags)]


def changed_entities(examples: "TaggedExamples") -> list[tuple[int, EntitySpan]]:
    """Returns (sentence, entity) of each entity that the tags of words do not represent exactly."""
    changed = []
    for i, (text, own, tags) in enumerate(zip(examples.texts, examples.entities, examples.tags, strict=True)):
        if own:
            answered = set(answered_entities(text, tags, examples.boundaries))
            changed += [(i, entity) for entity in own if entity not in answered]
    return changed


def find_changed_entities(examples: "TaggedExamples") -> DataFinding | None:
    """Returns the warning about entities that the tags of words change; None if there are none."""
    if not examples.entities or not (changed := changed_entities(examples)):
        return None
    total, (i, entity) = sum(map(len, examples.entities)), changed[0]
    what = format_share(len(changed), total, "entities", ("does", "do"))
    return DataFinding(
        "changed_entities",
        examples.path,
        len(changed),
        f"{what} not begin and end where words do and cannot be predicted exactly, such as "
        f"{_shown(examples.texts[i], entity)}; the scores count {word_for(len(changed), 'it', 'them')} as missed",
        _remedy(examples),
        format_positions(examples.path, dict.fromkeys(examples.where(i) for i, _ in changed)),
    )


def warn_of_cut_tokens(examples: "TaggedExamples", continued: Sequence[Sequence[bool]]):
    """Logs the entities that begin or end inside a token of the vocabulary.

    Args:
        examples: n texts with tags.
        continued: for each word of each text, whether it has no token of its own.
    """
    total, cut = 0, []
    for i, (tags, inside) in enumerate(zip(examples.tags, continued, strict=True)):
        entities = parse_entities(tags)
        total += len(entities)
        cut += [i for _, first, last in entities if inside[first] or inside[last + 1 : last + 2] == [True]]
    if cut:
        logging.warning(
            "%s: %d of %d entities begin or end inside a token of the vocabulary and cannot be predicted exactly, the "
            "first in %s.",
            *(examples.path, len(cut), total, examples.where(cut[0])),
        )


def refuse_changed_entities(examples: "TaggedExamples"):
    """Raises ValueError if the tags of words change over a fifth of the entities, or none of a type is left."""
    if not examples.entities or not (changed := changed_entities(examples)):
        return
    total = sum(map(len, examples.entities))
    kept = {kind for tags in examples.tags for kind, *_ in parse_entities(tags)}
    gone = sorted({entity.type for _, entity in changed} - kept)
    if len(changed) <= _MOST * total and not gone:
        return
    at, text = examples.where(changed[0][0]), examples.texts[changed[0][0]]
    named = ", ".join(map(repr, gone[:_SHOWN])) + (", ..." if len(gone) > _SHOWN else "")
    raise ValueError(
        f"{at}: entities must begin and end where words do; got {_shown(text, changed[0][1])}, and "
        f"{format_share(len(changed), total, 'entities')} that do not"
        + (f", so that the {word_for(len(gone), 'type', 'types')} {named} would disappear" if gone else "")
        + f"; {_remedy(examples)}."
    )


def _shown(text, entity):
    """Returns an entity with the characters around it, up to 20 or a space on each side."""
    start, end = entity.first, entity.last + 1
    before, after = re.search(r"\S{0,20}$", text[:start]), re.match(r"\S{0,20}", text[end:])
    return f"{entity.type} {text[start:end][:60]!r} in {(before[0] + text[start:end][:60] + after[0])!r}"


def _remedy(examples):
    finer = {"whitespace": "punctuation", "punctuation": "characters"}.get(examples.boundaries)
    return "correct the offsets" + (f", or train with `word_boundaries={finer}`" if finer else "")
