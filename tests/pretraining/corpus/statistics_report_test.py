"""The report of what is counted of the examples: hand-made counts, real rows, and nothing at all."""

import dataclasses
import re
from collections import Counter

import numpy as np
import pytest

from bert_tf.pretraining.corpus.options import CorpusOptions
from bert_tf.pretraining.corpus.statistics import Statistics
from bert_tf.pretraining.corpus.statistics_report import format_report, make_report_page, prediction_budgets
from bert_tf.pretraining.corpus.units import make_batches
from bert_tf.utils.text_options import TextOptions
from tests.pretraining.corpus import support

PIECES = support.pieces(words=95, continuations=5)
WITH_PHRASES = support.pieces(words=95, continuations=5, phrases=[[5, n] for n in range(5, 60)])
KINDS = [
    {},
    {"sentence_objective": "sop", "packing": True, "masking": "whole_word"},
    {"sentence_objective": "none", "masking": "span"},
    {"masking": "phrase", "phrase_file": "list", "mask_token_prob": 0.6, "random_token_prob": 0.3},
    {"dynamic_masking": True},
    {"dynamic_masking": True, "sentence_objective": "none"},
]


def _drawn():
    """1,000 examples of 20 pieces, 100 of 10 and one of 5: 3, 2 and 1 predictions, but one has too few."""
    options = CorpusOptions(max_seq_length=20, max_predictions_per_seq=3)
    statistics = Statistics.empty(options, PIECES.vocab_size)
    statistics.shapes[[20, 10, 10, 5], [3, 2, 1, 1]] = 1000, 99, 1, 1
    statistics.pairs[:] = [[520, 0, 30], [480, 71, 0]]
    statistics.replacements[:] = 2560, 320, 320
    statistics.masked_ids[[7, 9, 101]] = 2000, 1120, 80
    statistics.rows, statistics.padding = 1101, 1015
    statistics.text.update(Counter(files=2, documents=30, junk_lines=4))
    return statistics, options


def _lines(text):
    """{name: (value, remark)}, of which the last one counts where several have a name."""
    found = {}
    for line in text.splitlines():
        name, *others = re.split(r" {2,}", line.strip())
        found[name] = tuple(others)
    return found


def _made(**options):
    """What is counted of rows that are made of 80 documents."""
    options = CorpusOptions(max_seq_length=64, max_predictions_per_seq=10, **options)
    statistics = Statistics.empty(options, PIECES.vocab_size)
    documents = support.random_documents(np.random.default_rng(2), number=80)
    pieces = WITH_PHRASES if options.phrase_file else PIECES
    assert list(make_batches(documents, options, pieces, 0, 0, statistics))
    return statistics, options


def test_hand_made_counts():
    lines = _lines(format_report(*_drawn(), PIECES))
    assert lines["mask rate"] == ("15.23%", "of the tokens; goal 15%")  # 3,200 of 21,005
    assert lines["became [MASK]"] == ("80.00%", "goal 80%")
    assert lines["became a random token"] == ("10.00%", "goal 10%")
    assert lines["kept"] == ("10.00%", "goal 10%; with random tokens that are the original ones")
    assert lines["as many as the law gives"] == ("1,100", "min(3, max(1, round(0.15 x tokens)))")
    assert lines["fewer"][0] == "1" and lines["more"][0] == "0"
    assert lines["examples where both were possible"] == ("1,000", "90.83% of all")
    assert lines["random"] == ("48.00%", "goal 50%")
    assert lines["forced to be random"][0] == "71" and lines["forced to be the next one"][0] == "30"
    assert lines["random, forced or not"][0] == "50.05%"  # 551 of 1,101
    assert lines["padding"][0] == "4.61%"  # 1,015 of 22,020
    assert lines["tokens of an example, least"] == ("5",)
    assert lines["5% have at most"] == ("10",) and lines["25% have at most"] == ("20",)
    assert lines["w2"] == ("2,000", "62.50%") and lines["##c1"] == ("80", "2.50%")
    assert lines["different ones"] == ("3", "of 105 in the vocabulary")
    assert lines["dropped junk sentences"] == ("4", "not asked for: `drop_junk_lines`")
    assert lines["--masked_lm_prob"] == ("0.15",)


def test_values_end_in_one_column():
    lines = [line for line in format_report(*_drawn(), PIECES).splitlines() if line.startswith("  ")]
    ends = {re.match(r" +\S+( \S+)* {2,}\S+( %)?", line).end() for line in lines}
    assert len(lines) > 50 and len(ends) == 1


def test_the_most_frequent_pieces_come_first_and_no_more_than_twenty():
    statistics, options = _drawn()
    statistics.masked_ids[:] = 0
    statistics.masked_ids[10:50] = np.arange(40)
    names = re.findall(r"^    (w\d+) ", format_report(statistics, options, PIECES), re.M)
    assert names == [f"w{n}" for n in range(44, 24, -1)]


@pytest.mark.parametrize("prob", [0.0, 0.15, 0.5, 1.0])
def test_the_law_is_that_of_google(prob):
    options = CorpusOptions(max_seq_length=128, max_predictions_per_seq=20, masked_lm_prob=prob)
    assert prediction_budgets(options).tolist() == [min(20, max(1, int(round(n * prob)))) for n in range(129)]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_was_made(kind):
    options = CorpusOptions(**kind)
    nothing = Statistics.empty(options, PIECES.vocab_size)
    lines = _lines(format_report(nothing, options, PIECES))
    assert lines["examples"] == ("0",) and lines["padding"][0] == lines["50% have at most"][0] == "-"
    assert "<svg" not in make_report_page(nothing, options, PIECES)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_real_rows(kind):
    statistics, options = _made(**kind)
    text, page = format_report(statistics, options, PIECES), make_report_page(statistics, options, PIECES)
    lines = _lines(text)
    assert lines["examples"] == (f"{statistics.examples:,}",)
    assert ("mask rate" in lines) != options.dynamic_masking
    assert ("forced to be random" in lines) == (options.sentence_objective == "nsp")
    assert ("swapped" in lines) == (options.sentence_objective == "sop")
    plots = 1 + (options.sentence_objective != "none") + 3 * (not options.dynamic_masking)
    assert page.count("<svg") == page.count("</svg>") == plots
    for name, (value, *_) in (line for line in lines.items() if line[1]):
        assert f">{name}</th><td>{value}</td>" in page.replace('">  ', '">')


def test_what_became_of_phrases_and_other_shares():
    statistics, options = _made(**KINDS[3])
    lines = _lines(format_report(statistics, options, WITH_PHRASES))
    counts = statistics.phrases
    assert 0 < counts["masked"] < counts["found"] and lines["found in the examples"] == (f"{counts['found']:,}",)
    assert lines["masked as one"] == (f"{100 * counts['masked'] / counts['found']:.2f}%", "of those found")
    assert lines["phrases in the list"] == ("55", "0 more contain tokens that the vocabulary lacks")
    goals = [lines[name][1].split(";")[0] for name in ("became [MASK]", "became a random token", "kept")]
    assert goals == ["goal 60%", "goal 30%", "goal 10%"] and lines["Masks (phrase)"] == ()


def test_real_rows_obey_the_law():
    lines = _lines(format_report(*_made(), PIECES))
    assert lines["fewer"][0] == lines["more"][0] == "0"
    assert lines["as many as the law gives"][0] == lines["examples"][0]


def test_pieces_that_mean_something_to_html_or_matplotlib():
    statistics, options = _drawn()
    names = list(PIECES.names)
    names[7], names[9], names[101] = "<b>", "$\\frac$", "##\u4e2d"
    page = make_report_page(statistics, options, dataclasses.replace(PIECES, names=names))
    assert "<b>" not in page and page.count("&lt;b&gt;") == 2  # in the table and in the plot
    assert page.count("$\\frac$") == page.count("##\u4e2d") == 2


def test_what_was_dropped_on_demand_is_not_said_to_be_unasked():
    statistics, options = _drawn()
    options = dataclasses.replace(options, text=TextOptions(drop_junk_lines=True))
    assert "not asked for" not in format_report(statistics, options, PIECES)
