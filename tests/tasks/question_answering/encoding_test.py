"""Questions and contexts become windows, with the origin of each token."""

import numpy as np
import pytest

from bert_tf.tasks.question_answering import encoding
from bert_tf.tasks.question_answering.data import SquadExamples
from bert_tf.tasks.question_answering.encoding import encode_squad
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import tiny
from tests.conftest import ROOT
from tests.tasks.question_answering.support import real_file


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(list(tiny.VOCAB))


def examples(*rows) -> SquadExamples:
    """Returns questions from (question, context, answer or None, occurrence of the answer in the context)."""
    answers = []
    for _, context, *answer in rows:
        text, nth = (*answer, 0)[:2] if answer else (None, 0)
        at = -1
        for _ in range(nth + 1):
            at = context.index(text, at + 1) if text is not None else -1
        answers.append([] if text is None else [(text, at), (context, 0)])
    names = [f"q{i}" for i in range(len(rows))]
    places = [(0, 0, i) for i in range(len(rows))]
    questions, contexts = ([row[i] for row in rows] for i in (0, 1))
    return SquadExamples(names, questions, contexts, answers, [not a for a in answers], "squad.json", places)


def pieces_of(rows, row):
    a, b = rows.splits[row : row + 2]
    return " ".join(tiny.VOCAB[i] for i in rows.features["input_ids"][a:b])


def test_windows_picture(tokenizer):
    given = examples(("is it the film ?", "to see the music of the people", "music"), ("good", "a story", "a story"))
    rows = encode_squad(tokenizer, given, 11, 2, 3, True)
    assert [pieces_of(rows, i) for i in range(len(rows))] == [
        "[CLS] is it the [SEP] to see the music of [SEP]",  # the question is cut to 3
        "[CLS] is it the [SEP] the music of the people [SEP]",
        "[CLS] good [SEP] a story [SEP]",
    ]
    assert rows.origin.example.tolist() == [0, 0, 1] and rows.origin.example.dtype == np.int64
    segments = np.split(rows.features["segment_ids"], rows.splits[1:-1])
    assert [s.tolist() for s in segments] == [[0] * 5 + [1] * 6] * 2 + [[0, 0, 0, 1, 1, 1]]
    assert rows.origin.starts.take([1]).flat.tolist() == [-1] * 5 + [7, 11, 17, 20, 24, -1]
    assert rows.origin.ends.take([1]).flat.tolist() == [-1] * 5 + [10, 16, 19, 23, 30, -1]
    targets = rows.targets
    assert targets["start_positions"].tolist() == [8, 6, 3] and targets["end_positions"].tolist() == [8, 6, 4]
    assert {values.dtype for values in targets.values()} == {np.dtype(np.int32)}


def test_an_answer_counts_only_where_the_window_holds_all_of_it(tokenizer):
    given = examples(("is it", "to see the music of the people", "music of the"), ("is it", "a film", None))
    rows = encode_squad(tokenizer, given, 10, 2, 3, True)  # windows: 0-4, 2-6
    assert rows.targets["start_positions"].tolist() == [0, 5, 0]
    assert rows.targets["end_positions"].tolist() == [0, 7, 0]


def test_the_whole_of_a_piece_of_which_the_answer_has_a_character(tokenizer):
    given = examples(("it", "the films, people", "ilm"), ("it", "the films, people", "ms, p"))
    rows = encode_squad(tokenizer, given, 16, 8, 3, True)  # the film ##s , people
    targets = rows.targets
    assert targets["start_positions"].tolist() == [4, 4] and targets["end_positions"].tolist() == [4, 7]


def test_the_first_of_several_answers_and_the_occurrence_that_is_meant(tokenizer):
    given = examples(("it", "the film of the film", "the film", 1))
    rows = encode_squad(tokenizer, given, 16, 8, 3, True)
    assert rows.targets["start_positions"].tolist() == [6]


def test_without_answers_there_are_no_targets(tokenizer):
    assert encode_squad(tokenizer, examples(("it", "a film", "film")), 16, 8, 3, False).targets == {}


def test_an_empty_question_an_empty_context_and_an_answer_without_pieces(tokenizer, caplog):
    given = examples(("", "film", "film"), ("it", "", None), ("it", "a \u200b film", "\u200b"))
    rows = encode_squad(tokenizer, given, 16, 8, 3, True)
    assert [pieces_of(rows, i) for i in range(3)] == [
        "[CLS] [SEP] film [SEP]", "[CLS] it [SEP] [SEP]", "[CLS] it [SEP] a film [SEP]"]  # fmt: skip
    assert rows.targets["start_positions"].tolist() == [2, 0, 0]
    assert rows.targets["end_positions"].tolist() == [2, 0, 0]
    assert "squad.json: 1 answers fit into no window: they are trained as no answer." in caplog.text


def random_examples(rng, n):
    words = [*tiny.FILL, "films", "caf\u00e9", "cafe\u0301", "\U0001f600", "\u6771\u4eac", "people,", "s", "  "]
    contexts = [" ".join(rng.choice(words, rng.integers(1, 60))) for _ in range(n // 3)]
    rows = []
    for _ in range(n):
        context = contexts[rng.integers(len(contexts))]
        a, b = sorted(rng.choice(len(context) + 1, 2, replace=False)) if len(context) > 1 else (0, len(context))
        text = context[a : min(b, a + 30)]
        nth = sum(context.startswith(text, i) for i in range(a))
        rows.append((" ".join(rng.choice(words, rng.integers(0, 12))), context, text, nth))
    return examples(*rows)


def test_rows_and_targets_one_at_a_time(tokenizer):
    """What is computed for all rows at once, computed again for each from its text."""
    given = random_examples(np.random.default_rng(0), 120)
    rows = encode_squad(tokenizer, given, 24, 7, 6, True)
    seen, row = [], 0
    for i, context in enumerate(given.contexts):
        ids, starts, ends = (part[0].numpy() for part in tokenizer.tokenize_with_offsets([context]))
        question = tokenizer.tokenize([given.questions[i]])[0].numpy()[:6]
        room, first = 21 - len(question), 0
        while True:
            window = slice(first, first + room)
            whole = [2, *question, 3, *ids[window], 3]
            own = slice(*rows.splits[row : row + 2])
            assert rows.features["input_ids"][own].tolist() == whole and rows.origin.example[row] == i
            inside = slice(own.start + len(question) + 2, own.stop - 1)
            assert rows.origin.starts.flat[inside].tolist() == starts[window].tolist()
            assert rows.origin.ends.flat[inside].tolist() == ends[window].tolist()
            assert (rows.origin.starts.flat[own] >= 0).sum() == len(ids[window])
            text, at = given.answers[i][0]
            held = [k for k in range(len(ids)) if starts[k] < at + len(text) and ends[k] > at]
            fits = held and first <= held[0] and held[-1] < first + room
            columns = [k - first + len(question) + 2 for k in (held[0], held[-1])] if fits else [0, 0]
            assert [v[row] for v in rows.targets.values()] == columns
            seen.append(bool(fits))
            row += 1
            if first + room >= len(ids):
                break
            first += min(7, room)
    assert row == len(rows) and 20 < sum(seen) < len(seen) - 20


def test_many_texts_are_tokenized_in_parts_of_which_nothing_shows(tokenizer, monkeypatch):
    given = random_examples(np.random.default_rng(1), 30)
    whole = encode_squad(tokenizer, given, 24, 7, 6, True)
    monkeypatch.setattr(encoding, "_CHUNK", 7)
    parts = encode_squad(tokenizer, given, 24, 7, 6, True)
    assert parts.fingerprint() == whole.fingerprint()
    assert parts.origin.starts.flat.tolist() == whole.origin.starts.flat.tolist()


def test_lengths_that_leave_no_room(tokenizer):
    with pytest.raises(ValueError, match=r"`max_seq_length` must be greater than `max_query_length` \+ 3"):
        encode_squad(tokenizer, examples(("it", "a film", None)), 67, 128, 64, False)


@pytest.mark.slow
def test_squad_s_own_answers_survive_the_way_through_tokens_and_back(minilm, monkeypatch):
    """What is lost are people's answers that end inside a number or a word, such as the 8 of 18."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import squad_gold_answers

    scores, rest = squad_gold_answers.compare(WordPieceTokenizer.from_directory(minilm), real_file("dev-v1.1.json"))
    assert scores["questions"]["exact"] >= 99.5 and scores["answers"]["exact"] >= 99.5
    assert scores["questions"]["total"] == 10_570 and scores["in_no_window"] == 0
    assert len(rest) == round(scores["answers"]["total"] * (1 - scores["answers"]["exact"] / 100))
    assert all(found["answer"] in found["recovered"] for found in rest)
