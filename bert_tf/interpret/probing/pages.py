"""Results of probes and of attention heads as log lines and as HTML pages."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from bert_tf.interpret.probing.head_measures import MEASURES
from bert_tf.utils.counts import percent
from bert_tf.utils.html_report import ACCENT, FILL, INK, PALE, BarCell, Page, Shade

_TOP = 3  # heads that the log names of each measure
_IN_PIECES = ("entropy", "distance")
_ABOUT = (
    "A linear probe was trained to predict the label from each layer's frozen hidden states. The control task has "
    "random labels, one for each word type: its accuracy measures how much a probe memorizes. Selectivity is the "
    "difference between the two. Layer 0 is the input of the first layer; the mix is a learned weighted sum of all "
    "layers."
)


def table(results: Mapping) -> list[tuple]:
    """Returns a row for each layer and the mix: name, accuracy, control, selectivity, each as a number."""
    rows = [("layer " + str(each["layer"]), each) for each in results["layers"]] + [("mix", results["mix"])]
    return [(name, each["accuracy"], each["control"], each["selectivity"]) for name, each in rows]


def probe_lines(results: Mapping) -> Iterator[str]:
    """Yields a table of the results of `job.run_probing`, a line each."""
    yield f"{'':10}{'accuracy':>10}{'control':>10}{'gap':>10}"
    for name, *shares in table(results):
        yield f"{name:10}" + "".join(f"{percent(share, 2):>10}" for share in shares)
    base = results["baselines"]
    yield (
        f"Without any vector: {percent(base['majority'], 2)} by the most frequent label, {percent(base['word'], 2)} by "
        f"each word's most frequent one; {percent(base['seen'], 2)} of the words were seen in training."
    )


def probe_page(results: Mapping) -> str:
    """Returns the results of `job.run_probing` as one HTML file."""
    page = Page("Linear probes by layer")
    page.text(_ABOUT)
    counts, base = results["examples"], results["baselines"]
    page.table("Data", [
        ("model", results["model"]),
        ("training examples", f"{counts['train']:,}", results["files"]["train"]),
        ("evaluation examples", f"{counts['eval']:,}", results["files"]["eval"]),
        ("labels", f"{len(results['labels']):,}", " ".join(results["labels"][:60])),
        ("majority baseline", percent(base["majority"], 2)),
        ("most frequent label of each word", percent(base["word"], 2)),
        ("words that occur in training", percent(base["seen"], 2)),
    ])  # fmt: skip
    page.figure("Accuracy by layer", lambda axes: _draw_curves(axes, results), 2.9,
                "Accuracy of the probe and of its control for each layer, and for the mix")  # fmt: skip
    error = max(each["standard_error"] for each in results["layers"])
    page.text(f"The standard error of each accuracy is at most {100 * error:.2f} percentage points.")
    rows = [(name, *(BarCell(percent(each, 2), each) for each in shares)) for name, *shares in table(results)]
    page.table("Accuracy", rows, ("layer", "probe", "control", "selectivity"))
    page.figure("Weights of the mix", lambda axes: _draw_weights(axes, results["mix"]["weights"]), 1.8,
                "The weight of each layer in the learned mix")  # fmt: skip
    return page.html()


def _draw_curves(axes, results):
    layers, mix, base = results["layers"], results["mix"], results["baselines"]
    numbers = [each["layer"] for each in layers]
    for key, colour, name, mark in (("accuracy", FILL, "probe", "o"), ("control", ACCENT, "control", "s")):
        axes.plot(numbers, [100 * each[key] for each in layers], color=colour, marker=mark, markersize=4, label=name)
        axes.axhline(100 * mix[key], color=colour, linestyle=":", linewidth=1.2, label=f"{name}, mix")
    axes.axhline(100 * base["word"], color=INK, linestyle="--", linewidth=0.8, label="most frequent label of the word")
    axes.set_xticks(numbers)
    axes.set_xlabel("layer")
    axes.set_ylabel("accuracy, %")
    axes.legend(fontsize=7, ncols=2)


def _draw_weights(axes, weights):
    axes.bar(range(len(weights)), [100 * each for each in weights], color=FILL)
    axes.axhline(100 / len(weights), color=PALE, linewidth=1)
    axes.set_xticks(range(len(weights)))
    axes.set_xlabel("layer")
    axes.set_ylabel("weight, %")


def format_measure(name: str, value: float) -> str:
    """Returns a head's measure as text."""
    if np.isnan(value):
        return "pruned"
    return f"{value:.2f}" if name in _IN_PIECES else percent(value)


def heads_lines(measures: Mapping[str, np.ndarray]) -> Iterator[str]:
    """Yields, for each measure, the heads that have most of it."""
    for name, values in measures.items():
        order = np.argsort(-np.where(np.isnan(values), -np.inf, values), axis=None, kind="stable")[:_TOP]
        tops = [tuple(map(int, np.unravel_index(i, values.shape))) for i in order]
        yield f"{name:10} most in " + ", ".join(
            f"layer {n} head {h} ({format_measure(name, values[n, h])})" for n, h in tops
        )


def heads_page(measures: Mapping[str, np.ndarray], read: Sequence[tuple]) -> str:
    """Returns the measures of `measure_heads` as one HTML file; `read`: rows of a table that say of what."""
    page = Page("Attention heads")
    page.text(
        "Means over all tokens of words. Layers and heads are numbered from 0. Shares do not sum to 100%: the rest is "
        "attention to more distant words."
    )
    page.table("Data", read)
    for name, values in measures.items():
        most = max(float(np.nanmax(values)), 1e-12)
        rows = [
            (
                f"layer {n}",
                *(Shade(format_measure(name, each).removesuffix(" %"), 0.0 if np.isnan(each) else each / most)
                  for each in row),
            )
            for n, row in enumerate(values)
        ]  # fmt: skip
        about = MEASURES[name] if name in _IN_PIECES else f"{MEASURES[name]}, in %"
        page.heading(name.capitalize())
        page.text(f"{about[0].upper()}{about[1:]}.")
        page.table(None, rows, ("head", *map(str, range(values.shape[1]))))
    return page.html()
