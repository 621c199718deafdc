"""Statistics of a corpus and its examples, and the report of them as text and as a page with plots."""

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bert_tf.pretraining.corpus.examples import CHOSEN, FORCED_ACTUAL, FORCED_RANDOM, CorpusOptions
from bert_tf.pretraining.masked_positions import MaskingVocabulary
from bert_tf.utils.html_report import ACCENT, FILL, INK, PALE, Page
from bert_tf.utils.names import percent

# === Counts ===
# Counts of the text and the records, small enough to be summed over any number of workers.


HIDDEN, SWAPPED, KEPT = range(3)  # the replacement of a masked token: [MASK], a random token, itself


@dataclasses.dataclass(eq=False)
class Statistics:
    """Counts of examples, pairs, masks and rows; S is max_seq_length, M max_predictions_per_seq, V vocab_size.

    Attributes:
        shapes: int64 [S + 1, M + 1], number of examples by tokens (including special ones) and predictions.
        pairs: int64 [2, 3], number of examples by next_sentence_label and examples.CHOSEN, FORCED_RANDOM or
            FORCED_ACTUAL; all 0 if the examples have one text.
        fates: int64 [3], number of predictions that were HIDDEN, SWAPPED or KEPT. A random token that equals the
            original one counts as kept, since they are indistinguishable.
        masked_ids: int64 [V], number of predictions of each token.
        rows: number of rows of length S written, with one example each, or several if packed.
        padding: number of padding positions in them.
        record_bytes: size of the records, uncompressed.
        text: counts of the text read and dropped: "files", "bytes", "documents", "sentences", "tokens" and so on.
        phrases: number of phrases "found" in the examples, and of those "masked".
    """

    shapes: np.ndarray
    pairs: np.ndarray
    fates: np.ndarray
    masked_ids: np.ndarray
    rows: int = 0
    padding: int = 0
    record_bytes: int = 0
    text: Counter = dataclasses.field(default_factory=Counter)
    phrases: Counter = dataclasses.field(default_factory=Counter)

    @classmethod
    def empty(cls, options: CorpusOptions, vocab_size: int) -> "Statistics":
        """Returns all counts as 0."""
        shapes = options.max_seq_length + 1, options.max_predictions_per_seq + 1
        return cls(*(np.zeros(shape, np.int64) for shape in (shapes, (2, FORCED_ACTUAL + 1), KEPT + 1, vocab_size)))

    def add_examples(self, rows: dict, forced, vocabulary: MaskingVocabulary):
        """Counts n examples, before they are packed.

        Args:
            rows: "input_ids" (masked), "input_mask" int [n, S]; if there are masks, "masked_lm_positions",
                "masked_lm_ids", "masked_lm_weights" [n, M]; if there are two texts, "next_sentence_labels" int
                [n, 1].
            forced: int8 [n], as in `examples.PretrainingExamples`.
            vocabulary: the vocabulary of the records.
        """
        lengths = np.count_nonzero(rows["input_mask"], axis=1)
        predictions = self._add_predictions(rows, vocabulary) if "masked_lm_weights" in rows else 0
        self.shapes += _histogram(lengths * self.shapes.shape[1] + predictions, self.shapes.shape)
        if "next_sentence_labels" in rows:
            labels = rows["next_sentence_labels"][:, 0]
            self.pairs += _histogram(labels * self.pairs.shape[1] + forced, self.pairs.shape)

    def add_rows(self, input_mask):
        """Counts rows as they are written, packed or not: int [rows, S]."""
        self.rows += len(input_mask)
        self.padding += input_mask.size - int(np.count_nonzero(input_mask))

    def __add__(self, other: "Statistics") -> "Statistics":
        both = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in dataclasses.fields(self)}
        return Statistics(**{name: mine + its for name, (mine, its) in both.items()})

    def to_values(self) -> dict:
        """Returns all fields as JSON values."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        arrays = {name: value.tolist() for name, value in values.items() if isinstance(value, np.ndarray)}
        counters = {name: {k: int(n) for k, n in v.items()} for name, v in values.items() if isinstance(v, Counter)}
        return {name: int(v) for name, v in values.items() if isinstance(v, int)} | arrays | counters

    @classmethod
    def of_values(cls, values: dict) -> "Statistics":
        """Returns the statistics of `to_values`. Others may be able to write the file, so no code in it is run."""
        kinds = {list: lambda values: np.array(values, np.int64), dict: Counter, int: int}
        return cls(**{name: kinds[type(value)](value) for name, value in values.items()})

    @property
    def lengths(self):
        """Number of examples by their tokens, int64 [S + 1]."""
        return self.shapes.sum(axis=1)

    @property
    def predictions(self):
        """Number of examples by their predictions, int64 [M + 1]."""
        return self.shapes.sum(axis=0)

    @property
    def examples(self) -> int:
        """Number of examples."""
        return int(self.shapes.sum())

    @property
    def tokens(self) -> int:
        """Number of tokens of all examples, including special ones."""
        return int(self.lengths @ np.arange(len(self.lengths)))

    @property
    def chosen(self) -> int:
        """Number of predictions of all examples."""
        return int(self.fates.sum())

    def to_json(self) -> dict:
        """Returns all counts as numbers, lists and dictionaries; "shapes" are [tokens, predictions, examples]."""
        shapes = np.argwhere(self.shapes)
        return {
            "examples": self.examples,
            "tokens": self.tokens,
            "lengths": self.lengths.tolist(),
            "predictions": self.predictions.tolist(),
            "shapes": np.column_stack([shapes, self.shapes[tuple(shapes.T)]]).tolist(),
            "pairs": dict(zip(("actual", "random"), self.pairs.tolist(), strict=True)),
            "fates": dict(zip(("hidden", "swapped", "kept"), self.fates.tolist(), strict=True)),
            "masked_ids": self.masked_ids.tolist(),
            "rows": self.rows,
            "padding": self.padding,
            "text": dict(self.text),
            "phrases": {name: self.phrases[name] for name in ("found", "masked")},
        }

    def _add_predictions(self, rows, vocabulary):
        """Counts masked tokens; returns the number of predictions of each example, int64 [n]."""
        chosen = np.flatnonzero(rows["masked_lm_weights"])
        row = chosen // rows["masked_lm_weights"].shape[1]
        place = row * rows["input_ids"].shape[1] + rows["masked_lm_positions"].ravel()[chosen]
        seen, original = rows["input_ids"].ravel()[place], rows["masked_lm_ids"].ravel()[chosen]
        num_hidden, num_kept = np.count_nonzero(seen == vocabulary.mask_id), np.count_nonzero(seen == original)
        self.fates += np.array([num_hidden, len(seen) - num_hidden - num_kept, num_kept])
        self.masked_ids += np.bincount(original, minlength=len(self.masked_ids))
        return np.bincount(row, minlength=len(rows["input_ids"]))


def _histogram(codes, shape):
    return np.bincount(codes, minlength=shape[0] * shape[1]).reshape(shape)


# === Figures ===
# The plots of a report, each drawn on matplotlib's Axes.


def draw_histogram(axes, counts, of: str, law=None):
    """Draws the numbers of examples with 0, 1, ... of something (int [k]), and those that should have (int [k])."""
    edges = np.arange(len(counts) + 1) - 0.5
    axes.stairs(counts, edges, fill=True, color=FILL, label="made")
    if law is not None:
        axes.stairs(law, edges, color=ACCENT, linewidth=1.5, label="the law")
        _explain(axes)
    axes.set_yscale("log")  # nearly all are as long as they may be; on a plain scale these alone would be seen
    axes.set_ylim(bottom=0.5)
    axes.set_xlim(edges[0], edges[-1])
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.minorticks_off()
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel(of)
    axes.set_ylabel("examples")


def draw_fates(axes, counts, goals):
    """Draws the shares of the predictions that were hidden, swapped and kept (int [3]), and the goals (percent [3])."""
    shares = 100 * counts / counts.sum()
    place = np.arange(len(shares))
    axes.barh(place, shares, color=FILL)
    axes.vlines(goals, place - 0.45, place + 0.45, color=ACCENT, linewidth=2, label="goal")
    _name(axes, ["[MASK]", "random", "kept"])
    for y, share in zip(place, shares, strict=True):
        axes.text(104, y, f"{share:.2f} %", va="center")
    axes.set_xlim(0, 100)
    _explain(axes)
    axes.set_xlabel("percent of the predictions")


def draw_pairs(axes, counts, names):
    """Draws the numbers of second texts of either label, by chance and forced: int [2, 3]."""
    chance = counts[:, CHOSEN]
    forced = counts.sum(axis=1) - chance
    place = np.arange(len(names))
    axes.barh(place, chance, color=FILL, label="by chance")
    axes.barh(place, forced, left=chance, color=PALE, label="forced")
    _name(axes, names)
    _explain(axes)
    axes.set_xlim(0, 1.05 * counts.sum(axis=1).max())
    _count(axes, "examples")


def draw_top(axes, names, counts):
    """Draws how often some tokens are to be predicted."""
    axes.barh(np.arange(len(names)), counts, color=FILL)
    _name(axes, names)
    _count(axes, "predictions")


def _explain(axes):
    """Says above the plot what its colours mean."""
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderpad=0)


def _count(axes, of):
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.locator_params(axis="x", nbins=4, integer=True)  # labels of millions have room
    axes.set_xlabel(of)


def _name(axes, names):
    """Names horizontal bars, the first one at the top."""
    axes.set_yticks(np.arange(len(names)), names, color=INK)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(names) - 0.4, -0.6)


# === Report ===


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
        statistics: of all records, and of the text.
        options: with which they were made.
        vocabulary: of the records.
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
        ("dropped bytes that are not UTF-8", _number(text["invalid_bytes"])),
        ("dropped junk sentences", _number(text["junk_lines"]), junk),
    ]


def _examples(statistics):
    lengths, width = statistics.lengths, len(statistics.lengths) - 1
    rows = [
        ("examples", _number(statistics.examples)),
        ("their tokens", _number(statistics.tokens), "[CLS] and [SEP] too"),
        *_spread("tokens of an example", lengths),
        *((f"  {share} % have at most", _quantile(lengths, share)) for share in _QUANTILES),
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
        (f"  {random}", _percent(chance[1], chance.sum()), "goal 50 %"),
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
    goals[KEPT] = 100 - goals.sum()
    masks, swaps, originals = ((_percent(statistics.fates[i], chosen), f"goal {goals[i]:.4g} %") for i in range(3))
    rows = [
        ("predictions", _number(chosen)),
        ("mask rate", _percent(chosen, statistics.tokens), f"of the tokens; goal {100 * options.masked_lm_prob:.4g} %"),
        ("  became [MASK]", *masks),
        ("  became a random token", *swaps),
        ("  kept", originals[0], f"{originals[1]}; with random tokens that are the original ones"),
        *_spread("predictions of an example", counts),
        *_against(law, statistics.shapes, options),
        *(_phrases(statistics.phrases, phrases) if phrases else ()),
    ]
    plots = (
        ("What became of the predictions", lambda axes: draw_fates(axes, statistics.fates, goals), 1.8),
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
    """Rows that say what became of a list of phrases."""
    lost = f"{_number(phrases.unknown)} more hold tokens that the vocabulary lacks"
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
