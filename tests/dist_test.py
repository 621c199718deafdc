"""`make dist`: what the source archive and the wheel hold."""

import tarfile
import zipfile

import pytest

import bert_tf
from tests import wheels
from tests.conftest import ROOT
from tools import dist


@pytest.fixture
def checkout(tmp_path):
    """A small checkout, and a wheel and a source archive of it."""
    root = tmp_path / "checkout"
    for name in ("bert_tf/__init__.py", "bert_tf/py.typed", "bert_tf/BUILD", "bert_tf/__pycache__/x.pyc", "README.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name, encoding="utf-8")
    wheel, source = tmp_path / "bert_tf-1.0-py3-none-any.whl", tmp_path / "bert_tf-1.0.tar.gz"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in dist.expected(wheel, root):
            archive.writestr(name, "")
    with tarfile.open(source, "w:gz") as archive:
        for name in dist.expected(source, root):
            archive.add(root / "README.md", f"bert_tf-1.0/{name}")
    return root, wheel, source


def test_archives_have_the_package_and_its_metadata_and_nothing_else(checkout):
    root, wheel, source = checkout
    assert dist.package_files(root) == {"bert_tf/__init__.py", "bert_tf/py.typed"}
    dist.check([wheel, source], root)
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("tests/__init__.py", "")
    with pytest.raises(
        ValueError, match=r"any\.whl must have .* Missing: none; not expected: \['tests/__init__\.py'\]"
    ):
        dist.check([wheel], root)
    (root / "bert_tf" / "page.css").write_text("", encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"1\.0\.tar\.gz must have .* Missing: \['bert_tf/page\.css'\]; not expected: none"
    ):
        dist.check([source], root)


def test_what_is_shipped_of_this_checkout():
    files = dist.package_files(ROOT)
    assert {"bert_tf/py.typed", "bert_tf/__init__.pyi", "bert_tf/serving/server/page/page.html"} <= files
    assert "bert_tf/interpret/page/assets/page.css" in files and not any(name.endswith("/BUILD") for name in files)


@pytest.mark.slow
def test_the_wheel_has_what_is_shipped(tmp_path):
    dist.check([wheels.build(tmp_path)])


@pytest.mark.slow
def test_both_archives_are_built_and_read_as_by_an_index(tmp_path, monkeypatch, capsys):
    for package in ("build", "twine"):
        pytest.importorskip(package, reason=f"{package} is not installed: `make setup` with the current lock does")
    monkeypatch.setattr(dist, "DIST", tmp_path / "dist")
    dist.main()
    made = sorted(path.name for path in (tmp_path / "dist").iterdir())
    version = bert_tf.__version__
    assert made == [f"bert_tf-{version}-py3-none-any.whl", f"bert_tf-{version}.tar.gz"]
    said = capsys.readouterr().out
    assert all(f"  {name}, " in said for name in made)
