"""The page of a run: every curve, every flag, every start; nothing from the network."""

import html.parser
import re

import pytest

from bert_tf.evaluation.error_reports.page_parts import checkpoint_sentence
from bert_tf.training.report_page import build_history_page
from bert_tf.utils.html_report import kept

START = {"kind": "start", "step": 0, "time": "2025-01-31T09:00:00+00:00", "from": "init/bert_model.ckpt"}
START |= {"flags": {"learning_rate": "0.0001", "input_file": "<a>&b"}, "versions": {"tensorflow": "2.21.0"}}
AGAIN = {**START, "step": 30, "time": "2025-01-31T10:00:00+00:00", "from": "out/model.ckpt-30"}
RATES = {"examples_per_second": 80.0, "tokens_per_second": 9000.0, "learning_rate": 1e-4, "gradient_norm": 1.5}
COLOURS = {"training": "#4c78a8", "evaluation": "#d9822b"}
PALE = "#c9d6e5"  # where the run was resumed
SCORED = {"Loss", "Masked LM accuracy", "Next sentence accuracy"}
DETAILS = ["Details", "Flags", "Starts", "Versions"]
SCORES = {"masked_lm_accuracy": 0.25, "next_sentence_accuracy": 0.75, "loss": 4.5}
COMMONEST = {"masked_lm_accuracy_majority_baseline": 0.05}


class _Headings(html.parser.HTMLParser):
    """Collects, for every second-level heading, all text up to the next; tags must match."""

    def __init__(self, text):
        super().__init__()
        self.parts, self._open = {"": []}, []
        self.feed(text)
        self.close()
        assert not self._open, self._open

    def handle_starttag(self, tag, attributes):
        if tag != "meta":
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag, tag

    def handle_startendtag(self, tag, attributes):
        assert tag not in ("script", "img", "link")

    def handle_data(self, data):
        if self._open[-1:] == ["h2"]:
            self.parts[data] = []
        elif data.strip() and "style" not in self._open:
            list(self.parts.values())[-1].append(data.strip())


def _line(kind, step, **values):
    return {"kind": kind, "step": step, "time": "2025-01-31T11:00:00+00:00", **values}


def _lines(steps=60):
    train = [_line("train", i, loss=9 - i / 10, skipped=float(i == 20), **RATES) for i in range(10, steps + 1, 10)]
    held_out = [_line("eval", i, **SCORES) for i in range(30, steps + 1, 30)]
    return [START, *train[:3], held_out[0], AGAIN, *train[3:], *held_out[1:]]


def _curves(text, heading):
    """Returns how many lines of data the plot under a heading holds, by their colour."""
    svg = text.split(f">{heading}</h2>")[1].split("</svg>")[0]
    paths = re.findall(r'<path d="M [^"]*L [^"]*" clip-path[^>]*stroke: (#\w+)', svg)
    return {colour: paths.count(colour) for colour in set(paths)}


def test_every_curve_is_there():
    text = build_history_page(_lines(), "Run")
    assert 'aria-label="Masked LM accuracy"' in text and "masked_lm" not in text
    parts = _Headings(text).parts
    headings = ["Masked LM accuracy", "Next sentence accuracy", "Examples per second"]
    headings += ["Tokens per second", "Learning rate", "Gradient norm before clipping", "Skipped steps, cumulative"]
    assert list(parts) == ["", "Run", "Loss", "Training curves", *headings, *DETAILS]
    assert {"training", "evaluation", "step"} <= set(parts["Loss"])
    for heading in ["Loss", *headings]:
        kinds = (*(["training"] if "accuracy" not in heading else []), *(["evaluation"] if heading in SCORED else []))
        assert _curves(text, heading) == {PALE: 1, **{COLOURS[kind]: 1 for kind in kinds}}, heading
        assert ("evaluation" in parts[heading]) == ("evaluation" in kinds)


def test_what_was_evaluated_is_on_the_first_screen():
    shown = {"eval": "<h2>Errors</h2>", "headline": "<b>0.75</b>", "overview": "<h2>Matrix</h2>", "more": "<i></i>"}
    page = build_history_page(_lines(), "Run", shown)
    headings = (f">{name}</h2>" for name in ("Run", "Loss", "Matrix", "Errors", "Training curves", "Flags"))
    places = [page.index(mark) for mark in ("<b>0.75</b>", *headings)]
    assert places == sorted(places)
    assert list(kept(page)) == ["headline", "overview", "eval", "more"]


def test_a_headline_does_not_hide_the_latest_evaluation():
    shown = {"headline": "<p>Checkpoint after step 30.</p>", "headline_predict": "<p>Checkpoint after step 30.</p>"}
    cells = _Headings(build_history_page(_lines(), "Run", shown)).parts["Run"]
    assert dict(zip(cells[::2], cells[1::2], strict=True))["Evaluation loss"] == "4.5"


def test_metrics_are_not_on_the_first_screen_twice():
    shown = {"headline": f"<p>{checkpoint_sentence(60)}</p>"}
    assert "Evaluation loss" not in _Headings(build_history_page(_lines(), "Run", shown)).parts["Run"]


def test_the_run_lasts_until_its_final_evaluation():
    lines = [*_lines(), {**_line("eval", 60, **SCORES), "time": "2025-01-31T11:30:00+00:00"}]
    assert "60, until 2025-01-31 11:30 UTC" in _Headings(build_history_page(lines, "Run")).parts["Run"]


def test_the_majority_baseline_is_in_the_plot_of_the_metric():
    text = build_history_page([{**line, **(COMMONEST if line["kind"] == "eval" else {})} for line in _lines()], "Run")
    parts = _Headings(text).parts
    assert _curves(text, "Masked LM accuracy") == {PALE: 1, "#d9822b": 1, "#222222": 1}
    assert "majority baseline" in parts["Masked LM accuracy"] and not parts.keys() & COMMONEST.keys()
    assert "majority baseline" not in parts["Next sentence accuracy"]
    assert "Evaluation masked LM accuracy (majority baseline)" in parts["Run"]


def test_flags_starts_and_versions():
    parts = _Headings(build_history_page(_lines(), "Run")).parts
    assert parts["Flags"] == ["--learning_rate", "0.0001", "--input_file", "<a>&b"]
    first = ["2025-01-31 09:00 UTC", "from step 0", "init/bert_model.ckpt"]
    assert parts["Starts"] == [*first, "2025-01-31 10:00 UTC", "from step 30", "out/model.ckpt-30"]
    assert parts["Versions"] == ["tensorflow", "2.21.0"]
    lines = [*_lines(), {**START, "git": {"commit": "0123abc", "dirty": True}}]
    shown = _Headings(build_history_page(lines, "Run")).parts["Versions"]
    assert shown == ["tensorflow", "2.21.0", "git commit", "0123abc", "with uncommitted changes"]


def test_the_summary_shows_model_data_and_latest_values():
    data = {"train": {"file": "/a/train.tsv", "rows": 1200}, "dev": {"file": "/a/dev.tsv", "rows": 34}}
    lines = _lines()
    cells = _Headings(build_history_page([*lines, {**AGAIN, "data": data}], "Run")).parts["Run"]
    rows = dict(zip(cells[::2], cells[1::2], strict=True))
    assert rows["Initial weights"] == "bert_model.ckpt" and rows["Evaluation data"] == "34 examples, dev.tsv"
    assert rows["Training data"] == "1,200 examples, train.tsv"
    assert rows["Training steps"] == "60, until 2025-01-31 11:00 UTC"
    assert rows["Skipped steps"] == "1 (non-finite gradients)" and rows["Training loss"] == "3"
    assert rows["Evaluation masked LM accuracy"] == "0.25"


@pytest.mark.parametrize("lines", [[START], [START, _line("train", 10, loss=None, skipped=0.0, **RATES)]])
def test_a_run_that_has_just_begun_has_no_curves(lines):
    text = build_history_page(lines, "Run")
    parts = _Headings(text).parts
    assert list(parts) == ["", "Run", *DETAILS] and "<svg" not in text
    assert ("not finite" in parts["Run"]) == (len(lines) > 1)


def test_no_skipped_steps_no_curve_of_them():
    lines = [{**line, "skipped": 0.0} if line["kind"] == "train" else line for line in _lines()]
    assert "Skipped steps, cumulative" not in _Headings(build_history_page(lines, "Run")).parts


def test_a_loss_that_was_not_finite_is_a_gap():
    lines = [_line("train", i, loss=None if i == 5 else 1.0, skipped=0.0) for i in range(1, 11)]
    path = re.search(r'<path d="(M [^"]*)" clip-path', build_history_page([START, *lines], "Run").split('"Loss"')[1])[1]
    assert path.count("M ") == 2


def test_a_score_that_was_taken_twice_counts_once():
    twice = [_line("eval", 30, loss=9.0), _line("eval", 60, loss=8.0), _line("eval", 30, loss=5.0)]
    once = [twice[2], twice[1]]

    def plot(held_out):
        return build_history_page([START, *held_out], "Run").split('aria-label="Loss"')[1].split("</svg>")[0]

    assert plot(twice) == plot(once) != plot(twice[:2])


def test_the_same_lines_make_the_same_bytes_and_nothing_is_fetched():
    text = build_history_page(_lines(), "Run")
    assert text == build_history_page(_lines(), "Run")
    assert set(re.findall(r'https?://[^"\s]+', text)) == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert all(link.startswith("#") for link in re.findall(r'(?:href|src)="([^"]*)', text))


@pytest.mark.slow
def test_a_long_run_makes_no_huge_page():
    assert len(build_history_page(_lines(100_000), "Run")) < 1_000_000
