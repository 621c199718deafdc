"""The error report of tagging: entities that are found, taken for others, missed and invented."""

import dataclasses
from collections import Counter
from collections.abc import Sequence

import numpy as np

from bert_tf.evaluation.entities import EntitySpan, parse_entities
from bert_tf.evaluation.error_reports import common
from bert_tf.evaluation.error_reports.common import Counts, ErrorReport
from bert_tf.utils.html_report import Page

NONE = "no entity"
_KINDS = ("right", "wrong ends", "wrong type", "wrong type and ends", "missed", "invented")
_MICRO = "of all entities together, whatever their type: f1, precision and recall among the scores, as in conlleval."


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggingReport(ErrorReport):
    """n sentences.

    Attributes:
        words: of each.
        gold, given: of each as many tags, in any scheme.
        chances: of each as many probabilities of the tags given.
    """

    words: Sequence[Sequence[str]]
    gold: Sequence[Sequence[str]]
    given: Sequence[Sequence[str]]
    chances: Sequence[Sequence[float]]

    @property
    def warning(self):
        gold, given = ({tag for tags in side for tag in tags} for side in (self.gold, self.given))
        return self.learned_nothing(f"the tag '{given.pop()}'") if len(given) == 1 < len(gold) else ""

    @property
    def severity(self):
        """The surest wrong tag's probability; without one, less than 0: the least sure tag's."""
        return np.array([
            max((p for a, b, p in zip(*each, strict=True) if a != b), default=-min(each[2]))
            for each in zip(self.gold, self.given, self.chances, strict=True)
        ])  # fmt: skip

    def columns(self):
        tags = [[" ".join(each) for each in side] for side in (self.gold, self.given)]
        least = [f"{min(each):.6g}" for each in self.chances]  # of all the sentence's tags
        return dict(zip(("tags", "predicted_tags", "probability"), (*tags, least), strict=True))

    def show(self, page: Page):
        sides = [[parse_entities(tags) for tags in side] for side in (self.gold, self.given)]
        types = sorted({entity.type for side in sides for each in side for entity in each})
        both = list(zip(*sides, strict=True))
        pairs = [pair for golds, givens in both for pair in match_entities(golds, givens)]
        if types:
            self._show_types(page, types, sides, pairs)
        self._show_words(page)
        self._list_errors(page, both)
        whole = np.array([golds == givens for golds, givens in both], float)
        hits = np.array([len(set(golds) & set(givens)) for golds, givens in both])
        all_of_them = np.array([len(golds) + len(givens) for golds, givens in both])
        shares = {"all entities right": whole, "F1": common.Ratio(2 * hits, all_of_them)}
        common.add_means_by_length(page, self.examples, shares)

    def _show_types(self, page, types, sides, pairs):
        names, index = [name or "(no type)" for name in types], {name: i for i, name in enumerate(types)}
        hits = [gold for gold, given in pairs if gold == given]
        golds, givens = ([entity for each in side for entity in each] for side in sides)
        counts = [_count(each, index) for each in (golds, givens, hits)]
        common.add_label_rates(page, "type", names, Counts(*counts), _MICRO, "entities")
        found = Counter((kind_of_error(*pair), (pair[0] or pair[1]).type) for pair in pairs)
        with page.section("Kinds of errors"):
            page.text("Each entity once, by its right type; invented ones by the type given. An entity is right if its "
                      "type, first and last word are.")  # fmt: skip
            rows = [(name, *(found[kind, type_] for kind in _KINDS)) for name, type_ in zip(names, types, strict=True)]
            page.table(None, rows, ("type", *_KINDS))
        matrix = np.zeros([len(types) + 1] * 2, int)
        for gold, given in pairs:
            matrix[tuple(len(types) if each is None else index[each.type] for each in (gold, given))] += 1
        remark = "Entities that overlap are held against each other, also where their ends differ. "
        common.add_confusions(page, "type", [*names, NONE], matrix,
                        remark + f"Given as {NONE!r}: missed. Rightly {NONE!r}: invented.")  # fmt: skip

    def _show_words(self, page):
        chances = np.array([p for each in self.chances for p in each])
        tags = zip(self.gold, self.given, strict=True)
        right = np.array([a == b for golds, givens in tags for a, b in zip(golds, givens, strict=True)])
        common.add_calibration(page, chances, right, "tags of words", " Most words are outside of entities, and easy.")

    def _list_errors(self, page, both):
        wrong = np.array([golds != givens for golds, givens in both])
        sentences = list(zip(self.words, both, strict=True))
        lost = [_named(words, set(golds) - set(givens)) for words, (golds, givens) in sentences]
        added = [_named(words, set(givens) - set(golds)) for words, (golds, givens) in sentences]
        columns = {"right, not found": lost, "found, not right": added}
        columns |= {"surest wrong tag": [f"{max(value, 0):.3f}" for value in self.severity]}
        note = f"{int(wrong.sum()):,} of {len(wrong):,} sentences have an entity that is not right; first those with "
        note += "the wrong tag that the model was surest of, whose probability is given."
        common.add_examples(page, "Most confident errors", self, self.worst(wrong, common.MOST), columns, note)


def match_entities(
    golds: Sequence[EntitySpan], givens: Sequence[EntitySpan]
) -> list[tuple[EntitySpan | None, EntitySpan | None]]:
    """Pairs the right entities of a sentence with those given: of equal words first, then of the greatest overlap.

    Returns:
        (right, given) for each; None for the right one of an invented entity, and for the given one of a missed one.
    """
    near = [(_nearness(a, b), i, k) for i, a in enumerate(golds) for k, b in enumerate(givens) if _overlap(a, b) > 0]
    pairs, left, right = [], set(range(len(golds))), set(range(len(givens)))
    for _, i, k in sorted(near, key=lambda each: (each[0], each[1:])):
        if i in left and k in right:
            pairs.append((golds[i], givens[k]))
            left.remove(i)
            right.remove(k)
    return [*pairs, *((golds[i], None) for i in sorted(left)), *((None, givens[k]) for k in sorted(right))]


def kind_of_error(gold: EntitySpan | None, given: EntitySpan | None) -> str:
    """Returns which kind of error, or none, a pair of `match` is."""
    if gold is None or given is None:
        return "invented" if gold is None else "missed"
    same_ends = gold[1:] == given[1:]
    if gold.type == given.type:
        return "right" if same_ends else "wrong ends"
    return "wrong type" if same_ends else "wrong type and ends"


def _nearness(a, b):
    return a[1:] != b[1:], a.type != b.type, -_overlap(a, b)


def _overlap(a, b):
    return min(a.last, b.last) - max(a.first, b.first) + 1


def _count(found, index):
    return np.bincount([index[each.type] for each in found], minlength=len(index))


def _named(words, some):
    return "; ".join(f"{e.type} {' '.join(words[e.first : e.last + 1])}" for e in sorted(some, key=lambda e: e.first))
