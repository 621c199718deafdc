"""Texts with character spans: our own form, and the exports of Doccano and Label Studio."""

import json
import logging

import pytest

from bert_tf.tasks.tagging_columns import read_columns

TEXT = "Joan  Baez sang in (Rome).\nThen Bonn"
TAGS = ["B-PER", "I-PER", "O", "O", "B-LOC", "O", "B-LOC"]
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
def test_reads_every_form(tmp_path, name, form, caplog):
    examples = read_columns(write(tmp_path / name, FORMS[form]))
    assert examples.tags == [TAGS] and examples.scheme == "iob2"
    assert examples.words == [["Joan", "Baez", "sang", "in", "(Rome).", "Then", "Bonn"]]
    assert examples.text_of(0) == (TEXT, [(0, 4), (6, 10), (11, 15), (16, 18), (19, 26), (27, 31), (32, 36)])
    assert examples.where(0, 3) == f"{tmp_path}/a.jsonl:1" if name == "a.jsonl" else f"{tmp_path}/a.json: item 1"
    assert not caplog.records
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
    assert examples.tags == [[*end, "B-X_Y"], [*end, "B-X"], [*end, "B-X"], ["O", "O", "B-X", "I-X", "O"]]
    assert examples.ids == list("0123") and "a.json: skipped 2 tasks without an annotation." in caplog.text


def test_an_entity_that_cuts_a_word_is_widened_and_counted(tmp_path, caplog):
    lines = [
        {"text": "a Rome-based firm", "entities": [{"start": 2, "end": 6, "type": "LOC"}]},
        {"text": "Rome/Bonn", "entities": [[0, 4, "LOC"], [5, 9, "LOC"]]},
    ]
    with caplog.at_level(logging.WARNING):
        examples = read_columns(write(tmp_path / "a.jsonl", *lines))
    assert examples.tags == [["O", "B-LOC", "O"], ["B-LOC"]]
    cut, lost = (record.getMessage() for record in caplog.records)
    assert "2 of 3 entities begin or end inside a word and were extended to the whole word, first at " in cut
    assert f"{tmp_path}/a.jsonl:1: 'Rome' in 'Rome-based'." in cut
    assert "1 of 3 entities begins or ends inside a word of an earlier entity and was left out, first at" in lost
    assert f"{tmp_path}/a.jsonl:2: 'Bonn' in 'Rome/Bonn'." in lost


@pytest.mark.parametrize("given, words", [
    ({"text": "a", "tags": []}, r"a.jsonl:1: the entities are missing. Found the keys \['text', 'tags'\]; a line is"),
    ({"text": " ", "entities": []}, r"a.jsonl:1: a text must be a string that is not blank"),
    ({"text": "ab", "entities": 1}, r"'entities' must be a list of entities. Received: 1"),
    ({"text": "ab", "entities": [[0, 1]]}, r"an entity must have a start, an end and a type. Received: \[0, 1\]"),
    ({"text": "ab", "entities": [[0, 3, "X"]]}, r"0 <= start < end <= 2, the length of the text.*\[0, 3, 'X'\]"),
    ({"text": "ab", "entities": [{"start": 0, "end": 1}]}, r"the type of an entity must be a text"),
    ({"text": "a \U0001f4a9 b", "entities": [{"start": 5, "end": 6, "type": "X"}]}, "<= 5, the length of the text"),
    ({"text": "a b", "entities": [{"start": 0, "end": 1, "type": "X", "text": "b"}]},
     r"the text of an entity must be at its offsets.*Received 'b', but 'a' is at 0 to 1"),
    ({"text": "a  b", "entities": [[1, 2, "X"]]}, r"must have a word. Received only white space at 1 to 2"),
    ({"text": "a b c", "entities": [[0, 3, "X"], [2, 5, "Y"]]},
     r"a.jsonl:1: entities must not overlap. Received X 'a b' at 0 to 3, and Y 'b c' at 2 to 5; remove one"),
    ({**studio("a b", (0, 1, "X")), "annotations": studio("a")["annotations"] * 2},
     r"must have one annotation. Received 2; mark one of them as ground truth"),
    ({**studio("a b"), "data": {"q": "a", "r": "b"}}, r"the text of a task must be data.text"),
    (studio("a b", (0, 1, "X", "b")), r"the text of a region must be at its offsets. Received 'b', but 'a'"),
    (studio("a", was_cancelled=True), r"no task has an annotation that was not skipped"),
])  # fmt: skip
def test_refuses_other_spans(tmp_path, given, words):
    with pytest.raises(ValueError, match=words):
        read_columns(write(tmp_path / "a.jsonl", given))


def test_refuses_a_scheme_for_spans_and_json_that_is_no_list(tmp_path):
    with pytest.raises(ValueError, match="has character spans, which have no `tag_scheme`. Remove it"):
        read_columns(write(tmp_path / "a.jsonl", FORMS["ours"]), tag_scheme="bioes")
    (tmp_path / "b.json").write_text('{"text": "a"}')
    with pytest.raises(ValueError, match="b.json must be a list of objects in JSON. Received: {'text': 'a'}"):
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
