"""What TensorFlow says at its start is left out of a program's log, and nothing else is."""

import os
import re
import subprocess
import sys

import pytest

from bert_tf.utils.tf_log_filter import is_greeting
from tests.conftest import ROOT

STAMP = "0000 00:00:1795400194.621923   26127"
GREETINGS = f"""WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
I{STAMP} port.cc:153] oneDNN custom operations are on. You may see slightly different numerical results.
W{STAMP} some/file_of-its.cc:1] A warning that the level hides.
I{STAMP} cpu_feature_guard.cc:227] This TensorFlow binary is optimized to use available CPU instructions.
To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow.
E{STAMP} util.cc:131] oneDNN supports DT_INT64 only on platforms with AVX-512. Falling back.
""".encode()
NEWS = f"""E{STAMP} cuda_dnn.cc:9] Could not load the library libcudnn.so.9
F{STAMP} cpu_feature_guard.cc:5] The library was compiled to use AVX, which this machine has not.
a line of Python's
""".encode()
NO_GPU = f"E{STAMP} cuda_platform.cc:52] failed call to cuInit: UNKNOWN ERROR (303)".encode()


@pytest.mark.parametrize("level", [2, 3])
def test_which_lines_are_greetings(level):
    assert all(is_greeting(line, level, True) for line in GREETINGS.splitlines())
    assert [is_greeting(line, level, True) for line in NEWS.splitlines()] == [level == 3, False, False]
    assert not is_greeting(NO_GPU, 2, True) and is_greeting(NO_GPU, 2, False)


def _run(tmp_path, end, level=None):
    """Runs a program whose TensorFlow greets, and then does what `end` says; returns (status, what arrives)."""
    (tmp_path / "tensorflow").mkdir()
    begin = f"import os\nos.write(2, {GREETINGS + NEWS + NO_GPU[:-5]!r})\n"
    (tmp_path / "tensorflow" / "__init__.py").write_text(begin + end, encoding="utf-8")
    code = (
        f"import os, sys; sys.path.insert(0, {os.fspath(tmp_path)!r})\n"
        "from bert_tf.utils.tf_log_filter import filter_greetings\n"
        "with filter_greetings():\n"
        "    os.write(2, b'before\\n')\n"
        "    import tensorflow\n"
        "    os.write(2, b'after\\n')\n"
        "assert not [finder for finder in sys.meta_path if type(finder).__name__ == 'AroundImport'\n"
        "            and finder._name == 'tensorflow']\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": level} if level else {}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, env=environment, check=False)
    return done.returncode, done.stderr


END = b"\na line without its end"
SAY = f"os.write(2, {END!r})\n"


def _shown(of_gpu):
    """Returns what arrives, where it may depend on the machine's GPU; the line was cut before its last word."""
    return re.sub(rb"E[^\n]*cuInit[^\n]*\n", b"", of_gpu)


def test_greetings_are_left_out_and_all_else_arrives(tmp_path):
    status, said = _run(tmp_path, SAY)
    assert status == 0 and _shown(said) == b"before\n" + NEWS + END[1:] + b"after\n"


@pytest.mark.parametrize(("end", "status"), [("os.abort()", -6), ("raise ImportError('libcudart')", 1)])
def test_what_ends_the_import_is_shown(tmp_path, end, status):
    ended, said = _run(tmp_path, SAY + end)
    assert ended == status and _shown(said).startswith(b"before\n" + NEWS + END[1:])
    assert (b"ImportError: libcudart" in said) == (status == 1)


def test_who_wants_to_see_all_of_it_does(tmp_path):
    status, said = _run(tmp_path, SAY, level="0")
    assert status == 0 and said == b"before\n" + GREETINGS + NEWS + NO_GPU[:-5] + END + b"after\n"


@pytest.mark.slow
def test_the_log_of_a_program_opens_with_its_own_first_line(tmp_path):
    (tmp_path / "train.tsv").write_text("text\tlabel\na\tb\n", encoding="utf-8")
    flags = [f"--train_file={tmp_path}/train.tsv", f"--output_dir={tmp_path}/out", "--do_train"]
    command = [sys.executable, "-m", "bert_tf", "run_classifier", *flags, f"--init_checkpoint={tmp_path}"]
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, check=False)
    lines = done.stderr.splitlines()
    assert done.returncode == 1 and re.match(r"\d\d:\d\d:\d\d Error: .* must hold", lines[0]), done.stderr
