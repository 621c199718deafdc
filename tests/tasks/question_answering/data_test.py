"""SQuAD's files read and encoded; answers merged from windows, and Google's files of them."""

import gzip
import json
import math
import os
import pathlib

import numpy as np
import pytest

from bert_tf.data.ragged import Ragged
from bert_tf.evaluation.squad import Golds
from bert_tf.tasks.question_answering import data as squad_data
from bert_tf.tasks.question_answering.data import (
    AnswerSpan,
    QuestionAnswers,
    QuestionOrigin,
    SquadExamples,
    encode_squad,
    merge_windows,
    read_squad,
    write_squad_predictions,
)
from bert_tf.tokenization.wordpiece import Tokenizer
from tests import tiny
from tests.conftest import ROOT

# === Files ===


def real_file(name) -> pathlib.Path:
    """A file of SQuAD 1.1, or a skip that says why."""
    folder = pathlib.Path(os.environ.get("BERT_TF_DATA") or pathlib.Path.home() / ".cache" / "bert_tf_data")
    if not (folder / "squad" / name).is_file():
        pytest.skip(f"{folder} holds no squad/{name}; BERT_TF_DATA names the folder that does")
    return folder / "squad" / name


def question(name="q", text="Who?", answers=(("Ada", 0),), **more):
    return {"id": name, "question": text, "answers": [{"text": t, "answer_start": s} for t, s in answers], **more}


def squad_file(folder, *questions, context="Ada met Ada.", name="squad.json"):
    """Writes a file of one paragraph for every list of questions; the paragraphs are in articles of their own."""
    paragraphs = [[q] if isinstance(q, dict) else q for q in questions]
    data = [{"title": "t", "paragraphs": [{"context": context, "qas": qas}]} for qas in paragraphs]
    (folder / name).write_text(json.dumps({"version": "1.1", "data": data}), encoding="utf-8")
    return folder / name


def test_questions_in_the_order_of_the_file(tmp_path):
    path = squad_file(tmp_path, [question("a"), question("b", "Whom?", [("Ada", 8), ("met Ada", 4)])], question("c"))
    examples = read_squad(path, with_answers=True)
    assert len(examples) == 3 and examples.ids == ["a", "b", "c"] and examples.questions == ["Who?", "Whom?", "Who?"]
    assert examples.answers == [[("Ada", 0)], [("Ada", 8), ("met Ada", 4)], [("Ada", 0)]]
    assert examples.contexts == ["Ada met Ada."] * 3 and examples.is_impossible == [False] * 3
    assert examples.where(1) == f"{path}: data[0].paragraphs[0].qas[1] (id 'b')"
    assert examples.where(2) == f"{path}: data[1].paragraphs[0].qas[0] (id 'c')"


def test_version_2_and_gzip(tmp_path):
    plausible = [{"text": "Ada", "answer_start": 0}]
    impossible = question("b", answers=[], is_impossible=True, plausible_answers=plausible)
    path = squad_file(tmp_path, [question("a", is_impossible=False), impossible])
    (tmp_path / "squad.json.gz").write_bytes(gzip.compress(path.read_bytes()))
    examples = read_squad(tmp_path / "squad.json.gz", with_answers=True)
    assert examples.is_impossible == [False, True] and examples.answers == [[("Ada", 0)], []]


def test_what_is_impossible_needs_no_answers_and_an_id_may_be_a_number(tmp_path):
    impossible = {"id": "b", "question": "Whom?", "is_impossible": True}
    path = squad_file(tmp_path, [question(7, is_impossible=False), impossible])
    examples = read_squad(path, with_answers=True)
    assert examples.ids == ["7", "b"] and examples.is_impossible == [False, True]
    assert examples.golds == Golds({"7": ["Ada"], "b": []}, True, str(path))
    assert read_squad(path, with_answers=False).golds == examples.golds


def test_what_is_scored_by_is_what_was_read(tmp_path):
    path = squad_file(tmp_path, [question("a", answers=[("met", 4), ("Ada", 8)])])
    assert read_squad(path, with_answers=False).golds == Golds({"a": ["met", "Ada"]}, False, str(path))
    path = squad_file(tmp_path, [question("a"), {"id": "b", "question": "Who?"}])
    assert read_squad(path, with_answers=False).golds is None


def test_a_file_to_predict_needs_no_answers_and_they_are_not_looked_at(tmp_path):
    bare = {"id": "a", "question": "Who?"}
    wrong = question("b", answers=[("Bob", 99)])
    examples = read_squad(squad_file(tmp_path, [bare, wrong]), with_answers=False)
    assert examples.answers == [[], []] and examples.is_impossible == [False, False]


def test_offsets_count_code_points_and_half_an_emoji_keeps_its_place(tmp_path):
    context = "\U0001f600 e\u0301\ud83d Zürich"
    path = squad_file(tmp_path, question(answers=[("Zürich", 6)]), context=context)
    examples = read_squad(path, with_answers=True)
    assert examples.contexts == ["\U0001f600 e\u0301\ufffd Zürich"]
    assert examples.contexts[0][6:] == "Zürich"


AT = r"^.*squad\.json: data\[0\]\.paragraphs\[0\]\.qas\[0\] \(id 'q'\)"


@pytest.mark.parametrize(
    "questions, message",
    [
        ([question(answers=[("Ada", 3)])], AT + r", answers\[0\]: the context must contain the answer at answer_start, "
         r"counted in .* from 0\. Received answer_start 3 for 'Ada', but there the context has ' me'; it occurs at 0, 8"
         r": correct answer_start\.$"),
        ([question(answers=[("Bob", 3)])], AT + r".*; it does not occur in the context: correct the text, or remove"),
        ([question(answers=[("Ada", -4)])], AT + r".*Received answer_start -4"),
        ([question(answers=[("Ada", 99)])], AT + r".*, but there the context has ''; it occurs at 0, 8"),
        ([question(answers=[(" ", 3)])], AT + r", answers\[0\]: .* must not be blank\. Received ' '; correct"),
        ([question(answers=[("Ada", True)])], AT + r".*is a whole number\. Received 'answer_start': True"),
        ([question(answers=[])], AT + r": a question must either have an answer, or be marked with is_impossible: "
         r"true\. Received 0 answers and is_impossible: false; correct the question"),
        ([question(is_impossible=True)], AT + r".*Received 1 answers and is_impossible: true"),
        ([question(is_impossible="no")], AT + r".*'is_impossible' is true or false\. Received 'is_impossible': 'no'"),
        ([question("p"), question("q"), [question("r"), question("p")]], r"data\[2\]\.paragraphs\[0\]\.qas\[1\] \(id "
         r"'p'\): every question must have a unique id\. The id is that of data\[0\]\.paragraphs\[0\]\.qas\[0\]; "
         r"change one"),
        ([{"id": "q", "question": "Who?"}], AT + r".*'answers' is a list\. Received the keys \['id', 'question'\]"),
        ([{"id": 7.5, "question": "Who?"}], r"qas\[0\]: .*'id' is a text\. Received 'id': 7\.5; correct"),
        ([["q"]], r"qas\[0\]: SQuAD's format requires an object .*Received 'q'; correct"),
        ([[]], r"squad\.json contains no questions"),
    ],
)  # fmt: skip
def test_a_wrong_question_is_named_with_its_place_and_the_remedy(tmp_path, questions, message):
    with pytest.raises(ValueError, match=message):
        read_squad(squad_file(tmp_path, *questions), with_answers=True)


@pytest.mark.parametrize(
    "text, message",
    [
        ("id\ttext\n", r"squad\.json must be JSON in SQuAD's format\. Received 'id\\ttext\\n', which cannot be parsed"),
        ("[1]", r"squad\.json: SQuAD's format requires an object .*'data' is a list\. Received \[1\]; correct"),
        ('{"data": [{}]}', r"squad\.json: data\[0\]: .*'paragraphs' is a list\. Received the keys \[\]"),
        ('{"data": [{"paragraphs": [{"qas": [{"id": "q"}]}]}]}', r"data\[0\]\.paragraphs\[0\]: .*'context' is a text"),
    ],
)
@pytest.mark.parametrize("with_answers", [True, False])
def test_what_is_no_file_of_squad_s(tmp_path, text, message, with_answers):
    (tmp_path / "squad.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_squad(tmp_path / "squad.json", with_answers)


@pytest.mark.parametrize("name, questions", [
    ("dev-v1.1.json", 10_570), pytest.param("train-v1.1.json", 87_599, marks=pytest.mark.slow),
])  # fmt: skip
def test_squad_itself_is_read_whole(name, questions):
    examples = read_squad(real_file(name), with_answers=True)
    assert len(examples) == questions and all(examples.answers)


# === Encoding ===


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(list(tiny.VOCAB))


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
    monkeypatch.setattr(squad_data, "_CHUNK", 7)
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

    scores, rest = squad_gold_answers.compare(Tokenizer.from_directory(minilm), real_file("dev-v1.1.json"))
    assert scores["questions"]["exact"] >= 99.5 and scores["answers"]["exact"] >= 99.5
    assert scores["questions"]["total"] == 10_570 and scores["in_no_window"] == 0
    assert len(rest) == round(scores["answers"]["total"] * (1 - scores["answers"]["exact"] / 100))
    assert all(found["answer"] in found["recovered"] for found in rest)


# === Answers ===


CONTEXT = "Zo\u00eb met \U0001f600 Ada, Ada!"  # Zoë 0-3, met 4-7, the emoji 8-9, Ada 10-13 and 15-18
WORDS = [(0, 3), (4, 7), (8, 9), (10, 13), (13, 14), (15, 18), (18, 19)]
NONE = (-math.inf, 0, 0)


def origin_of(*windows):
    """Returns rows `[CLS] q [SEP] words [SEP]` of (question, first word, end): word i is in column i - first + 3."""
    spans = [[(-1, -1)] * 3 + WORDS[first:end] + [(-1, -1)] for _, first, end in windows]
    starts, ends = (np.array([span[side] for row in spans for span in row], np.int32) for side in (0, 1))
    lengths = [len(row) for row in spans]
    example = np.array([question for question, _, _ in windows])
    return QuestionOrigin(example, Ragged.of_lengths(starts, lengths), Ragged.of_lengths(ends, lengths))


def contexts_alone(contexts):
    names, none = [f"q{i}" for i in range(len(contexts))], [[] for _ in contexts]
    return SquadExamples(names, ["?"] * len(names), contexts, none, [False] * len(names), "f", [(0, 0, 0)] * len(names))


def collected(spans, nulls):
    """Returns what a task keeps: of each row [(score, start, end)], and its null score."""
    score, start, end = (np.array([[span[i] for span in row] for row in spans]) for i in range(3))
    half = np.where(np.isfinite(score), score, 0).astype(np.float32) / 2
    null = np.array(nulls, np.float32)
    return {
        **{"score": score.astype(np.float32), "start": start.astype(np.int32), "end": end.astype(np.int32)},
        **{"start_logit": half - 1, "end_logit": half + 1},
        **{"null_start_logit": null - 0.5, "null_end_logit": np.full_like(null, 0.5)},
    }


ORIGIN = origin_of((0, 0, 4), (0, 2, 7), (1, 0, 7))
KEPT = collected(
    [[(4.0, 3, 3), (1.0, 4, 6)], [(6.0, 4, 4), (5.0, 6, 6)], [(2.0, 5, 6), NONE]],
    [1.0, -1.0, 9.0],
)  # of question 0: Zoë 4, "met ... Ada" 1, Ada 6, Ada 5; of question 1: the emoji and Ada 2


def test_the_windows_of_a_question_together():
    first, second = merge_windows(ORIGIN, contexts_alone([CONTEXT] * 2), KEPT, 20)
    assert [(a.text, a.start, a.end, a.score) for a in first.n_best] == [
        ("Ada", 10, 13, 6.0), ("Zo\u00eb", 0, 3, 4.0), ("met \U0001f600 Ada", 4, 13, 1.0)]  # fmt: skip
    assert [(a.text, a.start_logit, a.end_logit) for a in second.n_best] == [("\U0001f600 Ada", 0.0, 2.0)]
    assert all(CONTEXT[a.start : a.end] == a.text for a in first.n_best + second.n_best)
    assert (first.null_score, second.null_score) == (-1.0, 9.0)  # the least of the windows
    assert (first.null_odds, second.null_odds) == (-7.0, 7.0)


def test_probabilities_are_a_softmax_over_the_n_best():
    best = merge_windows(ORIGIN, contexts_alone([CONTEXT] * 2), KEPT, 2)[0].n_best
    assert [a.probability for a in best] == pytest.approx([1 / (1 + math.exp(-2)), 1 / (1 + math.exp(2))])


def test_no_answer_takes_part_in_its_place_or_behind():
    first, second = merge_windows(ORIGIN, contexts_alone([CONTEXT] * 2), KEPT, 3, with_null=True)
    assert [a.text for a in first.n_best] == ["Ada", "Zo\u00eb", "met \U0001f600 Ada", ""]  # one more than n_best_size
    assert [a.text for a in second.n_best] == ["", "\U0001f600 Ada"]
    assert (second.n_best[0].start_logit, second.n_best[0].end_logit) == (8.5, 0.5)
    assert second.n_best[1].probability == pytest.approx(1 / (1 + math.exp(7)))
    assert (second.best.text, second.null_odds) == ("\U0001f600 Ada", 7.0)
    only = merge_windows(ORIGIN, contexts_alone([CONTEXT] * 2), KEPT, 1, with_null=True)[1]
    assert [a.text for a in only.n_best] == ["", "\U0001f600 Ada"]  # a span is left, however few are asked for


def test_no_answer_by_the_threshold():
    second = merge_windows(ORIGIN, contexts_alone([CONTEXT] * 2), KEPT, 20, with_null=True)[1]
    assert [second.text(t) for t in (None, 7.0, 6.9)] == ["\U0001f600 Ada", "\U0001f600 Ada", ""]


@pytest.mark.parametrize("with_null", [False, True])
def test_a_context_without_pieces_has_the_empty_answer(with_null):
    kept = collected([[NONE, NONE]], [1.5])
    (answers,) = merge_windows(origin_of((0, 0, 0)), contexts_alone([""]), kept, 20, with_null)
    assert [(a.text, a.start, a.end, a.probability) for a in answers.n_best] == [("", 0, 0, 1.0)]
    assert answers.text(None) == answers.text(9.0) == "" and answers.null_odds == 1.5


def test_odds_are_what_float32_has_as_in_an_exported_model():
    answers = QuestionAnswers([AnswerSpan("b", 0, 1, float(np.float32(0.1)), 0.1, 0.0)], float(np.float32(7.3)))
    assert answers.null_odds == float(np.float32(7.3) - np.float32(0.1)) != answers.null_score - answers.best.score


def test_files_are_google_s(tmp_path):
    said = [QuestionAnswers([AnswerSpan("\u00eb", 1, 2, 3.0, 1.0, 2.0, 0.75), AnswerSpan("", 0, 0, 0.75, 0.5, 0.25,
        0.25)], 0.75),
            QuestionAnswers([AnswerSpan("b", 0, 1, 0.0, 0.0, 0.0)], 4.0)]  # fmt: skip
    write_squad_predictions(tmp_path, contexts_alone(["", ""]), said, 3.5)
    assert (tmp_path / "predictions.json").read_text() == '{\n    "q0": "\\u00eb",\n    "q1": ""\n}\n'
    assert (tmp_path / "null_odds.json").read_text() == '{\n    "q0": -2.25,\n    "q1": 4.0\n}\n'
    best = json.loads((tmp_path / "nbest_predictions.json").read_text())
    assert [list(answer.items()) for answer in best["q0"]] == [
        [("text", "\u00eb"), ("probability", 0.75), ("start_logit", 1.0), ("end_logit", 2.0)],
        [("text", ""), ("probability", 0.25), ("start_logit", 0.5), ("end_logit", 0.25)],
    ]
    assert [answer["text"] for answer in best["q1"]] == ["b"]


def test_without_a_threshold_every_question_has_an_answer_and_there_are_no_odds(tmp_path):
    write_squad_predictions(
        tmp_path, contexts_alone([""]), [QuestionAnswers([AnswerSpan("b", 0, 1, 0.0, 0.0, 0.0)], 4.0)]
    )
    assert json.loads((tmp_path / "predictions.json").read_text()) == {"q0": "b"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["nbest_predictions.json", "predictions.json"]
