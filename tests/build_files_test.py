"""Every BUILD file names what its Python files import. Bazel finds out too, but takes minutes and is not everywhere."""

import os

import pytest

from tests.build_files import Builds
from tests.code_imports import imports, modules_in_strings
from tests.conftest import ROOT

pytestmark = pytest.mark.skipif("TEST_SRCDIR" in os.environ, reason="Bazel itself is the better test, and runs now")

# Path -> content of a small checkout without a fault.
SOUND = {
    "BUILD": 'py_library(name = "scripts", srcs = glob(["run_*.py"]), deps = ["//bert_tf/low"])',
    "run_it.py": "import bert_tf.low.base",
    "bert_tf/low/BUILD": """
py_library(name = "low", srcs = glob(["*.py"], exclude = ["tool.py"]), visibility = ["//bert_tf:all"])
[py_binary(name = file[:-len(".py")], srcs = [file], deps = [":low"]) for file in glob(["tool.py"])]
""",
    "bert_tf/BUILD": 'package_group(name = "all", packages = ["//", "//bert_tf/..."])',
    "bert_tf/low/base.py": "import os",
    "bert_tf/low/tool.py": "from bert_tf.low import base",
    "bert_tf/high/BUILD": 'py_library(name = "high", srcs = ["top.py"], deps = ["//bert_tf/low"])',
    "bert_tf/high/top.py": "def later():\n    from bert_tf.low.base import name",
}


def faults(folder, **changes):
    """Returns the faults of `SOUND` with {path: content} changed, paths written with __ for a slash."""
    for name, content in (SOUND | {n.replace("__", "/"): text for n, text in changes.items()}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    return Builds(folder).faults()


@pytest.fixture(scope="module")
def builds():
    return Builds(ROOT)


def test_the_build_files_name_all_that_is_imported(builds):
    found = builds.faults()
    assert not found, "\n".join(found)
    assert "bert_tf/models/config.py" in builds.closure("//tests/models:tests")  # through three deps


def test_every_file_of_python_has_a_target(builds):
    have = {file for target in builds.targets.values() for file in target.files}
    files = [p for folder in ("benchmarks", "bert_tf", "tests", "tools") for p in (ROOT / folder).rglob("*.py")]
    left = {p.relative_to(ROOT).as_posix() for p in files} - have
    assert all(name.startswith("tests/") and name.endswith("__init__.py") for name in left), sorted(left)


def test_a_sound_checkout_has_no_fault(tmp_path):
    assert faults(tmp_path) == []


HIGH, TOP = "bert_tf__high__BUILD", "bert_tf__high__top.py"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({HIGH: 'py_library(name = "high", srcs = ["top.py"])'},
         "//bert_tf/high:high: bert_tf/high/top.py imports bert_tf.low.base, which no dep brings; add "
         "//bert_tf/low:low"),
        ({TOP: "import bert_tf.low.tool"},
         "//bert_tf/high:high: bert_tf/high/top.py imports bert_tf.low.tool, which no dep brings; add "
         "//bert_tf/low:tool"),
        ({"tests__BUILD": 'py_test(name = "t", srcs = ["t.py"], size = "small")',
          "tests__t.py": '"""Of bert_tf.low.base."""\nstart("-m", "bert_tf.low.base")'},
         "//tests:t: tests/t.py imports bert_tf.low.base, which no dep brings; add //bert_tf/low:low"),
        ({"tests__BUILD": 'py_test(name = "t", srcs = ["t.py"], size = "small")', "tests__t.py": 'start("run_it.py")'},
         "//tests:t: tests/t.py imports run_it, which no dep brings; add //:scripts"),
        ({HIGH: SOUND["bert_tf/high/BUILD"].replace("//bert_tf/low", "//bert_tf/lost")},
         "//bert_tf/high:high depends on //bert_tf/lost:lost, which no BUILD file has"),
        ({"bert_tf__BUILD": 'package_group(name = "all", packages = ["//", "//bert_tf/higher/..."])'},
         "//bert_tf/high:high depends on //bert_tf/low:low, whose visibility does not name //bert_tf/high"),
        ({"bert_tf__low__BUILD": SOUND["bert_tf/low/BUILD"].replace("visibility", "testonly = True, visibility")},
         "//bert_tf/high:high depends on //bert_tf/low:low, which is only for tests"),
        ({HIGH: SOUND["bert_tf/high/BUILD"].replace('["//bert_tf/low"]', '["//bert_tf/low", "//bert_tf/low:low"]')},
         "//bert_tf/high:high names //bert_tf/low:low twice in one list"),
    ],
    ids=["no dep", "not in the dep", "a started program", "a started script", "no such label", "not visible", "tests'",
         "twice"],
)  # fmt: skip
def test_a_fault_is_found_and_named(tmp_path, changes, expected):
    assert expected in faults(tmp_path, **changes)


def test_the_walk_sees_imports_in_functions_and_in_code_for_other_processes():
    assert {"bert_tf", "bert_tf.utils.text_files"} <= imports(ROOT, "tests/utils/text_files_test.py")
    assert "bert_tf.data.glue" in modules_in_strings(ROOT, "tests/data/tables_test.py")
    assert "run_squad" in modules_in_strings(ROOT, "tests/tasks/question_answering/run_squad_test.py")
    assert "plain_tokenization" in imports(ROOT, "benchmarks/plain_pretraining_data.py")
