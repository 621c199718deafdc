"""Entities in tag sequences, conlleval's metrics, and tagging schemes (IOB1, IOB2, BIOES). No TensorFlow.

A tag is "O", or a prefix and a type: "B-PER", "I-PER", and in BIOES also "E-PER" and "S-PER". The first hyphen ends the
prefix; a tag without a hyphen ("B") has the type "".

scheme  the words of two entities of one type that touch (Tjong Kim Sang and Veenstra 1999, "Representing Text Chunks")
iob1    I I B I     B- only if an entity directly follows one of the same type; the files of CoNLL-2003
iob2    B I B I     B- begins every entity
bioes   B E B E     E- ends every entity; S- is an entity of a single word
"""

import functools
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

SCHEMES = {"iob1": "BI", "iob2": "BI", "bioes": "BIES"}  # the prefixes of each

_TAG = re.compile(r"([BIES])(?:-(\S*))?")
_OUTSIDE = ("O", "")


class EntitySpan(NamedTuple):
    """Words `first` to `last`, both included and counted from 0, that are of `type`."""

    type: str
    first: int
    last: int


class Fault(NamedTuple):
    """A tag at `index` that violates a scheme, with the `reason`, which continues "got 'I-PER', "."""

    index: int
    reason: str


@functools.lru_cache(maxsize=4096)  # a file has few tags, each of them many times
def split_tag(tag: str) -> tuple[str, str]:
    """Splits a tag into (prefix, type): "B-PER" -> ("B", "PER"), "O" -> ("O", "").

    Raises:
        ValueError: it is not a tag of any scheme.
    """
    match = _TAG.fullmatch(tag)
    if not match and tag != "O":
        raise ValueError(
            "A tag must be O, or a prefix, a hyphen and a type without spaces, with the prefixes B and I (iob1, iob2) "
            f"or B, I, E and S (bioes); got the unknown tag {tag!r}; rename it."
        )
    return (match[1], match[2] or "") if match else _OUTSIDE


def parse_entities(tags: Sequence[str]) -> list[EntitySpan]:
    """Returns the entities of one sentence, from left to right, for any scheme and for invalid sequences.

    The rules are those of conlleval.pl (Tjong Kim Sang, version of 2004), with S- and B- after E- as in its BIOES
    variants: an entity continues if I- or E- follows B- or I- of its type; any other tag except O begins a new one.

    Raises:
        ValueError: an unknown tag.
    """
    chunks, before = [], _OUTSIDE
    for i, pair in enumerate(map(split_tag, tags)):
        if _continues(before, pair):
            chunks[-1] = chunks[-1]._replace(last=i)
        elif pair != _OUTSIDE:
            chunks.append(EntitySpan(pair[1], i, i))
        before = pair
    return chunks


def entities_around(tags: Sequence[str | None]) -> list[EntitySpan]:
    """Returns the entities of one sentence, skipping words without a tag (None).

    Such a word belongs to an entity that begins before it and continues after it, otherwise to none.

    Raises:
        ValueError: an unknown tag.
    """
    tagged = [i for i, tag in enumerate(tags) if tag is not None]
    return [
        EntitySpan(kind, tagged[first], tagged[last]) for kind, first, last in parse_entities([tags[i] for i in tagged])
    ]


def score_entities(golds: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]) -> dict[str, float]:
    """Evaluates predicted tags like conlleval.pl: an entity is correct if its type, first and last word are.

    Both sides may use any scheme; only `accuracy` is affected if they differ. No entity spans two sentences.

    Args:
        golds: the true tags of n sentences.
        predictions: the predicted tags of the same sentences.

    Returns:
        `f1`, `precision` and `recall` over all entities; `accuracy`, the fraction of words with the correct tag; and
        `f1_PER`, `precision_PER` and `recall_PER` for every type that occurs, in alphabetical order. Entities without a
        type only count in the first three. Each is a fraction from 0 to 1, and 0 / 0 counts as 0.

    Raises:
        ValueError: the sentences do not match, or an unknown tag.
    """
    _check_lengths(golds, predictions)
    words = sum(map(len, golds))
    same = sum(split_tag(a) == split_tag(b) for each in zip(golds, predictions, strict=True)
               for a, b in zip(*each, strict=True))  # fmt: skip
    scores = score_spans(list(map(parse_entities, golds)), list(map(parse_entities, predictions)))
    overall = {name: scores.pop(name) for name in ("f1", "precision", "recall")}
    return {**overall, "accuracy": _ratio(same, words), **scores}


def score_spans(golds: Sequence[Sequence[EntitySpan]], predictions: Sequence[Sequence[EntitySpan]]) -> dict[str, float]:
    """Evaluates predicted entities: one is correct if its type, its first and its last position are.

    Args:
        golds: the true entities of n sentences.
        predictions: the predicted entities of the same sentences.

    Returns:
        The scores of `score_entities` without the accuracy.
    """
    hits, guesses, truths = Counter(), Counter(), Counter()
    for gold, prediction in zip(golds, predictions, strict=True):
        truths.update(entity.type for entity in gold)
        guesses.update(entity.type for entity in prediction)
        hits.update(entity.type for entity in set(gold) & set(prediction))
    scores = _rates(hits.total(), guesses.total(), truths.total())
    for name in sorted(filter(None, truths | guesses)):
        rates = _rates(hits[name], guesses[name], truths[name])
        scores.update({f"{key}_{name}": value for key, value in rates.items()})
    return scores


def find_scheme(sentences: Sequence[Sequence[str]]) -> str:
    """Detects the tagging scheme of a file's sentences.

    "bioes" if E- or S- occurs, "iob2" if B- begins every entity (or there is none), and "iob1" otherwise.
    Use `find_wrong_tag` to check whether they follow it everywhere.

    Raises:
        ValueError: an unknown tag.
    """
    if {split_tag(tag)[0] for tags in sentences for tag in tags} & {"E", "S"}:
        return "bioes"
    begins = {split_tag(tags[entity.first])[0] for tags in sentences for entity in parse_entities(tags)}
    return "iob1" if "I" in begins else "iob2"


def find_wrong_tag(tags: Sequence[str], scheme: str) -> Fault | None:
    """Returns the first tag of a sentence that violates `scheme`, or None.

    Raises:
        ValueError: an unknown scheme, or an unknown tag.
    """
    _check_scheme(scheme)
    pairs = [_OUTSIDE, *map(split_tag, tags), _OUTSIDE]
    around = [None, *tags, None]  # as errors show them; None is outside the sentence
    for i in range(1, len(pairs) - 1):
        if reason := _find_reason(pairs[i - 1 : i + 2], around[i - 1], around[i + 1], scheme):
            return Fault(i - 1, reason)
    return None


def tags_of(chunks: Sequence[EntitySpan], length: int, scheme: str) -> list[str]:
    """Returns the `length` tags that mark a sentence's entities in `scheme`.

    Args:
        chunks: entities that do not overlap, from left to right.
        length: number of words in the sentence.
        scheme: one of `SCHEMES`.

    Raises:
        ValueError: an unknown scheme.
    """
    _check_scheme(scheme)
    tags, before = ["O"] * length, None
    for entity in chunks:
        touches = before is not None and (before.type, before.last + 1) == (entity.type, entity.first)
        prefixes = _prefixes(entity.last - entity.first + 1, scheme, touches)
        tags[entity.first : entity.last + 1] = [_join(prefix, entity.type) for prefix in prefixes]
        before = entity
    return tags


def _continues(before, pair):
    return pair[0] in ("I", "E") and before[0] in ("B", "I") and pair[1] == before[1]


def _prefixes(length, scheme, touches):
    """Returns the prefixes of an entity's words; `touches`: whether the previous word is of the same type."""
    if scheme == "bioes":
        return "S" if length == 1 else "B" + "I" * (length - 2) + "E"
    return ("I" if scheme == "iob1" and not touches else "B") + "I" * (length - 1)


def _join(prefix, kind):
    return f"{prefix}-{kind}" if kind else prefix


def _find_reason(pairs, before, after, scheme):
    """Returns why the second of three pairs violates `scheme`, or None; before, after: the adjacent tags."""
    prefix, kind = pairs[1]
    begin, inner, end = (_join(letter, kind) for letter in "BIE")
    follows = f"follows {before!r}" if before else "begins the sentence"
    joins = _continues(pairs[0], ("I", kind))
    if prefix != "O" and prefix not in SCHEMES[scheme]:
        return f"a prefix that {scheme} does not define"
    if scheme == "iob1" and prefix == "B" and not joins:
        return f"which must follow {begin} or {inner} in {scheme}, where {inner} begins other entities, but {follows}"
    if scheme != "iob1" and prefix in ("I", "E") and not joins:
        return f"which must follow {begin} or {inner} in {scheme}, but {follows}"
    if scheme == "bioes" and prefix in ("B", "I") and not _continues(pairs[1], pairs[2]):
        ends = f"{after!r} follows" if after else "the sentence ends"
        return f"which {inner} or {end} must follow in {scheme}, but {ends}"
    return None


def _rates(hits, guesses, truths):
    # One division rather than conlleval's 2PR / (P + R): the same number, and 1.0 is exact
    return {
        "f1": _ratio(2 * hits, guesses + truths),
        "precision": _ratio(hits, guesses),
        "recall": _ratio(hits, truths),
    }


def _ratio(part, whole):
    return part / whole if whole else 0.0


def _check_scheme(scheme):
    if scheme not in SCHEMES:
        raise ValueError(f"`scheme` must be one of {', '.join(SCHEMES)}; got {scheme!r}.")


def _check_lengths(golds, predictions):
    if len(golds) != len(predictions):
        raise ValueError(
            "`predictions` must have one sentence for each of `golds`; "
            f"got {len(predictions)} for {len(golds)}; pass matching lists."
        )
    for i, (gold, prediction) in enumerate(zip(golds, predictions, strict=True)):
        if len(gold) != len(prediction):
            raise ValueError(
                f"Sentence {i} of `predictions` must have one tag per word; "
                f"got {len(prediction)} for {len(gold)} words; pad truncated sentences with O."
            )
