"""Sentences of words and tags: what is read of column files and .jsonl, what is refused, and what is written."""

import gzip
import json
import logging
import os
import pathlib
import subprocess
import sys

import pytest

from bert_tf.evaluation.entities import parse_entities, tags_of
from bert_tf.tasks.tagging.columns import TaggedExamples, read_columns, text_of, write_columns

CONLL = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O
German JJ I-NP I-MISC

Rome NNP I-NP I-LOC
Bonn NNP I-NP B-LOC
"""
WORDS = [["EU", "rejects", "German"], ["Rome", "Bonn"]]
TAGS = [["B-ORG", "O", "B-MISC"], ["B-LOC", "B-LOC"]]


def write(folder, text, name="train.txt"):
    path = folder / name
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return str(path)


def write_jsonl(folder, *objects, name="a.jsonl"):
    return write(folder, "".join(json.dumps(each) + "\n" for each in objects), name)


@pytest.mark.parametrize("name", ["train.txt", "eng.testa", "a.conll.gz", "noextension"])
def test_columns(tmp_path, name):
    path = write(tmp_path, CONLL, name)
    examples = read_columns(path)
    assert examples == TaggedExamples(["0", "1"], WORDS, TAGS, "iob1", path, [3, 7])
    assert len(examples) == 2 and examples.where(1) == f"{path}:7" and examples.where(1, 1) == f"{path}:8"


@pytest.mark.parametrize("name", ["a.jsonl", "A.JSONL.gz"])
def test_jsonl(tmp_path, name):
    rows = [{"tokens": words, "tags": tags, "more": 1} for words, tags in zip(WORDS, TAGS, strict=True)]
    path = write_jsonl(tmp_path, *rows, name=name)
    examples = read_columns(path)
    assert examples == TaggedExamples(["0", "1"], WORDS, TAGS, "iob2", path, [1, 2])
    assert examples.where(1, 1) == f"{path}:2"


def test_words_alone(tmp_path):
    words = [["L-X", "b"], ["c"]]
    single = read_columns(write(tmp_path, "L-X\nb\n\nc\n"), tag_column=None)
    assert (single.words, single.tags, single.scheme, single.lines) == (words, None, None, [1, 4])
    several = read_columns(write(tmp_path, "1 L-X ?\n2 b ?\n\n1 c L-Y"), text_column=1, tag_column=None)
    assert (several.words, several.tags) == (words, None)
    path = write_jsonl(tmp_path, {"tokens": ["L-X", "b"]}, {"tokens": ["c"], "tags": "whatever"})
    assert (read_columns(path, tag_column=None).words, read_columns(path, tag_column=None).tags) == (words, None)


def test_columns_by_index(tmp_path):
    path = write(tmp_path, "B-x 1 Rome O\nO 2 is B-y\n")
    assert read_columns(path, 2, 0).tags == [["B-x", "O"]] and read_columns(path, -2, -1).tags == [["O", "B-y"]]
    assert read_columns(path, -2, 0).words == read_columns(path, 2, 3).words == [["Rome", "is"]]


def test_only_spaces_tabs_and_line_feeds_part(tmp_path):
    words = ["10\u00a0000", "a\u2028b", "x\x85y", "#", "\u3000z", "\U0001f600\u200d", '"', "-DOCSTART-s", "e\u0301"]
    ends = ["\n", "\r\n"] * 4 + ["\r\n"]
    text = "\ufeff" + "".join(f"{word} \t O  {end}" for word, end in zip(words, ends, strict=True))
    assert read_columns(write(tmp_path, text + "\t \r\n\n \nlast\tB\n")).words == [words, ["last"]]


GERMEVAL = "#\thttp://de.wikipedia.org/x\t[2009-10-17]\n1\tIn\tO\tO\n2\tBonn\tB-LOC\tO\n\n#\turl\t[x]\n1\t#\tO\tO\n"
CONLLU = """# sent_id = 1
# text = Le 10 000 du village est a b c d
1\tLe\tle\tDET\t_\t_\t2\tdet\t_\tO
2\t10 000\t10 000\tNUM\t_\t_\t0\troot\t_\tB-NUM
3-4\tdu\t_\t_\t_\t_\t_\t_\t_\t_
3\tde\tde\tADP\t_\t_\t5\tcase\t_\tO
4\tle\tle\tDET\t_\t_\t5\tdet\t_\tO
4.1\tgap\t_\t_\t_\t_\t_\t_\t_\t_

# newpar
1\t#\t#\tSYM\t_\t_\t0\troot\t_\tO
"""


def test_comments_are_no_words(tmp_path, caplog):
    with caplog.at_level("INFO"):
        read = read_columns(write(tmp_path, GERMEVAL), text_column=1, tag_column=2)
    assert (read.words, read.tags, read.lines) == ([["In", "Bonn"], ["#"]], [["O", "B-LOC"], ["O"]], [2, 6])
    assert f"{tmp_path}/train.txt: skipped 2 comments, the first in line 1." in caplog.text
    read = read_columns(write(tmp_path, CONLLU), text_column=1)
    assert read.words == [["Le", "10 000", "de", "le"], ["#"]] and read.tags[0] == ["O", "B-NUM", "O", "O"]
    read = read_columns(write(tmp_path, "#begin document (a); part 000\n# O\n#tag B-X\n\n# O\n\n#end document\n"))
    assert read.words == [["#", "#tag"], ["#"]]
    for text, words in (
        (GERMEVAL, "train.txt:2: words must not be indexes; got 1, 2, ... in every sentence; set `text_column`"),
        ("#tag\na O\n", "train.txt:1: words and tags must be in different columns; got .'#tag'."),
        ("# a comment\na O\n# b c\n", "train.txt:3: a word's line must have 2 columns, like line 2"),
    ):
        with pytest.raises(ValueError, match=words):
            read_columns(write(tmp_path, text))


def test_a_document_ends_a_sentence(tmp_path):
    path = write(tmp_path, "a O\n-DOCSTART-\nb O\n-DOCSTART- -X- O O\n\n\n-DOCSTART- O\n\nc O")
    assert read_columns(path).words == [["a"], ["b"], ["c"]] and read_columns(path).lines == [1, 3, 9]


SCHEMES = {
    "iob1": "a I-P\nb I-P\nc B-P\n\nd I-L\n",
    "iob2": "a B-P\nb I-P\nc B-P\n\nd B-L\n",
    "bioes": "a B-P\nb E-P\nc S-P\n\nd S-L\n",
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_becomes_iob2(tmp_path, scheme):
    path = write(tmp_path, SCHEMES[scheme])
    for examples in read_columns(path), read_columns(path, tag_scheme=scheme):
        assert examples.tags == [["B-P", "I-P", "B-P"], ["B-L"]] and examples.scheme == scheme
    lines = "\n\n".join(
        "\n".join(map(" ".join, zip(words, tags_of(parse_entities(tags), len(tags), scheme), strict=True)))
        for words, tags in zip(examples.words, examples.tags, strict=True)
    )
    assert lines + "\n" == SCHEMES[scheme]


def test_tags_without_types(tmp_path):
    assert read_columns(write(tmp_path, "a B\nb I\nc O\n")).tags == [["B", "I", "O"]]


def test_auto_says_where_tags_do_not_keep_to_what_it_found(tmp_path, caplog):
    path = write(tmp_path, "a O\nb I-P\n\nc O\nd B-P\ne I-L\n")
    with caplog.at_level(logging.WARNING, logger="absl"):
        examples = read_columns(path)
    assert examples.tags == [["O", "B-P"], ["O", "B-P", "B-L"]] and examples.scheme == "iob1"
    assert f"{path}:5: sentences whose tags do not follow iob1: 1, first 'B-P', which must follow" in caplog.text


def test_a_b_too_many_is_no_error_in_iob1(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, logger="absl"):
        examples = read_columns(write(tmp_path, "a O\nb B-P\nc I-P\n"), tag_scheme="iob1")
    assert examples.tags == [["O", "B-P", "I-P"]]
    assert ":2: sentences whose tags do not follow iob1: 1, first 'B-P', which must follow" in caplog.text


def test_files_that_keep_to_a_scheme_say_nothing(tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="absl"):
        for scheme, text in SCHEMES.items():
            read_columns(write(tmp_path, text), tag_scheme=scheme)
            read_columns(write(tmp_path, text))
    assert not caplog.records


def test_ids_of_jsonl(tmp_path):
    def ids(*rows):
        return read_columns(write_jsonl(tmp_path, *({"tokens": ["a"], **row} for row in rows)), tag_column=None).ids

    assert ids({"id": "x"}, {"id": 7}) == ["x", "7"]
    assert ids({"id": "x"}, {}) == ids({}, {"id": "x"}) == ids({}, {"id": None}) == ["0", "1"]


def test_half_an_emoji_is_no_text(tmp_path):
    path = write(tmp_path, '{"tokens": ["a\\ud83d", "\\ud83d\\ude00"], "tags": ["O", "O"]}\n', "a.jsonl")
    assert read_columns(path).words == [["a\ufffd", "\U0001f600"]]


JSONL, NO_TAGS = "a.jsonl", {"tag_column": None}
BAD = {
    "ragged": ("train.txt", "a b O\n\nc O\n", {}, r"train\.txt:3: a word's line must have 3 columns, like line 1, .*"
               r"got 2: \['c', 'O'\]\.$"),
    "ragged after a document": ("a", "-DOCSTART- O O O\n\na O\nb x O\n", {}, r"a:4: .* 2 columns, like line 3.* 3: "),
    "no such text": ("a", "\na O\n", {"text_column": 2}, r"a:2: missing column 2 \(`text_column`\)\. "
                     r"Found 2 columns, \['a', 'O'\]; choose one of 0 to 1"),
    "no such tag": ("a", "a O\n", {"tag_column": -3}, r"a:1: missing column -3 \(`tag_column`\)"),
    "one column": ("a", "a\nb\n", {}, r"a:1: words and tags must be in different columns; got \['a'\], where "
                   r"both are in column 0; .* `text_column` and `tag_column` to .*, or read only words"),
    "same column": ("a", "a O\n", {"text_column": 1}, r"a:1: words and tags must be in different columns"),
    "empty": ("a.txt", "", {}, r"a\.txt contains no sentences\. Check"),
    "blank": ("a.txt", "\n \t\r\n-DOCSTART- O\n\n", NO_TAGS, r"a\.txt contains no sentences"),
    "empty jsonl": (JSONL, "\n", {}, r"a\.jsonl contains no sentences"),
    "only a space": ("a", "a O\n\u00a0 O\n", {}, r"a:2: a word must not be blank; got "
                     r"'\\xa0' as word 1"),
    "unknown tag": ("a", "a O\nb L-PER\n", {}, r"a:2: a tag must be O, .* \(iob1, iob2\) .* \(bioes\); got the "
                    r"unknown tag 'L-PER'; rename it, or check `tag_column`\.$"),
    "other column": ("a", "a NNP\n", {"tag_scheme": "iob2"}, r"a:1: .*the unknown tag 'NNP'"),
    "no scheme": ("a", "a O\n", {"tag_scheme": "bio"}, r"`tag_scheme` must be one of auto, iob1, iob2, bioes; "
                  r"got 'bio'"),
    "iob2": ("a", "a O\n\nb I-P\n", {"tag_scheme": "iob2"}, r"a:3: the tags must follow iob2 \(`tag_scheme`\); "
             r"got 'I-P', which must follow B-P or I-P in iob2, but begins the sentence; correct this line, or "
             r"set `tag_scheme` to auto"),
    "iob1": ("a", "a B-P\n\nb I-P\nc E-P\n", {"tag_scheme": "iob1"}, r"a:4: .* iob1 .*'E-P', a prefix that it"),
    "bioes": ("a", "a B-P\nb O\n", {"tag_scheme": "bioes"}, r"a:1: .*'B-P', which I-P or E-P must follow in bioes"),
    "no tokens": (JSONL, '{"words": ["a"]}\n', NO_TAGS, r"a\.jsonl:1: missing column 'tokens' \(the words of "
                  r"a sentence\)\. Found the columns \['words'\]; write them as a list of texts"),
    "no tags": (JSONL, '{"tokens": ["a"], "tags": ["O"]}\n{"tokens": ["a"]}\n', {}, r"a\.jsonl:2: missing "
                r"column 'tags' \(one tag per word\)\. .*or read only words \(no `tag_column`\)"),
    "text": (JSONL, '{"tokens": "a b"}\n', NO_TAGS, r"a\.jsonl:1: 'tokens' must be a non-empty list of texts; "
             r"got 'a b'; correct this line, or remove it"),
    "no words": (JSONL, '{"tokens": ["a"]}\n{"tokens": []}\n', NO_TAGS, r"a\.jsonl:2: 'tokens' .*got \[\]"),
    "number": (JSONL, '{"tokens": ["a", 1]}\n', NO_TAGS, r"a\.jsonl:1: 'tokens' must .*got \['a', 1\]"),
    "tag numbers": (JSONL, '{"tokens": ["a"], "tags": [0]}\n', {}, r"a\.jsonl:1: 'tags' must .*got \[0\]"),
    "lengths": (JSONL, '{"tokens": ["a", "b"], "tags": ["O"]}\n', {}, r"a\.jsonl:1: .* must have one tag for each of "
                r"the 'tokens'; got 1 tags for 2 tokens\.$"),
    "empty word": (JSONL, '{"tokens": ["a", ""]}\n', NO_TAGS, r"a\.jsonl:1: a word must .*got '' as word 1 of"),
    "space in tag": (JSONL, '{"tokens": ["a"], "tags": ["B-A B"]}\n', {}, r"a\.jsonl:1: a tag .*unknown tag 'B-A B'"),
    "tag": (JSONL, '{"tokens": ["a"], "tags": ["O"]}\n{"tokens": ["a", "b"], "tags": ["O", "I-P"]}\n',
            {"tag_scheme": "iob2"}, r"a\.jsonl:2: the tags must follow iob2"),
    "blank line": (JSONL, '{"tokens": ["a"]}\n\n{"tokens": ["a"]}\n', NO_TAGS, r"a\.jsonl:2: every line must be one"),
    "one id twice": (JSONL, '{"tokens": ["a"], "id": 1}\n{"tokens": ["a"], "id": "1"}\n', NO_TAGS,
                     r"a\.jsonl:2: the ids of a file must be unique; got '1', which .* in .*a\.jsonl:1"),
    "null id": (JSONL, '{"tokens": ["a"], "id": null}\n', NO_TAGS, r"a\.jsonl:1: a label or id .*'id': None\.$"),
    "not packed": ("a.txt", gzip.compress(b"a O"), {}, r"a\.txt is a gzip file, not text"),
}  # fmt: skip


def test_sentences_that_are_missing_are_named_together(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"tokens": null}\n{"tokens": ["a"]}\n{"tokens": ["b", null]}\n')
    message = r"a\.jsonl:1: a text must not be missing; got None in column 'tokens', and 1 more such line: 3;"
    with pytest.raises(ValueError, match=message):
        read_columns(path, tag_column=None)


@pytest.mark.parametrize("case", BAD)
def test_bad_files_end_with_file_line_and_remedy(tmp_path, case):
    name, text, options, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        read_columns(write(tmp_path, text, name), **options)


def test_text_of():
    words = ["Zu\u0308rich", "is", "\U0001f600", "10\u00a0000"]
    text, spans = text_of(words)
    assert text == "Zu\u0308rich is \U0001f600 10\u00a0000" and spans == [(0, 7), (8, 10), (11, 12), (13, 19)]
    assert [text[start:end] for start, end in spans] == words
    assert text_of([]) == ("", [])


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "out.txt"
    write_columns(path, iter([[("Rome", "B-LOC", "O"), ("#1", "O", "O")], [["a\u2028\u00a0b", "O", "B-PER"]]]))
    assert path.read_text(encoding="utf-8") == "Rome B-LOC O\n#1 O O\n\na\u2028\u00a0b O B-PER\n"
    assert read_columns(path, tag_column=1).tags == [["B-LOC", "O"], ["O"]]
    assert read_columns(path).words == [["Rome", "#1"], ["a\u2028\u00a0b"]]


@pytest.mark.parametrize(
    "sentences, message",
    [
        ([[("a", "O")], []], r"out\.txt: sentence 1 has no lines"),
        ([[("a", "O")], [("a",)]], r"all lines must have 2 cells, like the first; got 1 in sentence 1"),
        ([[("New York", "O")]], r"a cell must not be empty, .*; got \('New York', 'O'\) in sentence 0; replace"),
        *([[[(word, "O")]], "a cell must not"] for word in ("", "\u00a0", "a\tb", "a\n", "a\rb", "-DOCSTART-")),
        ([[()]], "a cell must not be empty"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(tmp_path, sentences, message):
    (tmp_path / "out.txt").write_text("before")
    with pytest.raises(ValueError, match=message):
        write_columns(tmp_path / "out.txt", sentences)
    assert os.listdir(tmp_path) == ["out.txt"] and (tmp_path / "out.txt").read_text() == "before"


def count(path, **options):
    examples = read_columns(path, **options)
    return len(examples), sum(len(parse_entities(tags)) for tags in examples.tags), examples.scheme


@pytest.mark.parametrize("name, numbers", [("train", (5424, 5134)), ("dev", (923, 787)), ("test", (940, 960))])
def test_ncbi_disease(shared_data, name, numbers):
    path = shared_data / "NCBI-disease" / f"{name}.txt"
    assert count(path, tag_scheme="auto" if name == "dev" else "iob2") == (*numbers, "iob2")


# Tjong Kim Sang and De Meulder (2003), tables 1 and 2; their sentences include one for every -DOCSTART-.
CONLL_2003 = {
    "eng.train": (14987, 946, 23499),
    "eng.testa": (3466, 216, 5942),
    "eng.testb": (3684, 231, 5648),
}


@pytest.mark.parametrize("name", CONLL_2003)
def test_conll_2003(name, caplog):
    folder = pathlib.Path(os.environ.get("BERT_TF_DATA") or pathlib.Path.home() / ".cache" / "bert_tf_data")
    if not (folder / "conll2003" / name).is_file():
        pytest.skip(f"{folder} holds no conll2003/{name}; BERT_TF_DATA names the folder that does")
    with caplog.at_level(logging.WARNING, logger="absl"):
        numbers = count(folder / "conll2003" / name)
    sentences, documents, found = CONLL_2003[name]
    assert numbers == (sentences - documents, found, "iob1")
    warning = "eng.train:152428: sentences whose tags do not follow iob1: 2, first 'B-MISC'"
    assert (warning in caplog.text) == bool(caplog.records) == (name == "eng.train")


def test_no_tensorflow():
    code = "import bert_tf.tasks.tagging.columns, sys; assert not {'tensorflow', 'keras'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=pathlib.Path(__file__).parents[3])
