"""`bert-tf data clean` as it is typed: its report, and its errors in flags."""

import json

import pytest

from bert_tf.cli import main

SHOWN = """\
a.csv: 3 rows, 2 after cleaning
  html_entities              1  fixed
      line 2: 'Tom &amp; Jerry' -> 'Tom & Jerry'
  control_characters         0
  special_spaces             0
  label_spaces               0
  null_labels                0
  empty_texts                0
  duplicates                 1  fixed
      line 4: 'tom & jerry', like line 2
  near_duplicates            0
"""


def _start(*words):
    with pytest.raises(SystemExit) as ended:
        main.start_program("clean_data", list(words))
    return ended.value.code


def test_it_says_what_was_found(tmp_path, capsys, caplog, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("text,label\nTom &amp; Jerry,x\nb,NO\ntom & jerry,x\n")
    words = ["--input_file=a.csv", "--output_file=b.csv"]
    assert not _start(*words)
    assert capsys.readouterr().out == SHOWN and "Wrote b.csv: 2 rows of 3." in caplog.text
    assert (tmp_path / "b.csv").read_text() == "text,label\nTom & Jerry,x\nb,NO\n"
    assert _start(*words) == 1 and "`output_file` must not exist yet" in caplog.text
    assert not _start(words[0], "--json")
    said = json.loads(capsys.readouterr().out)
    assert (said["rows"], said["kept"], said["output_file"]) == (3, 2, None)
    assert said["findings"][0]["examples"][0]["after"] == "Tom & Jerry"


def test_flags_that_need_an_output(tmp_path, caplog, capsys):
    (tmp_path / "a.csv").write_text("text,label\na,x\n")
    assert _start(f"--input_file={tmp_path}/a.csv", "--fix=duplicates") == 1
    assert "`fix` requires `output_file`" in caplog.text
    assert _start(f"--input_file={tmp_path}/a.csv", "--fix=dupes", f"--output_file={tmp_path}/b.csv") == 1
    assert "--fix must be one or more of html_entities" in capsys.readouterr().err
