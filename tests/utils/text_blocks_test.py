"""Blocks are whole lines, end where documents do, and say where they and their document begin."""

import gzip
import random

import pytest

from bert_tf.utils import text_blocks
from bert_tf.utils.text_files import MAX_LINE_BYTES
from bert_tf.utils.text_options import TextOptions


def read(path, data, format, block_bytes=1 << 20, **options):
    """The blocks of a file with this content."""
    path.write_bytes(data)
    return list(text_blocks.read_blocks([str(path)], [format], TextOptions(**options), block_bytes))


def cuts(*arguments, **options):
    return [(block.line, block.document, block.data) for block in read(*arguments, **options)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.txt"


def test_sentences_are_cut_where_a_document_ends(path):
    data = b"A.\nB.\n\nC.\nD.\n\nE.\nF.\n"
    assert cuts(path, data, "sentences", 12) == [
        (1, 1, b"A.\nB.\n\n"),
        (4, 4, b"C.\nD.\n\n"),
        (7, 7, b"E.\nF.\n"),
    ]


def test_a_long_document_is_cut_at_any_line_and_its_beginning_is_kept(path):
    data = b"A.\n\nB.\nC.\nD.\nE.\n\n\nF.\n"
    assert cuts(path, data, "sentences", 10) == [
        (1, 1, b"A.\n\nB.\nC.\n"),
        (5, 3, b"D.\nE.\n\n\n"),
        (9, 9, b"F.\n"),
    ]


def test_a_line_of_odd_white_space_ends_a_document(path):
    data = "A.\n\u00a0\x1c\r\nB.\nC.\n".encode() + b"\xa0\nD.\nE.\nF.\nG.\n"
    assert [cut[:2] for cut in cuts(path, data, "sentences", 9)] == [(1, 1), (3, 3), (6, 6), (9, 6)]


def test_prose_is_cut_where_a_paragraph_ends(path):
    data = b"one\ntwo\n\nthree\nfour\nfive\nsix\nseven\n"
    assert cuts(path, data, "prose", 16) == [
        (1, 1, b"one\ntwo\n\n"),
        (4, 1, b"three\nfour\nfive\n"),
        (7, 1, b"six\nseven\n"),
    ]


def test_prose_is_cut_where_a_heading_begins_a_document(path):
    data = b"front\n = One =\na\n\nb\n = Two =\nc\nd\ne\nf\n"
    assert cuts(path, data, "prose", 30, document_start="^= .* =$") == [
        (1, 1, b"front\n = One =\na\n\nb\n"),
        (6, 6, b" = Two =\nc\nd\ne\nf\n"),
    ]
    assert [cut[:2] for cut in cuts(path, data, "prose", 11, document_start="^= .* =$")] == [
        (1, 1),  # front
        (2, 2),  # One, a
        (4, 2),  # the document goes on
        (6, 6),  # Two, c
        (8, 6),
    ]


def test_each_line_of_jsonl_is_a_document(path):
    assert cuts(path, b"{}\n{}\n\n{}", "jsonl", 6) == [(1, 1, b"{}\n{}\n"), (3, 3, b"\n{}")]


def test_files_are_numbered_and_never_share_a_block(tmp_path):
    for name in "ab":
        (tmp_path / name).write_text(f"{name}.\n")
    paths = [str(tmp_path / name) for name in "ab"]
    found = list(text_blocks.read_blocks(paths, ["sentences", "prose"], TextOptions()))
    assert found == [
        text_blocks.Block(0, paths[0], "sentences", 1, 1, b"a.\n"),
        text_blocks.Block(1, paths[1], "prose", 1, 1, b"b.\n"),
    ]


@pytest.mark.parametrize("format", ["sentences", "prose", "jsonl"])
def test_an_empty_file_has_no_block(path, format):
    assert read(path, b"", format) == []


@pytest.mark.parametrize("format", ["sentences", "prose", "jsonl"])
@pytest.mark.parametrize("block_bytes", [1, 7, 40, 1000])
def test_blocks_are_whole_lines_in_order_and_nothing_is_lost(path, format, block_bytes):
    chance = random.Random(block_bytes)
    data = b"".join(b"x" * chance.choice([0, 0, 1, 5, 9, 60]) + b"\n" for _ in range(300)) + b"the end"
    found = read(path, data, format, block_bytes, document_start="x{9}")
    assert b"".join(block.data for block in found) == data
    line = 1
    for block in found:
        assert block.line == line and block.document <= line
        assert block.data.endswith(b"\n") or block is found[-1]
        assert len(block.data) <= block_bytes or block.data.count(b"\n", 0, -1) == 0
        line += block.data.count(b"\n")


def test_a_line_of_ten_megabytes_is_named(path):
    data = b"short\n" * 3 + b"x" * 10_000_000 + b"\nshort\n"
    with pytest.raises(ValueError, match=r"a.txt:4: a line must have at most 8 MiB.* Break it into lines"):
        read(path, data, "prose")


@pytest.mark.parametrize("block_bytes", [1 << 20, 3_000_000])
@pytest.mark.parametrize("end", [b"\n", b"", b"\n" + b"short\n" * 1_000_000])
def test_a_line_of_eight_megabytes_is_a_block(path, end, block_bytes):
    long = b"x" * (MAX_LINE_BYTES - 1)
    found = read(path, b"short\n" + long + end, "prose", block_bytes)
    assert [(block.line, len(block.data)) for block in found[:2]] == [(1, 6), (2, len(long) + len(end[:1]))]
    assert all(len(block.data) <= block_bytes for block in found[2:])
    with pytest.raises(ValueError, match=r"a\.txt:2: a line must have at most 8 MiB.* Break it into lines"):
        read(path, b"short\n" + long + b"xx" + end, "prose", block_bytes)


def test_a_gzip_file_that_breaks_off_is_named_where_it_does(tmp_path):
    packed = gzip.compress(random.Random(1).randbytes(300_000).hex(" ", 20).replace(" ", "\n").encode())
    (tmp_path / "cut.gz").write_bytes(packed[: len(packed) // 2])
    reading = text_blocks.read_blocks([str(tmp_path / "cut.gz")], ["prose"], TextOptions(), 1 << 16)
    assert next(reading).line == 1
    with pytest.raises(ValueError, match=r"cut.gz cannot be read to its end: .*end-of-stream marker"):
        list(reading)
