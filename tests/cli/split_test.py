"""`bert-tf data split` as it is typed: its table of rows and labels, and its errors in flags."""

import pytest

from bert_tf.cli import main

SHOWN = """\
            train.csv   eval.csv
requested         80%        20%
rows       10 (83.3%)  2 (16.7%)
  good      6 (60.0%)  1 (50.0%)
  bad       4 (40.0%)  1 (50.0%)
Groups of identical texts: 1, with 2 rows; each is in one file.
Groups by text and user: 6, the largest with 2 rows.
"""


def _start(*words):
    with pytest.raises(SystemExit) as ended:
        main.start_program("split", list(words))
    return ended.value.code


def test_it_says_what_each_part_has(tmp_path, capsys, caplog, monkeypatch):
    monkeypatch.chdir(tmp_path)
    good = (0, 2, 3, 5, 8, 10, 11)
    rows = [f"text {min(i, 10)},{'good' if i in good else 'bad'},u{i // 2}" for i in range(12)]
    (tmp_path / "a.csv").write_text("\n".join(["review,label,user", *rows]) + "\n")
    words = ["--input_file=a.csv", "--output_dir=p", "--eval_share=0.2", "--group_column=user", "--text_column=review"]
    assert not _start(*words)
    assert capsys.readouterr().out == SHOWN
    assert _start(*words) == 1
    assert "`output_dir` must not contain train.csv, eval.csv, test.csv yet" in caplog.text


def test_a_label_that_is_never_trained_on_is_told(tmp_path, caplog):
    (tmp_path / "a.tsv").write_text("text\tlabel\none\tx\none\ty\none\tz\ntwo\tx\n")
    assert not _start(f"--input_file={tmp_path}/a.tsv", f"--output_dir={tmp_path}/p", "--eval_share=0.7")
    assert "No training row has the label 'y', 'z'." in caplog.text
