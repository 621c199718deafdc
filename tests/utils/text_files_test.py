"""Files are found, an unreadable one among them before any work is done, and their format is guessed."""

import codecs
import gzip
import logging
import os
import pathlib

import pyarrow as pa
import pytest

from bert_tf.utils import text_files

SENTENCES = "This is a sentence.\nIs this one?\n\n“Yes,” he said.\nMr. Ray (who knows) agrees!\n"
PROSE = "This is the first line of a book, it goes\non here. And ends. Then a new sentence follows\nthat ends here.\n"
DATA = pathlib.Path(os.environ.get("BERT_TF_DATA", pathlib.Path.home() / ".cache" / "bert_tf_data"))


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


@pytest.fixture
def folder(tmp_path):
    for name in ("b.txt", "a.txt", "sub/c.txt", "sub/deep/d.json", ".hidden/e.txt", "sub/.f.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("Text.\n")
    return tmp_path


def found(folder, *patterns):
    return [
        os.path.relpath(path, folder)
        for path in text_files.find_text_files([str(folder / pattern) for pattern in patterns])
    ]


@pytest.mark.parametrize(
    "patterns, expected",
    [
        (["a.txt"], ["a.txt"]),
        (["*.txt"], ["a.txt", "b.txt"]),
        (["**/*.txt"], ["a.txt", "b.txt", "sub/c.txt"]),
        (["."], ["a.txt", "b.txt", "sub/c.txt", "sub/deep/d.json"]),
        (["*"], ["a.txt", "b.txt", "sub/c.txt", "sub/deep/d.json"]),
        (["sub", "*.txt", "a.txt"], ["sub/c.txt", "sub/deep/d.json", "a.txt", "b.txt"]),
        (["sub/.f.txt"], ["sub/.f.txt"]),
    ],
)
def test_finds_files_globs_and_folders(folder, patterns, expected):
    assert found(folder, *patterns) == expected


def test_follows_links_to_folders(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "g.txt").write_text("")
    (folder / "sub/linked").symlink_to(elsewhere)
    assert found(folder, "sub") == ["sub/c.txt", "sub/deep/d.json", "sub/linked/g.txt"]


def test_finds_a_file_once_and_no_end_in_a_ring_of_links(folder):
    (folder / "sub/ring").symlink_to(folder)
    (folder / "z.txt").symlink_to(folder / "a.txt")
    (folder / "name[1].txt").write_text("")
    assert found(folder, ".") == ["a.txt", "b.txt", "name[1].txt", "sub/c.txt", "sub/deep/d.json"]
    assert found(folder, "name[1].txt") == ["name[1].txt"]


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("nothing*", "which matches no file"),
        ("missing.txt", "which matches no file"),
        ("empty", "a directory without files"),
    ],
)
def test_a_pattern_without_files_is_named(folder, pattern, why):
    (folder / "empty").mkdir()
    with pytest.raises(ValueError, match=rf"got '.*{pattern.replace('*', '.')}', {why}"):
        found(folder, "a.txt", pattern)


BROKEN = {
    "nul.txt": (b"text\0text", "binary: it contains NUL bytes"),
    "latin.txt": ("é".encode("latin-1") * 30 + b"a" * 70, "30% of it is not UTF-8"),
    "utf16.txt": (codecs.BOM_UTF16_LE + "text".encode("utf-16-le"), "iconv -f UTF-16"),
    "packed.txt": (gzip.compress(b"text"), "compressed: append .gz to its name"),
    "squeezed.txt": (zstd(b"text"), "compressed: append .zst to its name"),
    "plain.txt.gz": (b"text", "Not a gzipped file"),
    "plain.txt.zst": (b"text, not packed", "ZSTD decompress failed"),
    "cut.txt.gz": (gzip.compress(b"text")[:15], "end-of-stream marker"),
}


@pytest.mark.filterwarnings("error")  # a file that nobody closes
@pytest.mark.parametrize("name", BROKEN)
def test_an_unreadable_file_among_many_is_named(folder, name):
    data, reason = BROKEN[name]
    (folder / name).write_bytes(data)
    with pytest.raises(ValueError, match=rf"1 of 5 .*{name} \(.*{reason}.*\)\. Repair or omit") as caught:
        found(folder, ".")
    assert "a.txt" not in str(caught.value)


def test_a_dangling_link_and_a_pipe_are_named(folder):
    (folder / "dangling.txt").symlink_to(folder / "gone")
    with pytest.raises(ValueError, match=r"1 of 5 .*dangling.txt \(No such file or directory\)"):
        found(folder, ".")
    os.mkfifo(folder / "pipe")
    with pytest.raises(ValueError, match=r"1 of 1 .*pipe \(not a regular file"):
        found(folder, "pipe")


def test_three_of_many_unreadable_files_are_named(folder):
    for number in range(5):
        (folder / f"x{number}.bin").write_bytes(b"\0")
    with pytest.raises(ValueError, match=r"5 of 9 .*x0.bin .*x1.bin .*x2.bin \(.*\) and 2 more\. Repair") as caught:
        found(folder, ".")
    assert "x3" not in str(caught.value)


def test_a_few_wrong_bytes_and_empty_files_are_no_fault(folder):
    (folder / "a.txt").write_bytes(b"caf\xe9 and much more text")
    for name, data in (("b.txt", b""), ("e.gz", b""), ("f.zst", b""), ("g.gz", gzip.compress(b""))):
        (folder / name).write_bytes(data)
    assert len(found(folder, "*.*")) == 5


PACKINGS = {
    "a.txt": lambda data: data,
    "a.txt.gz": gzip.compress,
    "parts.gz": lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:]),
    "A.ZST": zstd,
    "parts.zst": lambda data: zstd(data[:9]) + zstd(b"") + zstd(data[9:]),
}


@pytest.mark.filterwarnings("error")  # a file that nobody closes
@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
@pytest.mark.parametrize("name", PACKINGS)
def test_opens_every_packing_without_the_byte_order_mark(tmp_path, name, mark):
    data = b"one\nline two\n" * 100_000
    (tmp_path / name).write_bytes(PACKINGS[name](mark + data))
    with text_files.open_lines(str(tmp_path / name)) as file:
        assert (file.readline(), file.readline(3)) == (b"one\n", b"lin")
        assert file.read() == data[7:]


@pytest.mark.parametrize(
    "name, text, expected",
    [
        ("a.txt", SENTENCES, "sentences"),
        ("a.txt", SENTENCES.rstrip(), "sentences"),
        ("a.txt", SENTENCES + "A heading\n", "sentences"),
        ("a.txt", SENTENCES * 2000, "sentences"),
        ("a.txt", ("a long sentence " * 1500 + "ends.\n") * 3, "sentences"),  # the third is cut off
        ("a.txt.gz", SENTENCES, "sentences"),
        ("a.txt", PROSE, "prose"),
        ("a.txt.zst", PROSE, "prose"),
        ("a.txt", "One. Two. Three.\nFour. Five.\n", "prose"),
        ("a.txt", "", "prose"),
        ("a.txt", "\n \n", "prose"),
        ("a.txt", '{"text": "One."}\n', "jsonl"),
        ("a.txt.gz", '\n{"text": "' + "One. " * 20_000 + '"}\n{', "jsonl"),
        ("a.txt", "{not json.}\n", "sentences"),
        ("a.jsonl", SENTENCES, "jsonl"),
        ("a.JSON.gz", "", "jsonl"),
        ("a.ndjson.zst", "", "jsonl"),
    ],
)
def test_guesses_the_format(tmp_path, name, text, expected):
    pack = {".gz": gzip.compress, ".zst": zstd}.get(pathlib.Path(name).suffix, bytes)
    (tmp_path / name).write_bytes(pack(text.encode()))
    assert text_files.guess_format(str(tmp_path / name)) == expected


@pytest.mark.parametrize("corpus", ["gutenberg", "wikitext2"])
def test_real_prose_is_guessed_prose(corpus):
    if not (DATA / corpus).is_dir():
        pytest.skip(f"needs the corpus {corpus} in {DATA}")
    assert {text_files.guess_format(path) for path in text_files.find_text_files([str(DATA / corpus)])} == {"prose"}


def test_guessing_names_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(ValueError, match="gone.txt cannot be read.*No such file"):
        text_files.guess_format(str(tmp_path / "gone.txt"))


def test_the_log_tells_the_formats_that_were_guessed(tmp_path, caplog):
    (tmp_path / "a.txt").write_text("One sentence.\nAnother.\n\nA third.\n")
    (tmp_path / "b.jsonl").write_text('{"text": "One."}\n')
    paths = [str(tmp_path / name) for name in ("a.txt", "b.jsonl")]
    with caplog.at_level(logging.INFO, logger="absl"):
        assert text_files.formats_of(paths, "prose") == ["prose", "prose"] and not caplog.records
        assert text_files.formats_of(paths, None) == ["sentences", "jsonl"]
    assert "sentences: 1 file, jsonl: 1 file" in caplog.text
