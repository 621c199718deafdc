"""SQuAD's files are read, and wrong ones are refused with the place of the mistake."""

import gzip
import json

import pytest

from bert_tf.evaluation.squad_files import References
from bert_tf.tasks.question_answering.data import read_squad
from tests.tasks.question_answering.support import real_file


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
    assert examples.golds == References({"7": ["Ada"], "b": []}, True, str(path))
    assert read_squad(path, with_answers=False).golds == examples.golds


def test_what_is_scored_by_is_what_was_read(tmp_path):
    path = squad_file(tmp_path, [question("a", answers=[("met", 4), ("Ada", 8)])])
    assert read_squad(path, with_answers=False).golds == References({"a": ["met", "Ada"]}, False, str(path))
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
         r"counted in .* from 0; got answer_start 3 for 'Ada', where the context has ' me'; it occurs at 0, 8"
         r": correct answer_start\.$"),
        ([question(answers=[("Bob", 3)])], AT + r".*; it does not occur in the context: correct the text, or remove"),
        ([question(answers=[("Ada", -4)])], AT + r".*got answer_start -4"),
        ([question(answers=[("Ada", 99)])], AT + r".*, where the context has ''; it occurs at 0, 8"),
        ([question(answers=[(" ", 3)])], AT + r", answers\[0\]: .* must not be blank; got ' '\.$"),
        ([question(answers=[("Ada", True)])], AT + r".*is a whole number; got 'answer_start': True"),
        ([question(answers=[])], AT + r": a question must either have an answer, or be marked with is_impossible: "
         r"true; got 0 answers and is_impossible: false\.$"),
        ([question(is_impossible=True)], AT + r".*got 1 answers and is_impossible: true"),
        ([question(is_impossible="no")], AT + r".*'is_impossible' is true or false; got 'is_impossible': 'no'"),
        ([question("p"), question("q"), [question("r"), question("p")]], r"data\[2\]\.paragraphs\[0\]\.qas\[1\] \(id "
         r"'p'\): every question must have a unique id\. The id is that of data\[0\]\.paragraphs\[0\]\.qas\[0\]; "
         r"change one"),
        ([{"id": "q", "question": "Who?"}], AT + r".*'answers' is a list; got the keys \['id', 'question'\]"),
        ([{"id": 7.5, "question": "Who?"}], r"qas\[0\]: .*'id' is a text; got 'id': 7\.5\.$"),
        ([["q"]], r"qas\[0\]: SQuAD's format requires an object .*got 'q'\.$"),
        ([[]], r"squad\.json contains no questions"),
    ],
)  # fmt: skip
def test_a_wrong_question_is_named_with_its_place_and_the_remedy(tmp_path, questions, message):
    with pytest.raises(ValueError, match=message):
        read_squad(squad_file(tmp_path, *questions), with_answers=True)


@pytest.mark.parametrize(
    "text, message",
    [
        ("id\ttext\n", r"squad\.json must be JSON in SQuAD's format; got 'id\\ttext\\n', which cannot be parsed"),
        ("[1]", r"squad\.json: SQuAD's format requires an object .*'data' is a list; got \[1\]\.$"),
        ('{"data": [{}]}', r"squad\.json: data\[0\]: .*'paragraphs' is a list; got the keys \[\]"),
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
