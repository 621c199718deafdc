"""TensorFlow, tensorflow-text and the CPU, faked: what does not fit is one message, before any import."""

import subprocess
import sys

import pytest

import bert_tf
from bert_tf.utils import requirements, resources
from tests.conftest import ROOT


@pytest.mark.parametrize(
    "versions",
    [
        {},
        {"tensorflow": "2.19.1", "tensorflow-text": "2.19.0"},
        {"tensorflow": "2.20.0", "tensorflow-text": "2.20.1"},
        {"tensorflow": "2.21.0", "tensorflow-text": "2.21.1"},
        {"tensorflow": "2.21.0rc1"},
        {"tensorflow-cpu": "2.20.0", "tensorflow-text": "2.20.1"},
    ],
)
def test_what_fits(versions):
    assert requirements.find_misfit(versions) is None


@pytest.mark.parametrize(
    ("versions", "package", "reason", "requirement"),
    [
        ({"tensorflow": "2.18.1", "tensorflow-text": "2.18.1"}, "tensorflow",
         "TensorFlow 2.18.1 is installed; bert_tf requires TensorFlow 2.19 to 2.21", "tensorflow>=2.19,<2.22"),
        ({"tensorflow": "2.9.0"}, "tensorflow", "TensorFlow 2.9.0 is installed;", "tensorflow>=2.19,<2.22"),
        ({"tensorflow-cpu": "2.22.0"}, "tensorflow-cpu", "TensorFlow 2.22.0 is", "tensorflow-cpu>=2.19,<2.22"),
        ({"tensorflow": "2.20.0", "tensorflow-text": "2.21.1"}, "tensorflow-text",
         "tensorflow-text 2.21.1 does not match TensorFlow 2.20.0;", "tensorflow-text==2.20.*"),
        ({"tensorflow": "2.21.0", "tensorflow-text": "2.21.0"}, "tensorflow-text",
         "tensorflow-text 2.21.0 cannot be imported", "tensorflow-text>=2.21.1,<2.22"),
    ],
)  # fmt: skip
def test_what_does_not_fit(versions, package, reason, requirement):
    misfit = requirements.find_misfit(versions)
    assert (misfit.package, misfit.requirement) == (package, requirement) and misfit.reason.startswith(reason)


def test_the_library_refuses_before_it_imports_tensorflow(monkeypatch):
    monkeypatch.setattr(requirements, "_installed", lambda: {"tensorflow": "2.17.0"})
    monkeypatch.delitem(vars(bert_tf), "load", raising=False)
    with pytest.raises(ValueError, match=r"^TensorFlow 2.17.0 is installed; .* pip install 'tensorflow>=2.19,<2.22'$"):
        _ = bert_tf.load


@pytest.mark.parametrize(("sets", "refused"), [({"sse4_2"}, True), ({"sse4_2", "avx"}, False), (set(), False)])
def test_a_cpu_without_avx_is_refused(monkeypatch, sets, refused):
    monkeypatch.setattr(requirements.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(resources, "instruction_sets", lambda: frozenset(sets))
    monkeypatch.setattr(resources, "name", lambda: "Old CPU")
    if refused:
        with pytest.raises(ValueError, match="^The CPU, Old CPU, has no AVX, .* Use another machine.$"):
            requirements.check()
    else:
        requirements.check()


def test_a_command_says_it_in_one_line(tmp_path):
    """The metadata of another TensorFlow lie in front of the real ones."""
    metadata = tmp_path / "tensorflow-2.18.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: tensorflow\nVersion: 2.18.0\n", encoding="utf-8")
    code = "import sys; sys.path[:0] = sys.argv[1:3]; from bert_tf.cli import main; main.main(sys.argv[3:])"
    words = ("run_classifier", "--train_file=none.tsv", "--output_dir=none", "--do_train")
    command = [sys.executable, "-c", code, str(tmp_path), str(ROOT), *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1 and not done.stdout
    assert "Error: TensorFlow 2.18.0 is installed; bert_tf requires TensorFlow 2.19 to 2.21. Run " in line
    assert line.endswith("-m pip install 'tensorflow>=2.19,<2.22'")
