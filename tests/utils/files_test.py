"""Promises of bert_tf.utils.files: bad bytes are dropped and counted, and no reader ever sees half a file."""

import concurrent.futures
import gzip
import os
import signal
import stat
import subprocess
import sys

import pytest

from bert_tf.utils import files


def test_invalid_bytes_are_dropped_and_counted(tmp_path, caplog):
    path = tmp_path / "a.tsv"
    path.write_bytes(b"caf\xc3\xa9\n\xffgood\xc3\n\xe2\x82\nnul\x00\n")
    with caplog.at_level("WARNING", logger="absl"):
        assert files.read_text(path) == "café\ngood\n\nnul\x00\n"
        assert list(files.read_lines(path)) == ["café\n", "good\n", "\n", "nul\x00\n"]
    assert [r.getMessage() for r in caplog.records] == [f"{path}: dropped 4 bytes that are not UTF-8, in 2 lines."] * 2


def test_clean_text_logs_nothing_and_loses_only_the_byte_order_mark(tmp_path, caplog):
    path = tmp_path / "a.tsv"
    path.write_bytes("\ufeffone\r\n\ufefftwo\u2028\x85".encode())
    assert files.read_text(path) == "one\r\n\ufefftwo\u2028\x85" == "".join(files.read_lines(path))
    path.write_bytes("\ufeff".encode())
    assert files.read_text(path) == "" and list(files.read_lines(path)) == []
    assert not caplog.records


def test_gzip_is_unpacked_by_name(tmp_path):
    path = tmp_path / "A.TSV.GZ"
    path.write_bytes(gzip.compress("\ufeffé\n".encode()))
    assert files.read_text(path) == "é\n" == "".join(files.read_lines(path))


@pytest.mark.parametrize(
    "name, data, words",
    [
        ("a.tsv.gz", b"plain text", "not a complete gzip file.*Not a gzipped file.*remove .gz"),
        ("a.tsv.gz", gzip.compress(b"cut short" * 99)[:-9], "not a complete gzip file.*Compress it again"),
        ("a.tsv.gz", gzip.compress(bytes(range(256)))[:12] + b"\xff" * 40, "not a complete gzip.*Compress it again"),
        ("a.tsv", gzip.compress(b"packed"), "is a gzip file, not text. Append .gz"),
        ("a.tsv", "text".encode("utf-16"), "must be UTF-8.*UTF-16.*iconv"),
    ],
    # The bytes hold the second in which they were packed, and the processes of `make test` must agree on every name.
    ids=["not packed", "cut short", "damaged", "packed", "UTF-16"],
)
def test_files_that_are_not_what_they_say(tmp_path, name, data, words):
    path = tmp_path / name
    path.write_bytes(data)
    for read in (files.read_text, lambda path: list(files.read_lines(path))):
        with pytest.raises(ValueError, match=words) as error:
            read(path)
        assert str(error.value).startswith(str(path))


def test_missing_file_and_directory(tmp_path):
    with pytest.raises(ValueError, match="File not found: .*nope.tsv"):
        files.read_text(tmp_path / "nope.tsv")
    with pytest.raises(ValueError, match="is a directory, not a file. Name one file"):
        files.read_text(tmp_path)


def test_write_text_replaces_and_leaves_nothing_beside(tmp_path):
    path = tmp_path / "out.txt"
    files.write_text(path, "old")
    files.write_text(path, "new é\r\n")
    assert path.read_bytes() == "new é\r\n".encode()
    assert os.listdir(tmp_path) == ["out.txt"]


def test_binary_mode_and_symbolic_link(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    with files.atomic_open(tmp_path / "link", "wb") as file:
        file.write(b"\x00\xff")
        assert (tmp_path / "real").read_bytes() == b"old"
    assert (tmp_path / "real").read_bytes() == b"\x00\xff" and (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_in_the_block_keeps_the_old_file(tmp_path, error):
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(error), files.atomic_open(path) as file:
        file.write("half")
        raise error
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["out.txt"]


def test_a_folder_that_is_not_there_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        files.write_text(tmp_path / "nowhere" / "out.txt", "x")


_FULL_DISK = """
import resource, signal, sys
from bert_tf.utils import files

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    files.write_text(sys.argv[1], "x" * int(sys.argv[2]))
except OSError as error:
    print("OSError", error.errno)
"""


@pytest.mark.parametrize("size", [4097, 1_000_000])  # within one buffer, and many: the error comes from flush and write
def test_a_full_disk_keeps_the_old_file(tmp_path, size):
    path = tmp_path / "out.txt"
    path.write_text("old")
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    done = subprocess.run(
        [sys.executable, "-c", _FULL_DISK, str(path), str(size)], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("OSError"), done.stderr
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["out.txt"]


def test_what_a_message_says_of_a_value_is_short():
    assert files.brief([1, "two", {"three": None}]) == "[1, 'two', {'three': None}]"
    assert len(files.brief([["x" * 10_000] * 1000] * 1000)) == 600
    assert files.brief(10**4000).startswith("1000") and len(files.brief(10**4000)) < 250


def test_a_new_directory_appears_whole_or_not_at_all(tmp_path):
    with files.whole_directory(tmp_path / "a" / "b") as aside:
        assert os.path.basename(aside) in os.listdir(tmp_path / "a") and "b" not in os.listdir(tmp_path / "a")
        files.write_text(os.path.join(aside, "x"), "text")
    assert os.listdir(tmp_path / "a") == ["b"] and os.listdir(tmp_path / "a" / "b") == ["x"]
    with pytest.raises(KeyboardInterrupt), files.whole_directory(tmp_path / "c") as aside:
        raise KeyboardInterrupt
    with pytest.raises(ValueError, match="must not exist yet, or be an empty directory. .*/b is in"):
        files.whole_directory(tmp_path / "a" / "b").__enter__()
    (tmp_path / "empty").mkdir()
    with files.whole_directory(tmp_path / "empty"):
        pass
    assert sorted(os.listdir(tmp_path)) == ["a", "empty"]


def test_two_writers_and_a_reader_never_meet_half_a_file(tmp_path):
    path, texts = tmp_path / "out.txt", {letter * 300_000 for letter in "ab"}
    files.write_text(path, min(texts))
    seen = set()
    with files.atomic_open(path) as one, files.atomic_open(path) as other:
        assert one.name != other.name
        for file, text in ((one, min(texts)), (other, max(texts))):
            file.write(text)
            file.flush()
            seen.add(path.read_text())  # both have written, neither has ended
    seen.add(path.read_text())
    assert seen == {min(texts)}  # the one that was opened first ended last

    def write(text):
        for _ in range(50):
            files.write_text(path, text)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        writers = [pool.submit(write, text) for text in texts]
        while not all(writer.done() for writer in writers):
            assert path.read_text() in texts
    assert [writer.result() for writer in writers] == [None, None] and os.listdir(tmp_path) == ["out.txt"]


_KILLED_WRITER = """
import os, signal, sys
from bert_tf.utils import files

with files.whole_directory(sys.argv[2]) as folder, files.atomic_open(sys.argv[1]) as file:
    files.write_text(os.path.join(folder, "x"), "half")
    file.write("half")
    file.flush()
    print(os.path.basename(file.name), os.path.basename(folder), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_killed_writers_left_goes_with_the_next_and_what_living_ones_have_stays(tmp_path):
    path, folder = tmp_path / "out.txt", tmp_path / "folder"
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    command = [sys.executable, "-c", _KILLED_WRITER, path, folder]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    left = done.stdout.split()
    assert done.returncode == -signal.SIGKILL and {*left, left[1].removesuffix(".new")} == {*os.listdir(tmp_path)}
    assert all(map(files.is_temporary, left)) and files.is_temporary(left[0], "out.txt")
    assert not files.is_temporary(left[0], "other.txt") and not list(files.files_below(tmp_path))
    files.write_text(tmp_path / "another.txt", "whole")
    assert left[0] in os.listdir(tmp_path)  # another file's
    with files.atomic_open(path) as file:
        files.write_text(path, "whole")
        assert sorted(os.listdir(tmp_path))[0] != left[0] and os.path.exists(file.name)
    with files.whole_directory(folder):
        pass
    assert sorted(os.listdir(tmp_path)) == ["another.txt", "folder", "out.txt"] and not os.listdir(folder)


def test_a_directory_that_was_being_replaced_when_its_writer_was_killed_comes_back(tmp_path):
    old = tmp_path / ".folder.0123456789abcdef.tmp.old"
    old.mkdir()
    files.write_text(old / "x", "text")
    (tmp_path / ".folder.0123456789abcdef.tmp").touch()
    with pytest.raises(KeyboardInterrupt), files.whole_directory(tmp_path / "folder", replace=True):
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == ["folder"] and (tmp_path / "folder" / "x").read_text() == "text"


def test_links_and_files_under_the_old_temporary_name_are_left_alone(tmp_path):
    victim, path = tmp_path / "victim", tmp_path / "out.txt"
    victim.write_text("precious")
    for name in ("out.txt.tmp", ".out.txt.0123456789abcdef.tmp"):
        (tmp_path / name).symlink_to(victim)
    files.write_text(path, "text")
    assert victim.read_text() == "precious" and path.read_text() == "text" and not path.is_symlink()


def test_permissions_are_kept_and_else_those_of_the_umask(tmp_path):
    path = tmp_path / "out.txt"
    before = os.umask(0o027)
    try:
        files.write_text(path, "new")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        for mode in (0o600, 0o444, 0o666):
            path.chmod(mode)
            files.write_text(path, "again")
            assert stat.S_IMODE(path.stat().st_mode) == mode
    finally:
        os.umask(before)


def test_a_pipe_is_not_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="Neither a file nor free for one.*pipe"):
        files.write_text(tmp_path / "pipe", "text")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode) and os.listdir(tmp_path) == ["pipe"]


def test_the_longest_name_that_a_file_may_have(tmp_path):
    path = tmp_path / ("é" * 127 + "x")
    files.write_text(path, "text")
    assert path.read_text() == "text" and os.listdir(tmp_path) == [path.name]


def test_what_tells_a_content_from_another(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    assert files.content_of(path) == "3 bytes, SHA-256 ba7816bf8f01cfea"  # the standard's own example
    monkeypatch.setattr(files, "_MOST_READ", 2**21)
    data = bytearray(2**21 + 1)
    path.write_bytes(data)
    large = files.content_of(path)
    assert large.startswith("2097153 bytes, SHA-256 of its ends ")
    data[-1] = 1
    path.write_bytes(data)
    assert files.content_of(path) != large
    assert files.content_of(tmp_path) == "no file"


def test_one_text_names_several_files(tmp_path):
    for name in ("a-1.csv", "a-2.csv", "b,c.csv"):
        (tmp_path / name).write_text("")
    one, two, comma = (str(tmp_path / name) for name in ("a-1.csv", "a-2.csv", "b,c.csv"))
    pattern = f"{tmp_path}/a-*.csv"
    assert files.find_files(f"{two}, {pattern}") == [two, one]  # each once
    assert files.find_files(comma) == [comma] and files.find_files(f"{one},no*.csv") == [one, "no*.csv"]
    assert files.file_names(f"{two}, {pattern}") == "a-2.csv, a-*.csv" and files.file_names(comma) == "b,c.csv"
    assert files.file_names("x/1,x/2,x/3,x/4") == "1, 2, 3, ..."
