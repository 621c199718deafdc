"""Entities, schemes and conlleval's scores, by hand and against the state machine of conlleval.pl."""

import random
from collections import Counter

import pytest

from bert_tf.evaluation.entities import (
    SCHEMES,
    EntitySpan,
    Fault,
    find_scheme,
    find_wrong_tag,
    parse_entities,
    score_entities,
    split_tag,
    tags_of,
)

# conlleval.pl asks which chunk letters stand before and after a gap; those of one type, which end or start a chunk.
ENDS = {*("BB", "BO", "BS", "IB", "IS", "IO"), *("EE", "EI", "EO", "ES", "EB"), *("SE", "SI", "SO", "SS", "SB")}
STARTS = {*("BB", "IB", "OB", "SB", "EB"), *("BS", "IS", "OS", "SS", "ES"), *("OI", "SI", "EI"), *("SE", "EE", "OE")}


def parse(tag):
    letter, _, kind = tag.partition("-")
    return letter, kind


def ends(before, after):
    return before[0] + after[0] in ENDS or (before[0] != "O" and before[1] != after[1])


def starts(before, after):
    return before[0] + after[0] in STARTS or (after[0] != "O" and before[1] != after[1])


def chunks(tags):
    """Chunks from the script's two questions about every gap, asked apart from each other."""
    line = [("O", ""), *map(parse, tags), ("O", "")]
    first = [i for i in range(len(tags)) if starts(line[i], line[i + 1])]
    last = [i for i in range(len(tags)) if ends(line[i + 1], line[i + 2])]
    return [(line[a + 1][1], a, b) for a, b in zip(first, last, strict=True)]


def conlleval(golds, predictions):
    """The script's main loop: (correct, guessed, gold) chunks, each a Counter of types, and (correct, all) tags."""
    correct, guessed, gold = Counter(), Counter(), Counter()
    inside, before, hits, words = False, (("O", ""), ("O", "")), 0, 0
    for sentence, prediction in zip(golds, predictions, strict=True):
        for pair in [*zip(map(parse, sentence), map(parse, prediction), strict=True), (("O", ""), ("O", ""))]:
            end = [ends(b, a) for b, a in zip(before, pair, strict=True)]
            start = [starts(b, a) for b, a in zip(before, pair, strict=True)]
            if inside and all(end) and before[0][1] == before[1][1]:
                correct[before[0][1]] += 1
                inside = False
            elif inside and (end[0] != end[1] or pair[0][1] != pair[1][1]):
                inside = False
            inside = inside or (all(start) and pair[0][1] == pair[1][1])
            gold[pair[0][1]] += start[0]
            guessed[pair[1][1]] += start[1]
            hits += pair[0] == pair[1]
            before = pair
        words += len(sentence)
        hits -= 1  # the gap between sentences is no word
    return correct, guessed, gold, hits, words


def random_tags(rng, length, letters="BIESO"):
    return [letter if (letter := rng.choice(letters)) == "O" else f"{letter}-{rng.choice('XY')}" for _ in range(length)]


PICTURES = {
    "": [],
    "O O": [],
    "B-P": [("P", 0, 0)],
    "B-P I-P O": [("P", 0, 1)],
    "I-P I-P": [("P", 0, 1)],
    "O I-P": [("P", 1, 1)],
    "I-P B-P": [("P", 0, 0), ("P", 1, 1)],
    "B-P B-P": [("P", 0, 0), ("P", 1, 1)],
    "B-P I-L": [("P", 0, 0), ("L", 1, 1)],
    "I-P I-L I-L I-P": [("P", 0, 0), ("L", 1, 2), ("P", 3, 3)],
    "B-P E-P": [("P", 0, 1)],
    "B-P I-P E-P E-P": [("P", 0, 2), ("P", 3, 3)],
    "E-P I-P": [("P", 0, 0), ("P", 1, 1)],
    "E-P B-P": [("P", 0, 0), ("P", 1, 1)],
    "B-P E-L": [("P", 0, 0), ("L", 1, 1)],
    "S-P S-P": [("P", 0, 0), ("P", 1, 1)],
    "S-P I-P E-P": [("P", 0, 0), ("P", 1, 2)],
    "B-P S-P I-P": [("P", 0, 0), ("P", 1, 1), ("P", 2, 2)],
    "O E-P O": [("P", 1, 1)],
    "B I O B": [("", 0, 1), ("", 3, 3)],
    "B I-P": [("", 0, 0), ("P", 1, 1)],
    "B- I": [("", 0, 1)],
    "B-a-b I-a-b I-a": [("a-b", 0, 1), ("a", 2, 2)],
}


@pytest.mark.parametrize("picture", PICTURES)
def test_entities_by_hand(picture):
    assert parse_entities(picture.split()) == PICTURES[picture]
    assert chunks(picture.replace("B- ", "B ").split()) == PICTURES[picture]


def test_entities_are_conllevals_chunks():
    rng = random.Random(0)
    for _ in range(10_000):
        tags = random_tags(rng, rng.randrange(12))
        assert parse_entities(tags) == chunks(tags), tags


def test_scores_are_conllevals():
    rng = random.Random(1)
    golds = [random_tags(rng, rng.randrange(12)) for _ in range(2000)]
    predictions = [[tag if rng.random() < 0.8 else random_tags(rng, 1)[0] for tag in tags] for tags in golds]
    correct, guessed, gold, hits, words = conlleval(golds, predictions)
    scores = score_entities(golds, predictions)
    assert list(scores) == ["f1", "precision", "recall", "accuracy",
                            "f1_X", "precision_X", "recall_X", "f1_Y", "precision_Y", "recall_Y"]  # fmt: skip
    assert scores["accuracy"] == hits / words
    for suffix, counts in {
        "": [c.total() for c in (correct, guessed, gold)],
        "_X": [c["X"] for c in (correct, guessed, gold)],
        "_Y": [c["Y"] for c in (correct, guessed, gold)],
    }.items():
        precision, recall = counts[0] / counts[1], counts[0] / counts[2]
        assert (scores["precision" + suffix], scores["recall" + suffix]) == (precision, recall)
        assert scores["f1" + suffix] == pytest.approx(2 * precision * recall / (precision + recall), abs=1e-12)


def test_scores_by_hand():
    golds = [["B-PER", "I-PER", "O", "B-LOC"], ["B-PER"]]
    predictions = [["B-PER", "I-PER", "O", "B-PER"], ["O"]]  # one of two is right, one of three found
    assert score_entities(golds, predictions) == {
        "f1": 2 / 5, "precision": 1 / 2, "recall": 1 / 3, "accuracy": 3 / 5,
        "f1_LOC": 0.0, "precision_LOC": 0.0, "recall_LOC": 0.0,
        "f1_PER": 1 / 2, "precision_PER": 1 / 2, "recall_PER": 1 / 2,
    }  # fmt: skip


def test_a_sentence_ends_every_entity():
    assert score_entities([["B-P"], ["I-P"]], [["B-P"], ["I-P"]])["f1"] == 1.0
    assert score_entities([["B-P", "I-P"], ["I-P"]], [["B-P", "I-P"], ["O"]])["precision"] == 1.0


def test_nothing_through_nothing_is_0():
    assert score_entities([], []) == {"f1": 0.0, "precision": 0.0, "recall": 0.0, "accuracy": 0.0}
    assert score_entities([["O"]], [["O"]]) == {"f1": 0.0, "precision": 0.0, "recall": 0.0, "accuracy": 1.0}
    assert score_entities([["O"]], [["B-P"]])["precision_P"] == 0.0


def test_entities_without_a_type_have_no_line_of_their_own():
    scores = score_entities([["B", "I", "O"]], [["B-", "I", "O"]])
    assert scores == {"f1": 1.0, "precision": 1.0, "recall": 1.0, "accuracy": 1.0}


@pytest.mark.parametrize(
    "golds, predictions, message",
    [
        ([["O"]], [], r"`predictions` must have one sentence for each of `golds`; got 0 for 1"),
        ([["O"], ["O", "O"]], [["O"], ["O"]], r"Sentence 1 of `predictions` must .*; got 1 for 2 words; pad"),
        ([["L-PER"]], [["O"]], r"A tag must be O, .*; got the unknown tag 'L-PER'; rename"),
    ],
)
def test_what_does_not_match_is_refused(golds, predictions, message):
    with pytest.raises(ValueError, match=message):
        score_entities(golds, predictions)


@pytest.mark.parametrize("tag", ["", "X", "o", "b-PER", "PER", "O-PER", "BI-PER", "-PER", "B-A B", "B-PER\n", "M-PER"])
def test_refuses_unknown_tags(tag):
    with pytest.raises(ValueError, match=r"and S \(bioes\); got the unknown tag .*; rename it"):
        split_tag(tag)


def test_splits_a_tag_into_prefix_and_type():
    tags = ("O", "B-PER", "I-", "S", "E-a-b")
    assert [split_tag(tag) for tag in tags] == [("O", ""), ("B", "PER"), ("I", ""), ("S", ""), ("E", "a-b")]


@pytest.mark.parametrize(
    "sentences, scheme",
    [
        ([["B-P", "I-P"], ["O", "B-L"]], "iob2"),
        ([["B-P", "B-P"], ["O", "I-L"]], "iob1"),
        ([["I-P", "B-P"]], "iob1"),
        ([["B-P", "I-L"]], "iob1"),
        ([["B-P", "I-P"], ["S-P"]], "bioes"),
        ([["I-P", "E-P"]], "bioes"),
        ([["O"], []], "iob2"),
        ([], "iob2"),
    ],
)
def test_finds_the_scheme_of_sentences(sentences, scheme):
    assert find_scheme(sentences) == scheme


SAME = {  # two that touch, one alone, two of different types
    "iob1": "I-P I-P B-P O I-P O I-P I-L I-L I-L",
    "iob2": "B-P I-P B-P O B-P O B-P B-L I-L I-L",
    "bioes": "B-P E-P S-P O S-P O S-P B-L I-L E-L",
}


@pytest.mark.parametrize("scheme_from", SCHEMES)
@pytest.mark.parametrize("scheme_to", SCHEMES)
def test_entities_of_one_scheme_are_written_in_another(scheme_from, scheme_to):
    entities = parse_entities(SAME[scheme_from].split())
    assert tags_of(entities, len(SAME["iob2"].split()), scheme_to) == SAME[scheme_to].split()
    without_type = "".join(tags_of(parse_entities(["B", "E"]), 2, scheme_to))
    assert without_type == {"iob1": "II", "iob2": "BI", "bioes": "BE"}[scheme_to]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_written_tags_follow_the_scheme_and_mark_the_same_entities(scheme):
    rng = random.Random(2)
    for _ in range(1000):
        tags = random_tags(rng, rng.randrange(10))
        there = tags_of(parse_entities(tags), len(tags), scheme)
        assert parse_entities(there) == parse_entities(tags) and find_wrong_tag(there, scheme) is None
        if find_wrong_tag(tags, scheme) is None:  # what a scheme allows, it writes the same way
            assert there == tags


FAULTS = [
    ("iob2", "O I-P", 1, "which must follow B-P or I-P in iob2, but follows 'O'"),
    ("iob2", "I-P", 0, "which must follow B-P or I-P in iob2, but begins the sentence"),
    ("iob2", "B-P I-P I-L", 2, "which must follow B-L or I-L in iob2, but follows 'I-P'"),
    ("iob2", "B-P E-P", 1, "a prefix that iob2 does not define"),
    ("iob1", "S-P", 0, "a prefix that iob1 does not define"),
    ("iob1", "I-P B-P O B-P", 3,
     "which must follow B-P or I-P in iob1, where I-P begins other entities, but follows 'O'"),
    ("iob1", "I-L B-P", 1, "which must follow B-P or I-P in iob1, where I-P begins other entities, but follows 'I-L'"),
    ("bioes", "O E-P", 1, "which must follow B-P or I-P in bioes, but follows 'O'"),
    ("bioes", "S-P I-P E-P", 1, "which must follow B-P or I-P in bioes, but follows 'S-P'"),
    ("bioes", "S-L B-P O", 1, "which I-P or E-P must follow in bioes, but 'O' follows"),
    ("bioes", "B-P I-P", 1, "which I-P or E-P must follow in bioes, but the sentence ends"),
    ("bioes", "B-P E-L", 0, "which I-P or E-P must follow in bioes, but 'E-L' follows"),
]  # fmt: skip


@pytest.mark.parametrize("scheme, tags, index, reason", FAULTS)
def test_finds_the_first_tag_that_a_scheme_does_not_allow(scheme, tags, index, reason):
    assert find_wrong_tag(tags.split(), scheme) == Fault(index, reason)


def test_refuses_unknown_schemes_and_tags():
    with pytest.raises(ValueError, match="`scheme` must be"):
        tags_of([EntitySpan("P", 0, 0)], 1, "auto")
    with pytest.raises(ValueError, match="unknown tag 'L-P'"):
        find_wrong_tag(["L-P"], "bioes")
