"""Each format becomes the documents that a person would see in it, however the file was cut into blocks."""

import collections
import json
import pathlib

import pytest

from bert_tf.utils import text_blocks, text_files
from bert_tf.utils.documents import read_documents
from bert_tf.utils.names import TEXT_FORMATS
from bert_tf.utils.text_options import TextOptions
from tests.utils.text_files_test import DATA


def read(path, data, format, block_bytes=1 << 20, **options):
    """([(line, first line, sentences) of each part], counts) of a file with this content."""
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    options, counts, parts = TextOptions(**options), collections.Counter(), []
    for block in text_blocks.read_blocks([str(path)], [format], options, block_bytes):
        parts += read_documents(block, options, counts)
    assert {part.file for part in parts} <= {0}
    return [(part.line, part.first_line, part.sentences) for part in parts], dict(counts)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.txt"


def test_sentences(path):
    parts, counts = read(path, "\n\n A. B. \nC\n\n\n \t\nD.", "sentences")
    assert parts == [(3, 3, ["A. B.", "C"]), (8, 8, ["D."])]
    assert counts == {"documents": 2, "sentences": 3}


def test_prose_is_one_document_of_split_paragraphs(path):
    parts, counts = read(path, "A Title\n\nOne goes\non. Two!\n  \nThree\n", "prose")
    assert parts == [(1, 1, ["A Title", "One goes on.", "Two!", "Three"])]
    assert counts == {"documents": 1, "sentences": 4}


def test_prose_with_headings_that_begin_documents(path):
    text = "Front.\n = One = \nOh! Ah!\n = = Part = = \n = Two = \n = Three = \nSo.\n"
    parts, counts = read(path, text, "prose", document_start="^= [^=]")
    assert parts == [
        (1, 1, ["Front."]),
        (2, 2, ["= One = Oh!", "Ah!", "= = Part = ="]),
        (5, 5, ["= Two ="]),
        (6, 6, ["= Three = So."]),
    ]
    assert counts["documents"] == 4
    assert read(path, text[6:], "prose", document_start="^= [^=]")[0][0][:2] == (2, 2)


def test_jsonl(path):
    rows = [{"text": "One. Two.\n\nThree"}, {"text": " \n"}, {"id": 1, "text": "Four\non."}]
    parts, counts = read(path, "\n".join(map(json.dumps, rows)) + "\n\n", "jsonl")
    assert parts == [(1, 1, ["One.", "Two.", "Three"]), (3, 3, ["Four on."])]
    assert counts == {"documents": 2, "sentences": 4}
    assert read(path, '{"body": "A \\ud800B."}', "jsonl", text_column="body")[0] == [(1, 1, ["A B."])]


@pytest.mark.parametrize(
    "line, message",
    [
        ("{not json", r"a.txt:3 must be one complete JSON object per line; got '{not json': Expecting"),
        ("[1]", r"a.txt:3 must be a JSON object; got list"),
        (
            '{"id": 1, "body": ""}',
            r"a.txt:3 lacks the field 'text'. It has 'id', 'body'; set `text_col",
        ),
        ("{}", r"a.txt:3 lacks the field 'text'. It has \(none\)"),
        ('{"text": null}', r"a.txt:3 must have a string in the field 'text'; got NoneType"),
        ("[" * 100_000, r"a.txt:3 must be one complete JSON object per line; .*recursion"),
    ],
)
@pytest.mark.parametrize("block_bytes", [5, 1000])
def test_errors_name_the_line(path, line, message, block_bytes):
    with pytest.raises(ValueError, match=message):
        read(path, '{"text": ""}\n\n' + line, "jsonl", block_bytes)


@pytest.mark.parametrize("format", ["sentences", "prose"])
def test_windows_line_ends_and_the_byte_order_mark_change_nothing(path, format):
    text = "One.\nTwo.\n\nThree."
    windows = b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()
    assert read(path, windows, format) == read(path, text, format)


@pytest.mark.parametrize("format", ["sentences", "prose", "jsonl"])
@pytest.mark.parametrize("text", ["", "\n", " \r\n\n\u00a0\n"])
def test_a_blank_file_has_no_documents(path, format, text):
    parts, counts = read(path, text, format)
    assert parts == [] and counts.get("documents", 0) == 0


def test_wrong_bytes_are_dropped_and_counted(path):
    parts, counts = read(path, b"caf\xe9.\n\xff\n\xc3\nna\xc3\xafve.\n", "sentences")
    assert parts == [(1, 1, ["caf."]), (4, 4, ["naïve."])]
    assert counts == {"documents": 2, "sentences": 2, "invalid_bytes": 3}


def test_junk_is_dropped_and_counted_only_where_asked(path):
    text = "A line.\n* * *\n\n1 2 3\n\nAnother.\n"
    assert read(path, text, "sentences") == (
        [(1, 1, ["A line.", "* * *"]), (4, 4, ["1 2 3"]), (6, 6, ["Another."])],
        {"documents": 3, "sentences": 4},
    )
    assert read(path, text, "sentences", drop_junk_lines=True) == (
        [(1, 1, ["A line."]), (6, 6, ["Another."])],
        {"documents": 2, "sentences": 2, "junk_lines": 2},
    )


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"language": "English"}, "language must be an ISO 639 code .* got 'English'"),
        ({"document_start": "("}, r"document_start must be a regular expression; got '\('"),
    ],
)
def test_options_are_checked(wrong, message):
    with pytest.raises(ValueError, match=message):
        TextOptions(**wrong)


def joined(parts):
    """The sentences of each document from those of its parts."""
    documents = collections.defaultdict(list)
    for line, _, sentences in parts:
        documents[line] += sentences
    return dict(documents)


def corpus(format):
    """Lines of some 40 bytes; in prose each ends a sentence, so that any line is a good place for a cut."""
    lines = []
    for number in range(400):
        lines += ["", " "][: number % 7 // 5]
        lines += [f"= Part {number}."] if number % 30 == 9 else []
        lines.append(f"Sentence {number} says “nothing” about it: naïve.")
    if format == "jsonl":
        lines = [json.dumps({"text": line}) for line in lines]
    return "\n".join(lines)


@pytest.mark.parametrize("format", TEXT_FORMATS)
@pytest.mark.parametrize("document_start", [None, "^= Part"])
@pytest.mark.parametrize("block_bytes", [1, 100, 300])
def test_small_blocks_hold_the_documents_of_one_large_block(path, format, document_start, block_bytes):
    whole, counts = read(path, corpus(format), format, document_start=document_start)
    parts, counts_of_parts = read(path, corpus(format), format, block_bytes, document_start=document_start)
    assert len(parts) > len(whole) or format == "jsonl"
    assert joined(parts) == joined(whole)
    assert counts_of_parts == counts
    assert len({part[:2] for part in parts}) == len(parts)


@pytest.mark.parametrize("corpus, start", [("gutenberg", "^CHAPTER"), ("wikitext2", "^= [^=]")])
def test_real_text_loses_nothing_in_blocks(corpus, start):
    if not (DATA / corpus).is_dir():
        pytest.skip(f"needs the corpus {corpus} in {DATA}")
    path = max(
        text_files.find_text_files([str(DATA / corpus / "*t*.*")]), key=lambda name: -pathlib.Path(name).stat().st_size
    )
    with text_files.open_lines(path) as file:
        text = file.read().decode("utf-8", "ignore")
    options, counts = TextOptions(document_start=start), collections.Counter()
    found = text_blocks.read_blocks([path], ["prose"], options, 10_000)
    whole = [document for block in found for document in read_documents(block, options, counts)]
    kept = "".join("".join(document.sentences) for document in whole)
    assert "".join(kept.split()) == "".join(text.split())
