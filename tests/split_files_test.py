"""A folder of parts holds the same files again, and a part that was damaged on the way is named."""

import random
import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Returns the contents of files of random bytes, some of them empty, in the current folder."""
    monkeypatch.chdir(tmp_path)
    draw = random.Random(0)
    found = {"wheels/a.whl": 3000, "wheels/deep/b.whl": 0, "wheels/c.whl": 1024, "run": 1, "README.md": 0}
    found = {name: draw.randbytes(size) for name, size in found.items()}
    for name, content in found.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "run").chmod(0o755)
    return found


def _python(*words):
    return subprocess.run([sys.executable, "-I", *map(str, words)], capture_output=True, text=True, check=False)


def _split(*paths, part_mib=1 / 1024):
    command = ROOT / "tools" / "split_files.py", "--output_dir=parts", f"--part_mib={part_mib}"
    return _python(*command, *paths)


def test_parts_are_small_and_hold_the_same_files(files, tmp_path):
    done = _split("wheels", "run", "README.md", "run")
    assert "5 files, 0 MiB, in 4 parts in parts." in done.stdout, done.stderr
    assert [path.stat().st_size for path in sorted((tmp_path / "parts").glob("part-*"))] == [1024, 1024, 1024, 953]
    (tmp_path / "parts").rename(tmp_path / "copied")
    done = _python("copied/join_files.py", "joined")
    assert done.stdout == "5 files from 4 parts are in joined.\n", done.stderr
    joined = {path for path in (tmp_path / "joined").rglob("*") if path.is_file()}
    assert {path.relative_to(tmp_path / "joined").as_posix(): path.read_bytes() for path in joined} == files
    assert [path.name for path in joined if path.stat().st_mode & 0o111] == ["run"]


def test_damaged_and_missing_parts_are_named_and_nothing_is_written(files, tmp_path):
    assert _split("wheels").returncode == 0
    content = bytearray((tmp_path / "parts/part-001").read_bytes())
    content[5] ^= 1
    (tmp_path / "parts/part-001").write_bytes(content)
    (tmp_path / "parts/part-003").unlink()
    done = _python("parts/join_files.py", "joined")
    assert done.returncode == 1 and "got missing or damaged part-001, part-003. Copy these again." in done.stderr
    assert not (tmp_path / "joined").exists()


def test_a_second_run_leaves_nothing_of_the_first(files, tmp_path):
    assert _split("wheels").returncode == _split("run", ".").returncode == 0
    assert len(list((tmp_path / "parts").glob("part-*"))) == 4, "the parts themselves are not split again"
    assert _split("run").returncode == 0
    assert [path.name for path in (tmp_path / "parts").glob("part-*")] == ["part-000"]


@pytest.mark.parametrize(
    ("paths", "part_mib", "message"),
    [
        (["missing"], 1, "A path must be a file or a folder; got missing"),
        (["../x"], 1, "A path must be"),
        (["wheels"], 0, "--part_mib must be a number above 0; got 0."),
    ],
)
def test_wrong_options_are_refused(files, paths, part_mib, message):
    done = _split(*paths, part_mib=part_mib)
    assert done.returncode == 2 and message in done.stderr


def test_make_splits_the_checkout_and_its_wheels():
    command = ["make", "--dry-run", "parts", "PART_MIB=32"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    download, split = done.stdout.index("pip download"), done.stdout.index("tools/split_files.py")
    assert download < split and "--part_mib=32 wheels $(git ls-files)" in done.stdout[split:]
