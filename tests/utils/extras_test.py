"""The table of extras against pyproject.toml, and the message about a package that is missing."""

import re
import sys

import pytest

from bert_tf.utils.extras import PACKAGES, SERVER, require_packages
from tests import toml
from tests.conftest import ROOT

PROJECT = toml.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _names(lines):
    return {re.match(r"[\w-]+", line)[0] for line in lines}


def test_the_extras_have_the_packages_of_the_table():
    extras = PROJECT["optional-dependencies"]
    for extra in {extra for _, extra in PACKAGES.values()}:
        assert {package for package, there in PACKAGES.values() if there == extra} == _names(extras[extra])
    assert extras["all"] == ["bert-tf[hub,lite,report,search,serve]"]
    assert not _names(PROJECT["dependencies"]) & {package for package, _ in PACKAGES.values()}


def test_what_is_installed_is_imported():
    require_packages("`bert-tf serve`", *SERVER)
    assert set(SERVER) <= set(sys.modules)


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("grpc_health", "x requires grpcio-health-checking. Install it: pip install 'bert-tf[serve]'"),
        ("usearch", "x requires usearch. Install it: pip install 'bert-tf[search]'"),
    ],
)
def test_a_missing_package_is_named(monkeypatch, missing, message):
    for name in [name for name in sys.modules if name.partition(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        require_packages("x", "usearch.index", *SERVER)


def test_a_package_that_another_one_lacks_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(PACKAGES, "extra_with_a_gap", ("extra-with-a-gap", "serve"))
    (tmp_path / "extra_with_a_gap.py").write_text("import nowhere_to_be_found", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"^x requires nowhere_to_be_found\. Install it: pip install 'bert-tf\[serve"):
        require_packages("x", "extra_with_a_gap")
