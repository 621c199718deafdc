"""What standard output cannot encode is written as JSON does."""

import io
import os
import subprocess
import sys

import pytest

from bert_tf.cli.output_encoding import escape_unencodable_output
from tests.cli.support import start_program
from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("utf-8", ["é中\U0001f600", "\\udcff"]), ("latin-1", ["é\\u4e2d\\ud83d\\ude00", "\\udcff"]),
     ("ascii", ["\\u00e9\\u4e2d\\ud83d\\ude00", "\\udcff"]), ("ascii:replace", ["???", "?"])],
)  # fmt: skip
def test_what_the_output_cannot_encode_is_written_as_json_does_and_warned_of_once(
    monkeypatch, caplog, encoding, shown
):
    name, _, errors = encoding.partition(":")
    stream = io.TextIOWrapper(io.BytesIO(), name, errors or "strict")
    monkeypatch.setattr(sys, "stdout", stream)
    escape_unencodable_output()
    for text in ("é中\U0001f600", "\udcff"):
        print(text)
    stream.flush()
    assert stream.buffer.getvalue().decode(name).splitlines() == shown
    why = "The output has bytes that" if name == "utf-8" else f"The encoding of standard output, {name}, lacks"
    warned = [record.getMessage() for record in caplog.records]
    assert len(warned) == (0 if errors else 1) and all(each.startswith(why) for each in warned)


def test_a_program_goes_on_where_the_output_cannot_be_encoded():
    done = start_program("print('中'); print('é 文')", os.environ | {"PYTHONIOENCODING": "latin-1"}, encoding="latin-1")
    assert (done.returncode, done.stdout) == (0, "\\u4e2d\né \\u6587\n")
    assert done.stderr.count("The encoding of standard output") == 1


def test_json_is_ascii_where_the_output_cannot_be_encoded(tmp_path):
    (tmp_path / "é中.tsv").write_text("text\tlabel\n", encoding="utf-8")
    command = [sys.executable, "-m", "bert_tf", "clean_data", f"--input_file={tmp_path}/é中.tsv", "--json"]
    environment = os.environ | {"PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
    assert b"/\\u00e9\\u4e2d.tsv" in done.stdout and done.stdout.isascii()
    assert b"The encoding of standard output" not in done.stderr
