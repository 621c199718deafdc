"""The report of a run of create_pretraining_data, as text and as a page with plots."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bert_tf.data.pretraining import figures
from bert_tf.data.pretraining.examples import CHOSEN, FORCED_ACTUAL, FORCED_RANDOM
from bert_tf.data.pretraining.options import Options
from bert_tf.data.pretraining.pieces import Pieces
from bert_tf.data.pretraining.statistics import HIDDEN, KEPT, SWAPPED, Statistics
from bert_tf.report import Page

_TITLE = "Pretraining data"
_TOP = 20  # masked pieces that are listed
_QUANTILES = (5, 25, 50, 75, 95)  # percent


def as_text(statistics: Statistics, options: Options, pieces: Pieces) -> str:
    """Returns the report in aligned columns.

    Args:
        statistics: of all records, and of the text.
        options: with which they were made.
        pieces: of the vocabulary.
    """
    lines = [_TITLE]
    sections = _sections(statistics, options, pieces)
    wide = max(len(name) for section in sections for name, *_ in section.rows)
    for heading, rows, _ in sections:
        right = max((len(value) for _, value, *remark in rows), default=0)
        lines += ["", heading]
        lines += ["  ".join(["", name.ljust(wide), value.rjust(right), *remark]) for name, value, *remark in rows]
    return "\n".join(lines) + "\n"


def as_page(statistics: Statistics, options: Options, pieces: Pieces) -> str:
    """Returns the same report with plots, as one HTML file; the arguments are those of `as_text`."""
    page = Page(_TITLE)
    for heading, rows, plots in _sections(statistics, options, pieces):
        page.table(heading, rows)
        for plot in plots:
            page.figure(*plot)
    return page.html()


class _Section(NamedTuple):
    """Attributes:
    rows: (name, value) or (name, value, remark), all str.
    plots: arguments of Page.figure.
    """

    heading: str
    rows: list[tuple]
    plots: list[tuple[str, Callable, float]] = []


def _sections(statistics, options, pieces) -> list[_Section]:
    found = [_text(statistics.text, options), _examples(statistics)]
    if options.sentence_objective != "none":
        found.append(_second_texts(statistics.pairs, options.sentence_objective))
    if not options.dynamic_masking:
        found += [_predictions(statistics, options), _masked(statistics, pieces)]
    return [*found, _options(options, pieces)]


def _text(text, options):
    junk = "" if options.text.drop_junk_lines else "not looked for: --drop_junk_lines"
    duplicates = "" if options.drop_duplicate_lines else "not looked for: --drop_duplicate_lines"
    rows = [
        ("files", _number(text["files"])),
        ("bytes", _number(text["bytes"]), "unpacked"),
        ("documents", _number(text["documents"])),
        ("sentences", _number(text["sentences"])),
        ("pieces", _number(text["tokens"])),
        ("dropped: bytes that are not UTF-8", _number(text["invalid_bytes"])),
        ("dropped: junk sentences", _number(text["junk_lines"]), junk),
        ("dropped: sentences that occur again", _number(text["duplicate_lines"]), duplicates),
    ]
    return _Section("Text that was read", [tuple(filter(None, row)) for row in rows])


def _examples(statistics):
    low, mean, high = _range(statistics.lengths)
    quantiles = ", ".join(f"{share} %" for share in _QUANTILES)
    positions = statistics.tokens + statistics.padding
    rows = [
        ("examples", _number(statistics.examples)),
        ("their pieces", _number(statistics.tokens), "[CLS] and [SEP] too"),
        ("shortest, mean, longest example", f"{low}  {mean}  {high}"),
        (f"{quantiles} have at most", "  ".join(_quantile(statistics.lengths, share) for share in _QUANTILES)),
        ("rows", _number(statistics.rows), f"of {len(statistics.lengths) - 1} pieces"),
        ("examples in a row", _ratio(statistics.examples, statistics.rows)),
        ("padding", _percent(statistics.padding, positions), "of all positions"),
    ]
    plot = "Lengths of the examples, in pieces", lambda axes: figures.histogram(axes, statistics.lengths), 2.4
    return _Section("Examples", rows, [plot] if statistics.examples else [])


def _second_texts(pairs, objective):
    actual, random = ("the next one", "random") if objective == "nsp" else ("in order", "swapped")
    free = pairs[:, CHOSEN]
    rows = [
        ("both were possible", _number(free.sum()), f"{_percent(free.sum(), pairs.sum())} of the examples"),
        (f"  {random}, by chance", _percent(free[1], free.sum()), "goal 50 %"),
    ]
    if objective == "nsp":
        forced = pairs[:, FORCED_RANDOM].sum(), pairs[:, FORCED_ACTUAL].sum()
        rows += [
            ("forced to be random", _number(forced[0]), "a document's last sentence was left alone"),
            ("forced to be the next one", _number(forced[1]), "no other document was at hand"),
            (f"{random}, of all examples", _percent(pairs[1].sum(), pairs.sum())),
        ]
    plot = "Second texts", lambda axes: figures.pairs(axes, pairs, (actual, random)), 1.6
    return _Section(f"Second texts (--sentence_objective={objective})", rows, [plot] if pairs.any() else [])


def _predictions(statistics, options):
    law, chosen, fates = budgets(options), statistics.chosen, statistics.fates
    wanted = options.masks.mask_rate, options.masks.random_rate
    goals = dict(zip((HIDDEN, SWAPPED, KEPT), (*wanted, 1 - sum(wanted)), strict=True))
    over = np.arange(options.max_predictions_per_seq + 1) - law[:, None]  # like `shapes`: more than the law gives
    most = options.max_predictions_per_seq
    rule = f"min({most}, max(1, round({options.masked_lm_prob:g} x pieces)))"
    low, mean, high = _range(statistics.predictions)
    rows = [
        ("predictions", _number(chosen)),
        ("mask rate", _percent(chosen, statistics.tokens), f"of the pieces; goal {options.masked_lm_prob:.4g}"),
        ("  became [MASK]", _percent(fates[HIDDEN], chosen), f"goal {100 * goals[HIDDEN]:.4g} %"),
        ("  became a random piece", _percent(fates[SWAPPED], chosen), f"goal {100 * goals[SWAPPED]:.4g} %"),
        ("  were kept", _percent(fates[KEPT], chosen), f"goal {100 * goals[KEPT]:.4g} %, and random ones that are equal"),
        ("fewest, mean, most in an example", f"{low}  {mean}  {high}"),
        ("examples with as many as the law", _number(statistics.shapes[over == 0].sum()), rule),
        ("  with fewer", _number(statistics.shapes[over < 0].sum()), "no word that was left fitted"),
        ("  with more", _number(statistics.shapes[over > 0].sum()), "the shortest word has more pieces"),
    ]
    return _Section("Masks", rows, [])
