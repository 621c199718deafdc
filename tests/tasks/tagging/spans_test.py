"""Texts with character spans: our own form, the exports of Doccano and Label Studio; and the words that are tagged."""

import json

import pytest

from bert_tf.evaluation.entities import EntitySpan
from bert_tf.tasks.tagging.alignment import (
    answered_entities,
    changed_entities,
    find_changed_entities,
    refuse_changed_entities,
)
from bert_tf.tasks.tagging.columns import read_columns
from bert_tf.tasks.tagging.options import TaggingOptions
from bert_tf.tasks.tagging.task import TaggingTask
from bert_tf.tokenization.word_boundaries import find_boundaries, inner_span, word_spans

TEXT = "Joan  Baez sang in (Rome).\nThen Bonn"
WORDS = ["Joan", "Baez", "sang", "in", "(", "Rome", ")", ".", "Then", "Bonn"]
TAGS = ["B-PER", "I-PER", "O", "O", "O", "B-LOC", "O", "O", "O", "B-LOC"]
SPANS = [(0, 10, "PER"), (20, 24, "LOC"), (32, 36, "LOC")]


def studio(text, *regions, **annotation):
    """Returns a task as Label Studio exports it; `regions`: start, end, label, and the text if it has one."""
    results = [
        {"type": "labels", "from_name": "label", "to_name": "text",
         "value": {"start": start, "end": end, "labels": [kind], **({"text": quoted[0]} if quoted else {})}}
        for start, end, kind, *quoted in regions
    ]  # fmt: skip
    return {"id": 5, "data": {"text": text}, "annotations": [{"result": results, **annotation}], "predictions": []}


FORMS = {
    "ours": {"text": TEXT, "entities": [{"start": a, "end": b, "type": kind, "score": 0.9} for a, b, kind in SPANS]},
    "ours, quoted": {"text": TEXT, "entities": [{"start": a, "end": b, "type": kind, "text": TEXT[a:b]}
                                                for a, b, kind in SPANS]},
    "Doccano": {"id": 1, "text": TEXT, "label": [list(span) for span in SPANS[::-1]]},
    "Doccano, older": {"text": TEXT, "labels": [list(span) for span in SPANS]},
    "Doccano with relations": {"text": TEXT, "relations": [], "entities": [
        {"id": i, "label": kind, "start_offset": a, "end_offset": b} for i, (a, b, kind) in enumerate(SPANS)]},
    "Label Studio": studio(TEXT, *SPANS),
}  # fmt: skip


def write(path, *objects):
    if path.suffix == ".json":
        path.write_text(json.dumps(objects, ensure_ascii=False), encoding="utf-8")
    else:
        path.write_text("".join(json.dumps(each) + "\n" for each in objects), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
@pytest.mark.parametrize("form", FORMS)
def test_reads_every_form(tmp_path, name, form):
    examples = read_columns(write(tmp_path / name, FORMS[form]))
    assert examples.tags == [TAGS] and examples.scheme == "iob2"
    assert examples.words == [WORDS] and examples.entities == [[EntitySpan(t, a, b - 1) for a, b, t in SPANS]]
    text, spans = examples.text_of(0)
    assert text == TEXT and [TEXT[start:end] for start, end in spans] == WORDS
    assert not changed_entities(examples) and find_changed_entities(examples) is None
    undivided = read_columns(examples.path, boundaries="whitespace")
    assert undivided.words == [TEXT.split()] and not changed_entities(undivided)  # edges of words are not answered
    assert examples.where(0, 3) == f"{tmp_path}/a.jsonl:1" if name == "a.jsonl" else f"{tmp_path}/a.json: item 1"
    assert read_columns(examples.path, tag_column=None).words == examples.words


def test_texts_to_tag_need_no_entities(tmp_path):
    examples = read_columns(write(tmp_path / "a.jsonl", {"text": "a b"}, {"text": "c"}), tag_column=None)
    assert (examples.words, examples.tags, examples.ids) == ([["a", "b"], ["c"]], None, ["0", "1"])


def test_label_studio_counts_utf16_units_and_skips_what_is_not_annotated(tmp_path, caplog):
    text = "\U0001f4a9 This is\nan annotation."
    tasks = [
        studio(text, (14, 24, "X Y")),
        studio(text, (14, 24, "X", "annotation")),
        studio(text, (13, 23, "X", "annotation")),  # by a program that counts code points
        studio(text, (8, 13, "X", "is\\nan")),
        {**studio(text), "annotations": []},
        studio(text, was_cancelled=True),
    ]
    for i, task in enumerate(tasks):
        task["id"] = i
    tasks[0]["annotations"].append({"was_cancelled": True, "result": []})
    examples = read_columns(write(tmp_path / "a.json", *tasks))
    end = ["O", "O", "O", "O"]
    tags = [[*end, "B-X_Y", "O"], [*end, "B-X", "O"], [*end, "B-X", "O"], ["O", "O", "B-X", "I-X", "O", "O"]]
    assert examples.tags == tags
    assert examples.ids == list("0123") and "a.json: skipped 2 tasks without an annotation." in caplog.text


TEXTS = {  # text -> what words between punctuation are; a bar ends one
    "Paris-based, naïve U.S.A.": "Paris|-|based|,|naïve|U|.|S|.|A|.",
    "在北京 工作。": "在|北|京|工|作|。",
    "東京タワーは€5": "東|京|タ|ワ|ー|は|€|5",
    "서울에서 10mg": "서|울|에|서|10mg",
    "กรุงเทพ abc": "ก|รุ|ง|เ|ท|พ|abc",
    "e\u0301t中\u0301a \u0301x\u200by": "e\u0301t|中\u0301|a|\u0301x\u200by",
    "  \u00a0\u2028": "",
}


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_where_words_end(text):
    assert "|".join(text[start:end] for start, end in word_spans(text, "punctuation")) == TEXTS[text]
    each = [text[start:end] for start, end in word_spans(text, "characters")]
    assert "".join(each) == "".join(text.split()) and all(len(char) == 1 or char[1] in "\u0301\u200bุ" for char in each)
    assert [text[start:end] for start, end in word_spans(text)] == text.split()


def test_texts_are_divided_as_a_column_file_is():
    chinese = [list("在北京工作。"), ["我", "在", "NLP", "组", "，", "上", "海"]]
    assert find_boundaries(chinese) == "punctuation" and find_boundaries([["Rome", ",", "中"]] * 3) == "whitespace"
    assert find_boundaries([["北京", "工作", "在", "我"]] * 9) == find_boundaries([["."]]) == "whitespace"


def test_what_is_answered_of_a_word_between_spaces():
    words = {"Rome,": "Rome", "(U.S.)": "U.S.", "...": "...", "“a.b”": "a.b", "'": "'"}
    assert {word: word[slice(*inner_span(word, 0, len(word)))] for word in words} == words
    assert answered_entities("in (Rome).", ["O", "B-LOC"], "whitespace") == [EntitySpan("LOC", 4, 7)]
    tags = ["O", "B-LOC", "I-LOC", "O", "O"]
    assert answered_entities("in (Rome).", tags, "punctuation") == [EntitySpan("LOC", 3, 7)]


CUT = [
    {"text": "a Rome-based firm", "entities": [{"start": 2, "end": 6, "type": "LOC"}]},
    {"text": "Rome/Bonn, 10mg Aspirin ", "entities": [[0, 4, "LOC"], [5, 9, "LOC"], [11, 13, "NUM"], [16, 24, "DRUG"]]},
    {"text": "在北京和上海", "entities": [[1, 3, "LOC"], [4, 6, "ORG"]]},
    {"text": "one two", "entities": [[0, 3, "NUM"]]},
]


def test_entities_that_words_change_are_found(tmp_path):
    path = write(tmp_path / "a.jsonl", *CUT)
    examples = read_columns(path)
    assert examples.tags == [
        ["O", "B-LOC", "O", "O", "O"],
        ["B-LOC", "O", "B-LOC", "O", "B-NUM", "B-DRUG"],
        ["O", "B-LOC", "I-LOC", "O", "B-ORG", "I-ORG"],
        ["B-NUM", "O"],
    ]
    # Half a word, and a space at the end
    assert changed_entities(examples) == [(1, EntitySpan("NUM", 11, 12)), (1, EntitySpan("DRUG", 16, 23))]
    finding = find_changed_entities(examples)
    assert (finding.kind, finding.path, finding.count) == ("changed_entities", path, 2)
    assert finding.is_warning and finding.places == ("line 2",)
    assert "2 of 8 entities (25%) do not begin and end where words do and cannot be predicted exactly" in finding.what
    assert "such as NUM '10' in '10mg'; the scores count them as missed" in finding.what
    with pytest.raises(ValueError, match="a.jsonl:2: entities must begin and end where words do; got NUM '10' in "
                       "'10mg', and 2 of 8 entities .25%. that do not; correct the offsets, or "
                       "train with `word_boundaries=characters`"):  # fmt: skip
        refuse_changed_entities(examples)
    by_character = read_columns(path, boundaries="characters")
    assert [entity.type for _, entity in changed_entities(by_character)] == ["DRUG"]
    refuse_changed_entities(by_character)


def test_words_between_spaces_lose_a_type(tmp_path):
    whole = [{"text": "a b", "entities": [[0, 1, "A"]]}] * 20
    path = write(tmp_path / "a.jsonl", {"text": "在北京和上海", "entities": [[1, 3, "LOC"], [4, 6, "ORG"]]}, *whole)
    examples = read_columns(path, boundaries="whitespace")
    assert examples.tags[0] == ["B-LOC"] and len(changed_entities(examples)) == 2
    with pytest.raises(ValueError, match=r"2 of 22 entities \(9.1%\) that do not, so that the type 'ORG' would"):
        refuse_changed_entities(examples)
    options = TaggingOptions(train_file=path, eval_file=path, do_train=True)
    assert TaggingTask.read_data(options, ["train", "dev"], None).examples["dev"].words[0] == list("在北京和上海")


@pytest.mark.parametrize("given, words", [
    ({"text": "a", "tags": []}, r"a.jsonl:1: the entities are missing. Found the keys \['text', 'tags'\]; a line is"),
    ({"text": " ", "entities": []}, r"a.jsonl:1: the text must be a non-blank string"),
    ({"text": "ab", "entities": 1}, r"'entities' must be a list of entities; got 1"),
    ({"text": "ab", "entities": [[0, 1]]}, r"an entity must have a start, an end and a type; got \[0, 1\]"),
    ({"text": "ab", "entities": [[0, 3, "X"]]}, r"0 <= start < end <= 2, the length of the text.*\[0, 3, 'X'\]"),
    ({"text": "ab", "entities": [{"start": 0, "end": 1}]}, r"the type of an entity must be a string; got"),
    ({"text": "a \U0001f4a9 b", "entities": [{"start": 5, "end": 6, "type": "X"}]}, "<= 5, the length of the text"),
    ({"text": "a b", "entities": [{"start": 0, "end": 1, "type": "X", "text": "b"}]},
     r"the text of an entity must be at its offsets.*got 'b', but 'a' is at 0 to 1"),
    ({"text": "a b", "entities": [], "label": [[0, 1, "X"]]},
     r"a.jsonl:1: a line must have entities in one place; got 'entities' and 'label'; remove one of them"),
    ({"tokens": ["a"], "tags": ["O"], "text": "a", "spans": [{"start": 0}]}, "got 'tags' and 'spans'"),
    ({**studio("a b"), "label": "[(0, 1, 'X')]"}, "got 'data' and 'label'"),
    ({"text": "a b", "entities": [{"start": 0, "start_offset": 1, "end": 1, "type": "X"}]},
     "'start' and 'start_offset' of an entity mean the same; got {"),
    ({"text": "a b", "entities": [{"start": 0, "end": 1, "type": "X", "label": "Y"}]}, "'type' and 'label' of an"),
    ({"text": "a  b", "entities": [[1, 2, "X"]]}, r"must have a word; got only whitespace at 1 to 2"),
    ({"text": "a b c", "entities": [[0, 3, "X"], [2, 5, "Y"]]},
     r"a.jsonl:1: entities must not overlap; got X 'a b' at 0 to 3, and Y 'b c' at 2 to 5; remove one"),
    ({**studio("a b", (0, 1, "X")), "annotations": studio("a")["annotations"] * 2},
     r"must have one annotation; got 2; mark one of them as ground truth"),
    ({**studio("a b"), "data": {"q": "a", "r": "b"}}, r"the text of a task must be data.text"),
    (studio("a b", (0, 1, "X", "b")), r"the text of a region must be at its offsets; got 'b', but 'a'"),
    (studio("a", was_cancelled=True), r"no task has an annotation that was not skipped"),
])  # fmt: skip
def test_refuses_other_spans(tmp_path, given, words):
    with pytest.raises(ValueError, match=words):
        read_columns(write(tmp_path / "a.jsonl", given))


def test_what_is_said_twice_alike_is_read(tmp_path):
    line = {"text": "a b", "entities": [[0, 1, "X"]], "label": [[0, 1, "X"]], "labels": "positive", "spans": []}
    assert read_columns(write(tmp_path / "a.jsonl", line)).tags == [["B-X", "O"]]
    line = {"text": "a b", "spans": [{"start": 0, "start_offset": 0, "end": 1, "label": "X"}]}
    assert read_columns(write(tmp_path / "a.jsonl", line)).tags == [["B-X", "O"]]


def test_refuses_a_scheme_for_spans_and_json_that_is_no_list(tmp_path):
    with pytest.raises(ValueError, match="has character spans, which have no `tag_scheme`. Remove it"):
        read_columns(write(tmp_path / "a.jsonl", FORMS["ours"]), tag_scheme="bioes")
    (tmp_path / "b.json").write_text('{"text": "a"}')
    with pytest.raises(ValueError, match="b.json must be a list of objects in JSON; got {'text': 'a'}"):
        read_columns(tmp_path / "b.json")
    (tmp_path / "c.json").write_text('[{"text"')
    with pytest.raises(ValueError, match="c.json must be a list of objects in JSON. It cannot be parsed"):
        read_columns(tmp_path / "c.json")


def test_several_files_and_another_encoding(tmp_path):
    (tmp_path / "a.txt").write_bytes("Köln B-LOC\n".encode("cp1252"))
    (tmp_path / "b.txt").write_bytes("in O\nBonn B-LOC\n".encode("cp1252"))
    examples = read_columns(tmp_path / "?.txt", encoding="cp1252")
    assert examples.words == [["Köln"], ["in", "Bonn"]] and examples.where(1, 1) == f"{tmp_path}/b.txt:1"
    path = write(tmp_path / "c.jsonl", FORMS["ours"])
    with pytest.raises(ValueError, match="must have the same format"):
        read_columns(f"{tmp_path}/a.txt,{path}", encoding="cp1252")
