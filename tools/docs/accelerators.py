"""The page of results of benchmarks/prove_accelerator.py, and its tables in docs/benchmarks/gpu.md.

    .venv/bin/python -m tools.docs.accelerators      # writes the tables of docs/benchmarks/gpu.md

Each pair of comments `<!-- accelerator-NAME.json -->` and `<!-- end -->` of the page holds the tables of that file of
benchmarks/results.
"""

import json
import re
import textwrap

from tools.docs.navigation import ROOT

PAGE = ROOT / "docs" / "benchmarks" / "gpu.md"
RESULTS = ROOT / "benchmarks" / "results"
_PART = re.compile(r"(<!-- (accelerator-[\w-]+\.json) -->\n).*?(<!-- end -->)", re.DOTALL)

_NVIDIA = "NVIDIA DeepLearningExamples, TensorFlow2/LanguageModeling/BERT, TensorFlow 21.02 container"
ANCHORS = (
    {
        "what": "inference, BERT-base, 8 x 128, float16, one A100 80GB",
        "sequences_per_second": 1786.25,
        "source": _NVIDIA,
    },
    {
        "what": "pretraining of BERT-large, phase 1 (128 tokens), LAMB, mixed precision, 312 rows, one A100 80GB",
        "sequences_per_second": 485.59,
        "source": _NVIDIA,
    },
)


def page(report: dict) -> str:
    """Returns the results as a page of Markdown."""
    return f"# Results on {', '.join(report['devices'])}\n\n{tables(report)}"


def tables(report: dict) -> str:
    """Returns what was run on, the steps, the speeds, what steps measured besides, and published speeds."""
    versions = f"TensorFlow {report['tensorflow']}, Keras {report['keras']}, Python {report['python']}"
    kind = "Rehearsal on a CPU with small models" if report["mode"] == "rehearsal" else "Measured"
    lines = [
        f"{kind} on {report['date']}: {', '.join(report['devices'])}; {versions}; revision {report['revision']}.",
        "",
        *_table(("Step", "Result", "Time", "Details"), _step_rows(report)),
    ]
    speeds = [speed for step in report["steps"].values() for speed in step["figures"].get("speeds", [])]
    if speeds:
        titles = ("Throughput", "Layers x width", "Batch", "Precision", "XLA", "Sequences per second", "TFLOP/s",
                  "Fraction of the matrix product")  # fmt: skip
        lines += ["", *_table(titles, map(_speed_row, speeds))]
    for step in report["steps"].values():
        for title, table in step["figures"].get("tables", {}).items():
            rows = (map(_cell, row) for row in table["rows"])
            lines += ["", f"{title}:", "", *_table(table["columns"], rows)]
    published = "; ".join(f"{each['sequences_per_second']:,.0f} for {each['what']}" for each in report["anchors"])
    sources = ", ".join(dict.fromkeys(each["source"] for each in report["anchors"]))
    return "\n".join([*lines, "", f"Published sequences per second: {published} ({sources}).", ""])


def _step_rows(report):
    for name, step in report["steps"].items():
        other = f"revision {step['revision']}" if step["revision"] != report["revision"] else ""
        expected = f"expected {step['expected']}" if step.get("expected") and report["mode"] == "gpu" else ""
        details = "; ".join(filter(None, (step["message"], step["figures"].get("summary", ""), expected, other)))
        yield f"`{name}`: {step['what']}", step["status"], f"{step['seconds']:.0f} s", details.replace("|", "\\|")


def _outcome(report):
    """Returns which steps of a rehearsal passed: its numbers say nothing about a GPU."""
    steps = {}
    for name, step in report["steps"].items():
        steps.setdefault(step["status"], []).append(f"`{name}`")
    found = "; ".join(f"{status}: {', '.join(names)}" for status, names in steps.items())
    return "\n".join([*textwrap.wrap(f"Rehearsal on {report['date']}: {found}.", 118), ""])


def _speed_row(speed):
    share = speed.get("share_of_product")
    return (
        *(speed["what"], speed["size"], f"{speed['rows']} x {speed['length']}", speed["precision"]),
        "on" if speed["xla"] else "off",
        *(f"{speed['sequences_per_second']:,.1f}", f"{speed['tflops']:.3g}", f"{share:.0%}" if share else ""),
    )


def _cell(value):
    """Returns a text or a number as a table shows it."""
    if isinstance(value, float):
        value = f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else value.replace("|", "\\|")


def _table(titles, rows):
    return [f"| {' | '.join(cells)} |" for cells in (titles, ["---"] * len(titles), *rows)]


def filled(text: str) -> str:
    """Returns a page with the tables as they should be."""

    def fill(match):
        report = json.loads((RESULTS / match[2]).read_text(encoding="utf-8"))
        shown = _outcome(report) if report["mode"] == "rehearsal" else tables(report)
        return f"{match[1]}\n{shown}\n{match[3]}"

    return _PART.sub(fill, text)


def main():
    """Writes the page again."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
