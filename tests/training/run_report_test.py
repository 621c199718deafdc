"""The page of a run: every curve, every flag, every start; nothing from the network."""

import html.parser
import re

import pytest

from bert_tf.training.history import build_history_page

START = {"kind": "start", "step": 0, "time": "2025-01-31T09:00:00+00:00", "from": "init/bert_model.ckpt"}
START |= {"flags": {"learning_rate": "0.0001", "input_file": "<a>&b"}, "versions": {"tensorflow": "2.21.0"}}
AGAIN = {**START, "step": 30, "time": "2025-01-31T10:00:00+00:00", "from": "out/model.ckpt-30"}
RATES = {"examples_per_second": 80.0, "tokens_per_second": 9000.0, "learning_rate": 1e-4, "gradient_norm": 1.5}
COLOURS = {"train": "#4c78a8", "held out": "#d9822b"}
PALE = "#c9d6e5"  # where the run was taken up again
SCORED = {"Loss", "masked_lm_accuracy", "next_sentence_accuracy"}
SCORES = {"masked_lm_accuracy": 0.25, "next_sentence_accuracy": 0.75, "loss": 4.5}
COMMONEST = {"masked_lm_accuracy_of_commonest": 0.05}


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
    svg = text.split(f'aria-label="{heading}"')[1].split("</svg>")[0]
    paths = re.findall(r'<path d="M [^"]*L [^"]*" clip-path[^>]*stroke: (#\w+)', svg)
    return {colour: paths.count(colour) for colour in set(paths)}


def test_every_curve_is_there():
    text = build_history_page(_lines(), "Run")
    parts = _Headings(text).parts
    headings = ["", "So far", "Loss", "masked_lm_accuracy", "next_sentence_accuracy", "Examples per second"]
    headings += ["Tokens per second", "Learning rate", "Gradient norm, before clipping", "Skipped steps, all together"]
    assert list(parts) == [*headings, "Starts", "Flags that were given", "Versions"]
    assert {"train", "held out", "step"} <= set(parts["Loss"])
    for heading in headings[2:]:
        kinds = (*(["train"] if "_" not in heading else []), *(["held out"] if heading in SCORED else []))
        assert _curves(text, heading) == {PALE: 1, **{COLOURS[kind]: 1 for kind in kinds}}, heading
        assert ("held out" in parts[heading]) == ("held out" in kinds)


def test_what_the_commonest_answer_gets_lies_beside_the_accuracy():
    text = build_history_page([{**line, **(COMMONEST if line["kind"] == "eval" else {})} for line in _lines()], "Run")
    parts = _Headings(text).parts
    assert _curves(text, "masked_lm_accuracy") == {PALE: 1, "#d9822b": 1, "#222222": 1}
    assert "always the commonest answer" in parts["masked_lm_accuracy"] and not parts.keys() & COMMONEST.keys()
    assert "always the commonest answer" not in parts["next_sentence_accuracy"]
    assert "held out: masked_lm_accuracy_of_commonest" in parts["So far"]


def test_flags_starts_and_versions():
    parts = _Headings(build_history_page(_lines(), "Run")).parts
    assert parts["Flags that were given"] == ["--learning_rate", "0.0001", "--input_file", "<a>&b"]
    first = ["2025-01-31T09:00:00+00:00", "after step 0", "init/bert_model.ckpt"]
    assert parts["Starts"] == [*first, "2025-01-31T10:00:00+00:00", "after step 30", "out/model.ckpt-30"]
    assert parts["Versions"] == ["tensorflow", "2.21.0"]
    lines = [*_lines(), {**START, "git": {"commit": "0123abc", "dirty": True}}]
    shown = _Headings(build_history_page(lines, "Run")).parts["Versions"]
    assert shown == ["tensorflow", "2.21.0", "git commit", "0123abc", "with changes"]


def test_the_summary_tells_the_latest_values():
    so_far = _Headings(build_history_page(_lines(), "Run")).parts["So far"]
    rows = {name: so_far[i + 1 : i + 3] for i, name in enumerate(so_far)}
    assert rows["steps"] == ["60", "at 2025-01-31T11:00:00+00:00"]
    assert so_far[so_far.index("skipped steps") + 1] == "1"
    assert rows["train: loss"] == ["3", "at step 60"]
    assert rows["held out: masked_lm_accuracy"] == ["0.25", "at step 60"]


@pytest.mark.parametrize("lines", [[START], [START, _line("train", 10, loss=None, skipped=0.0, **RATES)]])
def test_a_run_that_has_just_begun_has_no_curves(lines):
    text = build_history_page(lines, "Run")
    parts = _Headings(text).parts
    assert list(parts) == ["", "So far", "Starts", "Flags that were given", "Versions"] and "<svg" not in text
    assert ("not finite" in parts["So far"]) == (len(lines) > 1)


def test_no_skipped_steps_no_curve_of_them():
    lines = [{**line, "skipped": 0.0} if line["kind"] == "train" else line for line in _lines()]
    assert "Skipped steps, all together" not in _Headings(build_history_page(lines, "Run")).parts


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


def test_a_long_run_makes_no_huge_page():
    assert len(build_history_page(_lines(100_000), "Run")) < 1_000_000
