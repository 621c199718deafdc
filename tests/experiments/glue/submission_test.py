"""The files that GLUE's server wants, and their zip."""

import zipfile

import pytest

from bert_tf.experiments.glue.submission import FILES, write_submission
from bert_tf.tasks.classification.outputs import write_leaderboard

ALL = ("CoLA.tsv", "SST-2.tsv", "MRPC.tsv", "STS-B.tsv", "QQP.tsv", "MNLI-m.tsv", "MNLI-mm.tsv", "QNLI.tsv", "RTE.tsv",
       "WNLI.tsv", "AX.tsv")  # fmt: skip


def test_a_submission_has_the_leaderboards_files():
    assert FILES == ALL


def test_names_as_they_are_and_scores_cut_to_their_scale(tmp_path):
    write_leaderboard(tmp_path, "RTE.tsv", ["0", "1"], ["entailment", "not_entailment"], None)
    assert (tmp_path / "RTE.tsv").read_text() == "index\tprediction\n0\tentailment\n1\tnot_entailment\n"
    write_leaderboard(tmp_path, "STS-B.tsv", ["7", "8", "9"], [-0.25, 3.14159, 5.5], (0.0, 5.0))
    assert (tmp_path / "STS-B.tsv").read_text() == "index\tprediction\n7\t0.000\n8\t3.142\n9\t5.000\n"


def _folders(tmp_path, names=ALL):
    folders = []
    for i, name in enumerate(names):
        (tmp_path / f"run{i}").mkdir()
        write_leaderboard(tmp_path / f"run{i}", name, ["0"], [str(i)], None)
        folders.append(tmp_path / f"run{i}")
    return folders


def test_a_whole_submission_is_the_same_to_the_byte(tmp_path):
    folders = _folders(tmp_path)
    assert write_submission(folders, tmp_path / "a.zip") == ()
    assert write_submission(folders[::-1], tmp_path / "b.zip") == ()
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert tuple(archive.namelist()) == ALL and archive.testzip() is None
        assert archive.read("AX.tsv") == b"index\tprediction\n0\t10\n"


def test_what_is_missing_is_named(tmp_path, caplog):
    folders = _folders(tmp_path, ALL[:9])
    assert write_submission([*folders, tmp_path], tmp_path / "a.zip") == ("WNLI.tsv", "AX.tsv")
    assert "a.zip has no WNLI.tsv, AX.tsv: the GLUE server requires all files." in caplog.text


def test_malformed_submissions_are_refused(tmp_path):
    folders = _folders(tmp_path, ("AX.tsv", "AX.tsv", "QQP.tsv"))
    with pytest.raises(
        ValueError, match=r"takes only one AX\.tsv; got .*run0/AX\.tsv and .*run1/AX\.tsv"
    ):
        write_submission(folders, tmp_path / "a.zip")
    with pytest.raises(
        ValueError, match=r"No predictions to submit: none of .* contains one of CoLA\.tsv.*Write"
    ):
        write_submission([tmp_path], tmp_path / "a.zip")
    (tmp_path / "run2" / "QQP.tsv").write_text("index\tprediction\n0 1\n")
    with pytest.raises(ValueError, match=r"QQP\.tsv:2: expected the columns .*got '0 1'. Write the file again"):
        write_submission(folders[2:], tmp_path / "a.zip")
    assert not (tmp_path / "a.zip").exists()
