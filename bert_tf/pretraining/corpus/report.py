"""The report of a run of create_pretraining_data, as text and as a page with plots."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bert_tf.pretraining.corpus import figures
from bert_tf.pretraining.corpus.examples import CHOSEN, FORCED_ACTUAL, FORCED_RANDOM
from bert_tf.pretraining.corpus.options import Options
from bert_tf.pretraining.corpus.statistics import KEPT, Statistics
from bert_tf.pretraining.records.pieces import Pieces
from bert_tf.utils.counts import percent
from bert_tf.utils.report import Page

_TITLE = "Pretraining data"
_TOP = 20  # masked pieces that are listed
_QUANTILES = (5, 25, 50, 75, 95)  # percent of the examples
_SECOND = {"nsp": ("the next one", "random"), "sop": ("in order", "swapped")}  # what the labels 0 and 1 mean


class _Section(NamedTuple):
    heading: str
    rows: list[tuple]  # name, value and perhaps a remark, all str
    plots: tuple[tuple[str, Callable, float], ...] = ()  # arguments of Page.figure


def as_text(statistics: Statistics, options: Options, pieces: Pieces) -> str:
    """Returns the report in aligned columns.

    Args:
        statistics: of all records, and of the text.
        options: with which they were made.
        pieces: of the vocabulary.
    """
    sections = _sections(statistics, options, pieces)
    names, values = (max(len(row[column]) for section in sections for row in section.rows) for column in (0, 1))
    lines = [_TITLE]
    for heading, rows, _ in sections:
        lines += ["", heading]
        for name, value, *remark in rows:
            lines.append("  ".join([f"  {name.ljust(names)}", value.rjust(values), *remark]))
    return "\n".join(lines) + "\n"


def as_page(statistics: Statistics, options: Options, pieces: Pieces) -> str:
    """Returns the same with plots, as one HTML file; the arguments are those of `as_text`."""
    page = Page(_TITLE)
    for heading, rows, plots in _sections(statistics, options, pieces):
        page.table(heading, rows)
        for plot in plots:
            page.figure(*plot)
    return page.html()


def budgets(options: Options) -> np.ndarray:
    """Returns how many predictions the law gives to examples of 0, 1, ... max_seq_length pieces, int64."""
    share = np.rint(options.masked_lm_prob * np.arange(options.max_seq_length + 1)).astype(np.int64)
    return np.minimum(options.max_predictions_per_seq, np.maximum(1, share))


def _sections(statistics, options, pieces):
    parts = [_Section("Text", _text(statistics.text, options)), _examples(statistics)]
    if options.sentence_objective in _SECOND:
        parts.append(_pairs(statistics.pairs, options.sentence_objective))
    if options.dynamic_masking:
        parts.append(_Section("Masks", [("predictions", "none", "they are drawn anew whenever the records are read")]))
    else:
        parts += [_masks(statistics, options, pieces.phrases), _top(statistics, pieces)]
    return [*parts, _Section("Options", _options(options, pieces))]


def _text(text, options):
    junk = "before the sentences were counted" if options.text.drop_junk_lines else "not asked for: `drop_junk_lines`"
    equal = "of the sentences above" if options.drop_duplicate_lines else "not asked for: `drop_duplicate_lines`"
    return [
        *((name, _number(text[name])) for name in ("files", "bytes", "documents", "sentences")),
        ("pieces", _number(text["tokens"])),
        ("dropped bytes that are not UTF-8", _number(text["invalid_bytes"])),
        ("dropped junk sentences", _number(text["junk_lines"]), junk),
        ("dropped equal sentences", _number(text["duplicate_lines"]), equal),
    ]


def _examples(statistics):
    lengths, width = statistics.lengths, len(statistics.lengths) - 1
    rows = [
        ("examples", _number(statistics.examples)),
        ("their pieces", _number(statistics.tokens), "[CLS] and [SEP] too"),
        *_spread("pieces of an example", lengths),
        *((f"  {share} % have at most", _quantile(lengths, share)) for share in _QUANTILES),
        ("rows", _number(statistics.rows), f"of {width} positions"),
        ("  examples in a row, mean", _ratio(statistics.examples, statistics.rows)),
        ("  padding", _percent(statistics.padding, statistics.rows * width), "of the positions"),
    ]
    plot = "Pieces of the examples", lambda axes: figures.histogram(axes, lengths, "pieces"), 2.4
    return _Section("Examples", rows, (plot,) if statistics.examples else ())


def _pairs(pairs, objective):
    actual, random = _SECOND[objective]
    chance, total = pairs[:, CHOSEN], pairs.sum()
    rows = [
        ("examples where both were possible", _number(chance.sum()), f"{_percent(chance.sum(), total)} of all"),
        (f"  {random}", _percent(chance[1], chance.sum()), "goal 50 %"),
    ]
    if objective == "nsp":
        rows += [
            ("forced to be random", _number(pairs[1, FORCED_RANDOM]), "a lone sentence: the last one, or a long one"),
            ("forced to be the next one", _number(pairs[0, FORCED_ACTUAL]), "no other document was at hand"),
            ("random, forced or not", _percent(pairs[1].sum(), total), "of all examples"),
        ]
    plot = "Second texts", lambda axes: figures.pairs(axes, pairs, (actual, random)), 1.8
    return _Section(f"Second texts ({objective})", rows, (plot,) if total else ())


def _masks(statistics, options, phrases):
    chosen, counts, law = statistics.chosen, statistics.predictions, budgets(options)
    wanted = np.bincount(law, statistics.lengths, len(counts))
    goals = 100 * np.array([options.mask_token_prob, options.random_token_prob, 0])
    goals[KEPT] = 100 - goals.sum()
    masks, swaps, originals = ((_percent(statistics.fates[i], chosen), f"goal {goals[i]:.4g} %") for i in range(3))
    rows = [
        ("predictions", _number(chosen)),
        ("mask rate", _percent(chosen, statistics.tokens), f"of the pieces; goal {100 * options.masked_lm_prob:.4g} %"),
        ("  became [MASK]", *masks),
        ("  became a random piece", *swaps),
        ("  kept", originals[0], f"{originals[1]}; with random pieces that are the original ones"),
        *_spread("predictions of an example", counts),
        *_against(law, statistics.shapes, options),
        *(_phrases(statistics.phrases, phrases) if phrases else ()),
    ]
    plots = (
        ("What became of the predictions", lambda axes: figures.fates(axes, statistics.fates, goals), 1.8),
        ("Predictions of the examples", lambda axes: figures.histogram(axes, counts, "predictions", wanted), 2.4),
    )
    return _Section(f"Masks ({options.masking})", rows, plots if chosen else ())


def _against(law, shapes, options):
    """Rows that compare the numbers of predictions with the law."""
    over = np.arange(shapes.shape[1]) - law[:, None]
    rule = f"min({options.max_predictions_per_seq}, max(1, round({options.masked_lm_prob:g} x pieces)))"
    return [
        ("  as many as the law gives", _number(shapes[over == 0].sum()), rule),
        ("  fewer", _number(shapes[over < 0].sum()), "nothing that was left fitted in"),
        ("  more", _number(shapes[over > 0].sum()), "the shortest word is longer"),
    ]


def _phrases(counts, phrases):
    """Rows that say what became of a list of phrases."""
    lost = f"{_number(phrases.unknown)} more hold pieces that the vocabulary lacks"
    return [
        ("phrases in the list", _number(phrases.number), lost),
        ("  found in the examples", _number(counts["found"])),
        ("  masked as one", _percent(counts["masked"], counts["found"]), "of those found"),
    ]


def _top(statistics, pieces):
    ids, total = statistics.masked_ids, statistics.chosen
    first = np.argsort(-ids, kind="stable")[:_TOP]
    top = [(pieces.names[i], int(ids[i])) for i in first if ids[i]]
    rows = [
        ("different ones", _number(np.count_nonzero(ids)), f"of {_number(len(ids))} in the vocabulary"),
        *((f"  {name}", _number(count), _percent(count, total)) for name, count in top),
    ]
    plot = "Most frequent pieces to predict", lambda axes: figures.top(axes, *zip(*top, strict=True)), 3.6
    return _Section("Pieces to predict", rows, (plot,) if top else ())


def _options(options, pieces):
    flags = dataclasses.asdict(options)
    flags |= flags.pop("text")
    return [("vocabulary", _number(pieces.vocab_size)), *((f"--{name}", str(value)) for name, value in flags.items())]


def _spread(name, counts):
    """Rows with the least, the mean and the most of what is counted; counts[i] is how often i occurs."""
    values = np.flatnonzero(counts)
    low, high = (_number(values[i]) if len(values) else "-" for i in (0, -1))
    mean = _ratio(counts @ np.arange(len(counts)), counts.sum())
    return [(f"{name}, least", low), ("  mean", mean), ("  most", high)]


def _quantile(counts, share):
    """What `share` percent have at most."""
    total = np.cumsum(counts)
    return _number(np.searchsorted(total, share / 100 * total[-1])) if total[-1] else "-"


def _number(count):
    return f"{count:,}"


def _ratio(part, whole):
    return f"{part / whole:.2f}" if whole else "-"


def _percent(part, whole):
    return percent(part / whole, 2) if whole else "-"
