"""Files in SQuAD's format, of predictions and of no-answer odds are read, or refused."""

import pytest

from bert_tf.evaluation.squad_files import read_null_odds, read_predictions, read_references
from tests.evaluation.support import squad_json, write


@pytest.mark.parametrize(
    "questions, more, version_2",
    [
        ([("a", ["x"])], {}, False),
        ([("a", ["x"]), ("b", [])], {}, True),
        ([("a", ["x"])], {"is_impossible": False}, True),
    ],
)
def test_the_version_of_squad_is_read_from_the_file(tmp_path, questions, more, version_2):
    golds = read_references(write(tmp_path / "dev.json", squad_json(questions, **more)))
    assert golds.texts == dict(questions) and golds.version_2 is version_2


def test_impossible_questions_need_no_answers_and_an_id_may_be_a_number(tmp_path):
    content = squad_json([(7, ["x"]), ("b", [])], is_impossible=True)
    paragraph = content["data"][0]["paragraphs"][0]
    paragraph["qas"][0]["is_impossible"] = False
    del paragraph["qas"][1]["answers"]
    golds = read_references(write(tmp_path / "dev.json", content))
    assert golds.texts == {"7": ["x"], "b": []} and golds.version_2
    paragraph["qas"][1]["is_impossible"] = False
    with pytest.raises(ValueError, match=r"\(id 'b'\): .*'answers' is a list; got the keys"):
        read_references(write(tmp_path / "dev.json", content))


@pytest.mark.parametrize(
    "content, message",
    [
        ("{", r"dev\.json must be JSON in SQuAD's format; got '\{', which cannot be parsed \(.*\)\.$"),
        ({"dat": []}, r"dev\.json: .* 'data' is a list; got the keys \['dat'\]\.$"),
        ({"data": {"a": 1}}, r"requires an object in which 'data' is a list; got 'data': \{'a': 1\}"),
        ({"data": []}, r"dev\.json contains no questions"),
        (squad_json([("a", ["x"]), ("a", ["y"])]), r"qas\[1\] \(id 'a'\): .* The id is that of data\[0\].*qas\[0\]"),
        (squad_json([("7", ["x"]), (7, ["y"])]), r"qas\[1\] \(id '7'\): every question must have a unique id"),
        (squad_json([("a", ["x"]), ("b", [7])]), r"\(id 'b'\), answers\[0\]: .*'text' is a text; got 'text': 7"),
        (squad_json([("a", ["x"]), (["b"], [])]), r"qas\[1\]: .*'id' is a text; got 'id': \['b'\]\.$"),
    ],
)
def test_refuses_files_that_are_not_squad_s(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        read_references(write(tmp_path / "dev.json", content))


@pytest.mark.parametrize(
    "read, content, message",
    [
        (read_predictions, [],
         r"must be one JSON object, keyed by question id; got list; pass a file such as predictions\.json\."),
        (read_predictions, {"q": None}, r"every value must be a text; got None for 'q'; check that this is the right"),
        (read_null_odds, {"q": "1"}, r"must be a finite number; got '1' for 'q'"),
        (read_null_odds, '{"q": NaN}', r"must be a finite number; got nan for 'q'"),
    ],
)
def test_refuses_files_that_hold_no_predictions(tmp_path, read, content, message):
    with pytest.raises(ValueError, match=message):
        read(write(tmp_path / "file.json", content))
