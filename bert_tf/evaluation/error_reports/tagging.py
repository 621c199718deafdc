"""The error report of tagging: entities that are correct, of a wrong type or extent, missing or spurious."""

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from bert_tf.evaluation.entities import EntitySpan, parse_entities
from bert_tf.evaluation.error_reports import sections
from bert_tf.evaluation.error_reports.rates import Counts, ratio_interval
from bert_tf.evaluation.error_reports.report import ErrorReport
from bert_tf.evaluation.label_results import label_results
from bert_tf.utils.html_report import Page

NONE, _NO_TYPE = "no entity", "(no type)"
SPAN_COLUMNS = ("entities", "predicted_entities")  # of a prediction table of texts with character spans
_KINDS = ("correct", "wrong boundaries", "wrong type", "wrong type and boundaries", "missing", "spurious")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggingReport(ErrorReport):
    """n sentences.

    Attributes:
        words: of each.
        gold, given: of each as many tags, in any scheme.
        chances: of each as many probabilities of the predicted tags.
        types: the entity types of the model.
        entities: the true and the predicted entities of each, as characters of the texts. If None, the tags mark them.
    """

    words: Sequence[Sequence[str]]
    gold: Sequence[Sequence[str]]
    given: Sequence[Sequence[str]]
    chances: Sequence[Sequence[float]]
    types: Sequence[str] = ()
    entities: tuple[Sequence[Sequence[EntitySpan]], Sequence[Sequence[EntitySpan]]] | None = None
    task_name = "Named entity recognition"
    main_metrics = ("f1", "accuracy")
    overview_name = "Errors by entity type"

    @property
    def warning(self):
        gold, given = ({tag for tags in side for tag in tags} for side in (self.gold, self.given))
        return self.learned_nothing(f"the tag '{given.pop()}'") if len(given) == 1 < len(gold) else ""

    def label_results(self):
        types = sorted({*self.types, *self._types})
        return label_results([name or _NO_TYPE for name in types], *self._counts(types))

    def _counts(self, types):
        """Returns the numbers of true, predicted and correct entities of each type."""
        index = {name: i for i, name in enumerate(types)}
        golds, givens = ([entity for both in self._entities for entity in both[side]] for side in (0, 1))
        hits = [entity for both in self._entities for entity in set(both[0]) & set(both[1])]
        return Counts(*(_count(each, index) for each in (golds, givens, hits)))

    @functools.cached_property
    def severity(self):
        """The highest score of an error; if all entities are correct, minus the lowest probability of a tag.

        The score of an error is the mean probability of its wrong tags.
        """
        return np.array([
            max(self._error_scores(i), default=max(chances)) if golds != givens else -min(chances)
            for i, ((golds, givens), chances) in enumerate(zip(self._entities, self.chances, strict=True))
        ])  # fmt: skip

    def in_order(self, order="file"):
        if order != "errors":
            return super().in_order(order)
        wrong = np.array([len(_wrong(*both)) for both in self._entities])
        return np.lexsort((-wrong, -self.severity))  # of equal scores, the sentence with the most errors first

    def columns(self):
        tags = [[" ".join(each) for each in side] for side in (self.gold, self.given)]
        least = [f"{min(each):.6g}" for each in self.chances]  # of all the sentence's tags
        columns = dict(zip(("tags", "predicted_tags", "probability"), (*tags, least), strict=True))
        if self.entities is None:
            return columns
        spans = [[" ".join(map(format_span, each)) for each in side] for side in self.entities]
        return columns | dict(zip(SPAN_COLUMNS, spans, strict=True))

    @functools.cached_property
    def _tagged(self):
        """[(true, predicted)] of each sentence, each a list of entities as words."""
        sides = [[parse_entities(tags) for tags in side] for side in (self.gold, self.given)]
        return list(zip(*sides, strict=True))

    @property
    def _entities(self):
        """The same as they are scored: as words or characters."""
        return self._tagged if self.entities is None else list(zip(*self.entities, strict=True))

    def _error_scores(self, i):
        """Yields the score of each pair of a true and a predicted entity of a sentence that differ."""
        for pair in match_entities(*self._tagged[i]):
            words = {word for each in pair if each for word in range(each.first, each.last + 1)}
            wrong = [self.chances[i][k] for k in words if self.gold[i][k] != self.given[i][k]]
            if wrong:
                yield float(np.mean(wrong))

    @functools.cached_property
    def _types(self):
        return sorted({entity.type for both in self._entities for side in both for entity in side})

    def _pairs(self):
        return [pair for golds, givens in self._entities for pair in match_entities(golds, givens)]

    def _hits(self):
        """float [n] twice: of each sentence, twice the correct entities, and all true and predicted ones."""
        hits = np.array([2 * len(set(golds) & set(givens)) for golds, givens in self._entities])
        return hits, np.array([len(golds) + len(givens) for golds, givens in self._entities])

    def interval(self, metric):
        if metric == "f1":
            return ratio_interval(*self._hits())
        right = [sum(a == b for a, b in zip(*each, strict=True)) for each in zip(self.gold, self.given, strict=True)]
        return ratio_interval(np.array(right), np.array([len(each) for each in self.words]))

    def show_overview(self, page: Page):
        found = Counter((kind_of_error(*pair), (pair[0] or pair[1]).type) for pair in self._pairs())
        rows = [(type_ or _NO_TYPE, *(found[kind, type_] for kind in _KINDS)) for type_ in self._types]
        page.table(None, rows, ("type", *_KINDS))
        ends = "first and last word" if self.entities is None else "first and last character"
        page.text("Each entity is counted once, under its true type; spurious ones under the predicted type. An entity "
                  f"is correct if its type, {ends} are.")  # fmt: skip

    def show(self, page: Page):
        self._list_errors(page, self._entities)
        if self._types:
            self._show_types(page, self._types, self._pairs())
        self._show_words(page)
        whole = np.array([golds == givens for golds, givens in self._entities], float)
        shares = {"all entities correct": whole, "F1": sections.Ratio(*self._hits())}
        sections.add_means_by_length(page, self.examples, shares)

    def _show_types(self, page, types, pairs):
        names, index = [name or _NO_TYPE for name in types], {name: i for i, name in enumerate(types)}
        sections.add_label_rates(page, "type", names, self._counts(types), "entities")
        matrix = np.zeros([len(types) + 1] * 2, int)
        for gold, given in pairs:
            matrix[tuple(len(types) if each is None else index[each.type] for each in (gold, given))] += 1
        remark = " Entities that overlap are compared, even if their boundaries differ. "
        remark += f"Predicted as {NONE!r}: missing. True {NONE!r}: spurious."
        with page.section("Confusion matrix of entity types"):
            sections.add_confusion_matrix(page, "type", [*names, NONE], matrix, remark)
        sections.add_confused_pairs(page, "type", [*names, NONE], matrix)

    def _show_words(self, page):
        chances = np.array([p for each in self.chances for p in each])
        tags = zip(self.gold, self.given, strict=True)
        right = np.array([a == b for golds, givens in tags for a, b in zip(golds, givens, strict=True)])
        remark = " Most words are outside of entities and easy to tag."
        sections.add_calibration(page, chances, right, "tags", remark)

    def _list_errors(self, page, both):
        wrong = np.array([golds != givens for golds, givens in both])
        units = self.words if self.entities is None else self.examples.texts["text"]
        sentences = list(zip(units, both, strict=True))
        lost = [_named(units, set(golds) - set(givens)) for units, (golds, givens) in sentences]
        added = [_named(units, set(givens) - set(golds)) for units, (golds, givens) in sentences]
        columns = {"missing (false negatives)": lost, "spurious (false positives)": added}
        columns |= {"score": [_precise(max(value, 0)) for value in self.severity]}
        note = f"{int(wrong.sum()):,} of {len(wrong):,} sentences have a wrong entity. The most confident errors come "
        note += "first. The score of an entity is the mean probability of its wrong tags; a sentence has the highest "
        note += "score of its entities. If scores are equal, the sentence with the most errors comes first."
        sections.add_examples(page, "Most confident errors", self, self.worst(wrong, sections.MOST), columns, note)


def match_entities(
    golds: Sequence[EntitySpan], givens: Sequence[EntitySpan]
) -> list[tuple[EntitySpan | None, EntitySpan | None]]:
    """Pairs the true entities of a sentence with the predicted ones: equal words first, then the greatest overlap.

    Returns:
        (true, predicted) for each; None for the true one of a spurious entity, and for the predicted one of a missing
        one.
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
    """Returns which kind of error, or none, a pair of `match_entities` is."""
    if gold is None or given is None:
        return "spurious" if gold is None else "missing"
    same_ends = gold[1:] == given[1:]
    if gold.type == given.type:
        return "correct" if same_ends else "wrong boundaries"
    return "wrong type" if same_ends else "wrong type and boundaries"


def _nearness(a, b):
    return a[1:] != b[1:], a.type != b.type, -_overlap(a, b)


def _overlap(a, b):
    return min(a.last, b.last) - max(a.first, b.first) + 1


def _count(found, index):
    return np.bincount([index[each.type] for each in found], minlength=len(index))


def format_span(entity: EntitySpan) -> str:
    """Returns an entity of a text as predictions.tsv has it: "0:9:PER", with half-open offsets."""
    return f"{entity.first}:{entity.last + 1}:{entity.type}"


def _wrong(golds, givens):
    return set(golds) ^ set(givens)


def _named(units, some):
    """Returns the entities of a sentence; units: its words, or its text."""
    parts = [(e.type, units[e.first : e.last + 1]) for e in sorted(some, key=lambda e: e.first)]
    return "; ".join(f"{kind} {part if isinstance(part, str) else ' '.join(part)}" for kind, part in parts)


def _precise(score):
    """Returns a score with two digits of its distance from 1, because those of many errors are close to it."""
    digits = 3 if score < 0.99 else min(7, 2 - math.floor(math.log10(max(1 - score, 1e-6))) - 1)
    return f"{score:.{digits}f}"
