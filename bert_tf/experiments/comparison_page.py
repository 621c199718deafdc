"""A comparison of two runs, for people: lines of text, and a page."""

from collections.abc import Iterator, Sequence

from bert_tf.experiments.comparison import RunComparison
from bert_tf.utils.counts import list_names
from bert_tf.utils.html_report import Page

_WIDTH = 100  # characters of a text in a line
_SURE = 0.05  # a p-value below this is significant


def comparison_lines(compared: Sequence[RunComparison], first: str, second: str, most: int) -> Iterator[str]:
    """Yields the lines of a comparison.

    Args:
        compared: what was found.
        first, second: the runs.
        most: examples that are shown in each direction.
    """
    yield f"A: {first}"
    yield f"B: {second}"
    for each in compared:
        yield ""
        yield f"{each.file}, {each.count:,} examples"
        yield from (f"  {sentence}" for sentence in (*_name_unshared_labels(each), *_name_constant_runs(each)))
        for name, score in each.scores.items():
            interval = f"95% interval {_format_range(score)}, p = {score.p_value:.4f}"
            test = f" ({interval}); {_interpret(score)}" if _is_tested(each) else "; not compared"
            yield f"  {name}: A {100 * score.b:.2f}, B {100 * score.a:.2f}: {_format_difference(score)}{test}"
        yield f"  {_format_counts(each)}"
        for heading, changes in _directions(each):
            yield f"  {heading}: {len(changes):,}"
            for change in changes[:most]:
                right = f", true: {change.gold}" if change.gold not in (change.before, change.after) else ""
                answers = (
                    f"{_shorten(change.before) or '(none)'} -> {_shorten(change.after) or '(none)'}{_shorten(right)}"
                )
                yield f"    {change.id}\t{answers}\t{_shorten(change.text)}"
            if len(changes) > most:
                yield f"    and {len(changes) - most:,} more"


def build_comparison_page(compared: Sequence[RunComparison], first: str, second: str, most: int) -> str:
    """Returns the same as one HTML file; arguments as of `comparison_lines`."""
    document = Page("Comparison of two runs")
    with document.cards(), document.card("Runs"):
        document.table(None, [("A", first), ("B", second)])
    for each in compared:
        rows = []
        for name, score in each.scores.items():
            sides = f"{100 * score.b:.2f}", f"{100 * score.a:.2f}", _format_difference(score)
            rows.append((name, *sides, *_format_test(each, score)))
        columns = ("metric", "A", "B", "B \N{MINUS SIGN} A", "95% interval", "p", "conclusion")
        document.table(f"{each.file}, {each.count:,} examples", rows, columns)
        for sentence in (*_name_unshared_labels(each), *_name_constant_runs(each)):
            document.text(sentence)
        document.text(_format_counts(each))
        for heading, changes in _directions(each):
            shown = [(each.id, each.gold, each.before, each.after, each.text) for each in changes[:most]]
            more = f", first {most:,}" if len(changes) > most else ""
            document.table(f"{heading}: {len(changes):,}{more}", shown, ("example", "true", "A", "B", "text"))
    document.text(
        "Metrics are multiplied by 100. The interval is the 95% bootstrap confidence interval of the difference, over "
        "examples drawn with replacement. p is the probability of a difference at least this large if both runs were "
        "equally good."
    )
    return document.html()


def _is_tested(each):
    return each.one_answers == (None, None)


def _name_unshared_labels(each):
    """Yields a sentence for labels that were renamed, and for each run with labels that the other one lacks."""
    if each.renamed:
        names = [f"{old} -> {new}" for old, new in each.renamed.items()]
        yield f"Labels of A, under their names in B: {', '.join(names)}."
    for run, labels in zip("AB", each.only_in, strict=True):
        if labels:
            counts = [f"{list_names([name])} ({count:,} examples, {right:,} correct)" for name, count, right in labels]
            yield f"Labels only in {run}, not compared: {', '.join(counts)}."


def _name_constant_runs(each):
    """Yields a sentence for each run that has learned nothing."""
    for name, answer in zip("AB", each.one_answers, strict=True):
        if answer is not None:
            what = repr(answer) if answer else "nothing"
            yield f"{name} predicts {what} for all {each.count:,} examples: it has learned nothing."


def _format_test(each, score):
    """Returns interval, p and what they mean, where the runs are compared."""
    if not _is_tested(each):
        return "", "", "not compared: a run has learned nothing"
    return _format_range(score), f"{score.p_value:.4f}", _interpret(score)


def _format_difference(score):
    return f"{100 * score.difference:+.2f}"


def _format_range(score):
    return f"{100 * score.low:+.2f} to {100 * score.high:+.2f}"


def _interpret(score):
    if score.p_value < _SURE:
        return f"{'B' if score.difference > 0 else 'A'} is better; the difference is significant (p < {_SURE:g})"
    return f"not significant (p ≥ {_SURE:g})"


def _format_counts(each):
    if each.both_right is None:
        return f"B is better on {len(each.better):,} examples and worse on {len(each.worse):,}."
    return (
        f"Both correct: {each.both_right:,} examples. Both wrong: {each.both_wrong:,}. Only B correct: "
        f"{len(each.better):,}. Only A correct: {len(each.worse):,}."
    )


def _directions(each):
    by_degrees = each.both_right is None
    yield "Better in B" if by_degrees else "Wrong in A, correct in B", each.better
    yield "Worse in B" if by_degrees else "Correct in A, wrong in B", each.worse


def _shorten(text):
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
