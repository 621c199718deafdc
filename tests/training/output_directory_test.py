"""The output directory of a run: its own files are removed, and no others."""

import os

from bert_tf.training.output_directory import prepare_directory


def test_prepare_removes_the_run_s_own_files_only(tmp_path):
    own = ("model.ckpt-3.index", "checkpoint", "eval_results.txt", "eval_results_test.txt", "eval_files.json",
           "history.jsonl", "report.html", "run.json")  # fmt: skip
    for name in (*own, "notes.txt", "train.tsv"):
        (tmp_path / name).write_text("")
    prepare_directory(tmp_path)
    assert len(os.listdir(tmp_path)) == 10
    prepare_directory(tmp_path, overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["notes.txt", "train.tsv"]
