"""Report of a load test: throughput, latencies and errors as numbers, text and HTML page."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.serving.client.load_generation import OK, RequestTiming
from bert_tf.utils.html_report import Page
from bert_tf.utils.json_files import json_text

PERCENTILES = (50, 90, 95, 99, 99.9)
_CURVE = np.concatenate([np.linspace(0, 90, 91), 100 - np.geomspace(10, 0.01, 60)])  # percentiles of the latency curve


def summarize(samples: Sequence[RequestTiming], rows: int) -> dict[str, Any]:
    """Summarizes one run as JSON values.

    Args:
        samples: at least one.
        rows: examples per request.

    Returns:
        `requests`, `answered`, `codes` {code: count}; `seconds` from the first to the last; for successful requests,
        `requests_per_second`, `rows_per_second` and `latency_ms` {"p50": ..., "max": ...}; for failed ones,
        `refusal_ms`, the same; `late_ms`, the generator's own delay.
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
    """Returns {"p50": milliseconds, ..., "max": milliseconds}; {} for no values."""
    if not seconds:
        return {}
    values = np.percentile(seconds, [*PERCENTILES, 100]) * 1e3
    return dict(zip([*(f"p{percent:g}" for percent in PERCENTILES), "max"], values.round(3).tolist(), strict=True))


def report_lines(name: str, summary: dict[str, Any]) -> list[str]:
    """Formats the summary of a run as text lines."""
    lines = [
        f"{name}: {summary['requests_per_second']:.1f} requests/s, {summary['rows_per_second']:.1f} rows/s, "
        f"{summary['answered']} of {summary['requests']} answered in {summary['seconds']:.1f} s"
    ]
    for title, key in (("latency", "latency_ms"), ("refused after", "refusal_ms")):
        if summary[key]:
            lines.append(
                f"  {title}: " + "  ".join(f"{percentile} {value:.1f} ms" for percentile, value in summary[key].items())
            )
    if set(summary["codes"]) != {OK}:
        lines.append("  codes: " + ", ".join(f"{code} {count}" for code, count in summary["codes"].items()))
    if summary["late_ms"].get("p99", 0) > 0.2 * summary["latency_ms"].get("p99", np.inf):
        lines.append(
            f"  The generator itself was late by p99 {summary['late_ms']['p99']:.1f} ms: give it its own core."
        )
    return lines


def load_test_json(settings: dict[str, Any], runs: dict[str, Sequence[RequestTiming]], rows: int) -> str:
    """Returns the results file: the settings, and `summarize` of each run by name."""
    found = {name: summarize(samples, rows) for name, samples in runs.items()}
    return json_text({"settings": settings, "runs": found}, indent=2, ensure_ascii=False) + "\n"


def to_page(settings: dict[str, Any], runs: dict[str, Sequence[RequestTiming]], rows: int) -> str:
    """Returns the results as an HTML page with plots."""
    page = Page("Load test")
    page.table("Settings", settings.items())
    for name, samples in runs.items():
        found = summarize(samples, rows)
        page.table(name, [
            ("requests/s", f"{found['requests_per_second']:.1f}", f"{found['rows_per_second']:.1f} rows/s"),
            *((f"latency {percentile}", f"{value:.1f} ms") for percentile, value in found["latency_ms"].items()),
            *((f"refused after {percentile}", f"{value:.1f} ms") for percentile, value in found["refusal_ms"].items()),
            *((code, count) for code, count in found["codes"].items()),
        ])  # fmt: skip
    page.figure("Latency by percentile", lambda axes: _draw_curves(axes, runs), 3.0)
    page.figure("Median and 99th percentile per second", lambda axes: _draw_seconds(axes, runs), 3.0)
    return page.html()


def _draw_curves(axes, runs):
    for name, samples in runs.items():
        if answered := [sample.seconds for sample in samples if sample.code == OK]:
            axes.plot(100 / (100 - _CURVE), np.percentile(answered, _CURVE) * 1e3, label=name)
            axes.legend()
    axes.set(xscale="log", xlabel="one request in N takes longer")
    _label(axes.xaxis, (1,))
    axes.set(yscale="log", ylabel="ms")
    _label(axes.yaxis, (1, 2, 5))


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
    axes.set(yscale="log", ylabel="ms")
    _label(axes.yaxis, (1, 2, 5))


def _label(axis, digits):
    """Shows plain numbers on a logarithmic axis, because a page cannot draw powers of ten, which are formulas."""
    from matplotlib import ticker  # slow to import, and only a page needs it

    axis.set_major_locator(ticker.LogLocator(subs=digits))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(ticker.NullFormatter())
