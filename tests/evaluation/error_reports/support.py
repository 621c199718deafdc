"""Examples with right answers, and a page read back as its tables."""

import html.parser

import numpy as np

from bert_tf.evaluation.error_reports.report import DisplayedExamples
from bert_tf.evaluation.error_reports.single_label import SingleLabelReport
from bert_tf.utils.html_report import Page

NASTY = "<script>alert('x')</script> & \"y\""


def shown(texts, lengths=None, unit="tokens"):
    """Returns examples with one text each; they begin in line 2."""
    n = len(texts)
    lengths = np.array([len(text.split()) for text in texts]) if lengths is None else np.asarray(lengths)
    ids = [f"id{i}" for i in range(n)]
    return DisplayedExamples("data/dev.tsv", ids, range(2, n + 2), {"text": texts}, lengths, unit)


def choices(gold, probabilities, labels, texts=None, **others):
    texts = texts or [f"text {i}" for i in range(len(gold))]
    return SingleLabelReport(examples=shown(texts), gold=np.array(gold), probabilities=np.array(probabilities, float),
                   labels=labels, **others)  # fmt: skip


class Sections(html.parser.HTMLParser):
    """What a page shows: {heading of the section: its text pieces}, and of each its tables as lists of rows."""

    def __init__(self, judged):
        super().__init__()
        page = Page("p")
        with page.section("Overview"):
            judged.show_overview(page)
        judged.show(page)
        self.text, self.tables, self.tags, self._name, self._open = {}, {}, set(), "", []
        self.html = page.html()
        self.feed(self.html)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self._open.append(tag)
        tables = self.tables.setdefault(self._name, [])
        if tag == "table":
            tables.append([])
        elif tag == "tr":
            tables[-1].append([])
        elif tag in ("th", "td"):
            tables[-1][-1].append("")

    def handle_endtag(self, tag):
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, text):
        if "style" in self._open or not text.strip():
            return
        if self._open[-1] == "h3":
            self._name = text
        elif "th" in self._open or "td" in self._open:
            self.tables[self._name][-1][-1][-1] += text
        else:
            self.text[self._name] = self.text.get(self._name, "") + text
