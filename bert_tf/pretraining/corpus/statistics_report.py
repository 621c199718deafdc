"""The report of the statistics of a corpus and its examples, as text and as a page with plots."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bert_tf.pretraining.corpus.examples import CHOSEN, FORCED_ACTUAL, FORCED_RANDOM
from bert_tf.pretraining.corpus.options import CorpusOptions
from bert_tf.pretraining.corpus.statistics import UNCHANGED, Statistics
from bert_tf.pretraining.corpus.statistics_plots import draw_histogram, draw_pairs, draw_replacements, draw_top
from bert_tf.pretraining.masking_vocabulary import MaskingVocabulary
from bert_tf.utils.counts import percent
from bert_tf.utils.html_report import Page

_TITLE = "Pretraining data"
_TOP = 20  # masked tokens that are listed
_QUANTILES = (5, 25, 50, 75, 95)  # percent of the examples
_SECOND = {"nsp": ("the next one", "random"), "sop": ("in order", "swapped")}  # what the labels 0 and 1 mean


class _Section(NamedTuple):
    heading: str
    rows: list[tuple]  # name, value and perhaps a remark, all str
    plots: tuple[tuple[str, Callable, float], ...] = ()  # arguments of Page.figure


def format_report(statistics: Statistics, options: CorpusOptions, vocabulary: MaskingVocabulary) -> str:
    """Returns the report in aligned columns.

    Args:
        statistics: statistics of all records, and of the text.
        options: with which they were made.
        vocabulary: vocabulary of the records.
    """
    sections = _sections(statistics, options, vocabulary)
    names, values = (max(len(row[column]) for section in sections for row in section.rows) for column in (0, 1))
    lines = [_TITLE]
    for heading, rows, _ in sections:
        lines += ["", heading]
        for name, value, *remark in rows:
            lines.append("  ".join([f"  {name.ljust(names)}", value.rjust(values), *remark]))
    return "\n".join(lines) + "\n"


def make_report_page(statistics: Statistics, options: CorpusOptions, vocabulary: MaskingVocabulary) -> str:
    """Returns the same with plots, as one HTML file; the arguments are those of `format_report`."""
    page = Page(_TITLE)
    for heading, rows, plots in _sections(statistics, options, vocabulary):
        page.table(heading, rows)
        for plot in plots:
            page.figure(*plot)
    return page.html()


def prediction_budgets(options: CorpusOptions) -> np.ndarray:
    """Returns how many predictions the law gives to examples of 0, 1, ... max_seq_length tokens, int64."""
    share = np.rint(options.masked_lm_prob * np.arange(options.max_seq_length + 1)).astype(np.int64)
    return np.minimum(options.max_predictions_per_seq, np.maximum(1, share))


def _sections(statistics, options, vocabulary):
    parts = [_Section("Text", _text(statistics.text, options)), _examples(statistics)]
    if options.sentence_objective in _SECOND:
        parts.append(_pairs(statistics.pairs, options.sentence_objective))
    if options.dynamic_masking:
        parts.append(_Section("Masks", [("predictions", "none", "they are drawn again whenever the records are read")]))
    else:
        parts += [_masks(statistics, options, vocabulary.phrases), _top(statistics, vocabulary)]
    return [*parts, _Section("Options", _options(options, vocabulary))]


def _text(text, options):
    junk = "before the sentences were counted" if options.text.drop_junk_lines else "not asked for: `drop_junk_lines`"
    return [
        *((name, _number(text[name])) for name in ("files", "bytes", "documents", "sentences")),
        ("tokens", _number(text["tokens"])),
        ("  unknown", _percent(text["unknown"], text["tokens"])),
        ("dropped bytes that are not UTF-8", _number(text["invalid_bytes"])),
        ("dropped junk sentences", _number(text["junk_lines"]), junk),
    ]


def _examples(statistics):
    lengths, width = statistics.lengths, len(statistics.lengths) - 1
    rows = [
        ("examples", _number(statistics.examples)),
        ("their tokens", _number(statistics.tokens), "[CLS] and [SEP] too"),
        *_spread("tokens of an example", lengths),
        *((f"  {share}% have at most", _quantile(lengths, share)) for share in _QUANTILES),
        ("rows", _number(statistics.rows), f"of {width} positions"),
        ("  examples in a row, mean", _ratio(statistics.examples, statistics.rows)),
        ("  padding", _percent(statistics.padding, statistics.rows * width), "of the positions"),
    ]
    plot = "Tokens of the examples", lambda axes: draw_histogram(axes, lengths, "tokens"), 2.4
    return _Section("Examples", rows, (plot,) if statistics.examples else ())


def _pairs(pairs, objective):
    actual, random = _SECOND[objective]
    chance, total = pairs[:, CHOSEN], pairs.sum()
    rows = [
        ("examples where both were possible", _number(chance.sum()), f"{_percent(chance.sum(), total)} of all"),
        (f"  {random}", _percent(chance[1], chance.sum()), "goal 50%"),
    ]
    if objective == "nsp":
        rows += [
            ("forced to be random", _number(pairs[1, FORCED_RANDOM]), "a lone sentence: the last one, or a long one"),
            ("forced to be the next one", _number(pairs[0, FORCED_ACTUAL]), "no other document was at hand"),
            ("random, forced or not", _percent(pairs[1].sum(), total), "of all examples"),
        ]
    plot = "Second texts", lambda axes: draw_pairs(axes, pairs, (actual, random)), 1.8
    return _Section(f"Second texts ({objective})", rows, (plot,) if total else ())


def _masks(statistics, options, phrases):
    chosen, counts, law = statistics.chosen, statistics.predictions, prediction_budgets(options)
    wanted = np.bincount(law, statistics.lengths, len(counts))
    goals = 100 * np.array([options.mask_token_prob, options.random_token_prob, 0])
    goals[UNCHANGED] = 100 - goals.sum()
    shares = (_percent(count, chosen) for count in statistics.replacements)
    masks, swaps, originals = ((share, f"goal {goals[i]:.4g}%") for i, share in enumerate(shares))
    rows = [
        ("predictions", _number(chosen)),
        ("mask rate", _percent(chosen, statistics.tokens), f"of the tokens; goal {100 * options.masked_lm_prob:.4g}%"),
        ("  became [MASK]", *masks),
        ("  became a random token", *swaps),
        ("  kept", originals[0], f"{originals[1]}; with random tokens that are the original ones"),
        *_spread("predictions of an example", counts),
        *_against(law, statistics.shapes, options),
        *(_phrases(statistics.phrases, phrases) if phrases else ()),
    ]
    plots = (
        ("Replacements of masked tokens", lambda axes: draw_replacements(axes, statistics.replacements, goals), 1.8),
        ("Predictions of the examples", lambda axes: draw_histogram(axes, counts, "predictions", wanted), 2.4),
    )
    return _Section(f"Masks ({options.masking})", rows, plots if chosen else ())


def _against(law, shapes, options):
    """Rows that compare the numbers of predictions with the law."""
    over = np.arange(shapes.shape[1]) - law[:, None]
    rule = f"min({options.max_predictions_per_seq}, max(1, round({options.masked_lm_prob:g} x tokens)))"
    return [
        ("  as many as the law gives", _number(shapes[over == 0].sum()), rule),
        ("  fewer", _number(shapes[over < 0].sum()), "nothing that was left fitted in"),
        ("  more", _number(shapes[over > 0].sum()), "the shortest word is longer"),
    ]


def _phrases(counts, phrases):
    """Rows about the use of a list of phrases."""
    lost = f"{_number(phrases.unknown)} more contain tokens that the vocabulary lacks"
    return [
        ("phrases in the list", _number(phrases.number), lost),
        ("  found in the examples", _number(counts["found"])),
        ("  masked as one", _percent(counts["masked"], counts["found"]), "of those found"),
    ]


def _top(statistics, vocabulary):
    ids, total = statistics.masked_ids, statistics.chosen
    first = np.argsort(-ids, kind="stable")[:_TOP]
    top = [(vocabulary.names[i], int(ids[i])) for i in first if ids[i]]
    rows = [
        ("different ones", _number(np.count_nonzero(ids)), f"of {_number(len(ids))} in the vocabulary"),
        *((f"  {name}", _number(count), _percent(count, total)) for name, count in top),
    ]
    plot = "Most frequent tokens to predict", lambda axes: draw_top(axes, *zip(*top, strict=True)), 3.6
    return _Section("Tokens to predict", rows, (plot,) if top else ())


def _options(options, vocabulary):
    flags = dataclasses.asdict(options)
    flags |= flags.pop("text")
    size = "vocabulary", _number(vocabulary.vocab_size)
    return [size, *((f"--{name}", str(value)) for name, value in flags.items())]


def _spread(name, counts):
    """Rows with the least, the mean and the most of what is counted; counts[i] is how often i occurs."""
    values = np.flatnonzero(counts)
    low, high = (_number(values[i]) if len(values) else "-" for i in (0, -1))
    mean = _ratio(counts @ np.arange(len(counts)), counts.sum())
    return [(f"{name}, least", low), ("  mean", mean), ("  most", high)]


def _quantile(counts, share):
    """Returns what `share` percent have at most."""
    total = np.cumsum(counts)
    return _number(np.searchsorted(total, share / 100 * total[-1])) if total[-1] else "-"


def _number(count):
    return f"{count:,}"


def _ratio(part, whole):
    return f"{part / whole:.2f}" if whole else "-"


def _percent(part, whole):
    return percent(part / whole, 2) if whole else "-"
