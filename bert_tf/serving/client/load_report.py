"""What a load test found: throughput, latencies and errors as numbers, as lines and as a page."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.serving.client.load_generator import OK, Sample
from bert_tf.utils.json_files import json_text
from bert_tf.utils.report import Page

PERCENTILES = (50, 90, 95, 99, 99.9)
_PLACES = np.concatenate([np.linspace(0, 90, 91), 100 - np.geomspace(10, 0.01, 60)])  # of the curve of latencies


def summarize(samples: Sequence[Sample], rows: int) -> dict[str, Any]:
    """Returns the numbers of one run as JSON values.

    Args:
        samples: one at least.
        rows: texts, or other examples, of a request.

    Returns:
        `requests`, `answered`, `codes` {code: count}; `seconds` from the first to the last; of what was answered
        `requests_per_second`, `rows_per_second` and `latency_ms` {"p50": ..., "max": ...}; of what was not
        `refusal_ms`, the same; `late_ms`, the delay of the generator itself.
    """
    ends = [sample.due + sample.seconds for sample in samples]
    seconds = max(ends) - min(sample.due for sample in samples)
    answered = [sample.seconds for sample in samples if sample.code == OK]
    refused = [sample.seconds for sample in samples if sample.code != OK]
    return {
        "requests": len(samples),
        "answered": len(answered),
        "codes": dict(sorted(Counter(sample.code for sample in samples).items())),
        "seconds": round(seconds, 3),
        "requests_per_second": round(len(answered) / seconds, 2),
        "rows_per_second": round(len(answered) * rows / seconds, 2),
        "latency_ms": percentiles(answered),
        "refusal_ms": percentiles(refused),
        "late_ms": percentiles([sample.late for sample in samples]),
    }


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Returns {"p50": milliseconds, ..., "max": milliseconds}; {} of nothing."""
    if not seconds:
        return {}
    values = np.percentile(seconds, [*PERCENTILES, 100]) * 1e3
    return dict(zip([*(f"p{place:g}" for place in PERCENTILES), "max"], values.round(3).tolist(), strict=True))


def lines(name: str, summary: dict[str, Any]) -> list[str]:
    """Returns the lines that tell of a run."""
    told = [
        f"{name}: {summary['requests_per_second']:.1f} requests/s, {summary['rows_per_second']:.1f} rows/s, "
        f"{summary['answered']} of {summary['requests']} answered in {summary['seconds']:.1f} s"
    ]
    for title, key in (("latency", "latency_ms"), ("refused after", "refusal_ms")):
        if summary[key]:
            told.append(f"  {title}: " + "  ".join(f"{place} {value:.1f} ms" for place, value in summary[key].items()))
    if set(summary["codes"]) != {OK}:
        told.append("  codes: " + ", ".join(f"{code} {count}" for code, count in summary["codes"].items()))
    if summary["late_ms"].get("p99", 0) > 0.2 * summary["latency_ms"].get("p99", np.inf):
        told.append(
            f"  The generator itself was late by p99 {summary['late_ms']['p99']:.1f} ms: give it a core of its own."
        )
    return told


def to_json(settings: dict[str, Any], runs: dict[str, Sequence[Sample]], rows: int) -> str:
    """Returns the file of all numbers: what was asked for, and `summarize` of each run by its name."""
    found = {name: summarize(samples, rows) for name, samples in runs.items()}
    return json_text({"settings": settings, "runs": found}, indent=2, ensure_ascii=False) + "\n"


def to_page(settings: dict[str, Any], runs: dict[str, Sequence[Sample]], rows: int) -> str:
    """Returns the same as a page with plots, HTML."""
    page = Page("Load test")
    page.table("What was asked", settings.items())
    for name, samples in runs.items():
        found = summarize(samples, rows)
        page.table(name, [
            ("requests/s", f"{found['requests_per_second']:.1f}", f"{found['rows_per_second']:.1f} rows/s"),
            *((f"latency {place}", f"{value:.1f} ms") for place, value in found["latency_ms"].items()),
            *((f"refused after {place}", f"{value:.1f} ms") for place, value in found["refusal_ms"].items()),
            *((code, count) for code, count in found["codes"].items()),
        ])  # fmt: skip
    page.figure("Latency by percentile", lambda axes: _draw_curves(axes, runs), 3.0)
    page.figure("Median and 99th percentile of each second", lambda axes: _draw_seconds(axes, runs), 3.0)
    return page.html()


def _draw_curves(axes, runs):
    for name, samples in runs.items():
        if answered := [sample.seconds for sample in samples if sample.code == OK]:
            axes.plot(100 / (100 - _PLACES), np.percentile(answered, _PLACES) * 1e3, label=name)
            axes.legend()
    axes.set(xscale="log", xlabel="one request in ... takes longer")
    _label(axes.xaxis, (1,))
    _show_milliseconds(axes)


def _draw_seconds(axes, runs):
    for name, samples in runs.items():
        each = {}
        for sample in samples:
            if sample.code == OK:
                each.setdefault(int(sample.due), []).append(sample.seconds * 1e3)
        seconds = sorted(each)
        (line,) = axes.plot(seconds, [np.percentile(each[second], 50) for second in seconds], label=name)
        axes.plot(seconds, [np.percentile(each[second], 99) for second in seconds], ":", color=line.get_color())
        axes.legend()
    axes.set(xlabel="seconds")
    _show_milliseconds(axes)


def _show_milliseconds(axes):
    axes.set(yscale="log", ylabel="ms")
    _label(axes.yaxis, (1, 2, 5))


def _label(axis, digits):
    """Has a logarithmic axis show plain numbers: powers of ten would be formulas, which a page does not draw."""
    from matplotlib import ticker  # slow to import, and only a page needs it

    axis.set_major_locator(ticker.LogLocator(subs=digits))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(ticker.NullFormatter())
