"""The search fold by fold: who answers whom, what is kept, and what is written."""

import json
import pathlib
import sys

import numpy as np
import pytest

from bert_tf.cli import main
from bert_tf.data.tables import LabeledTexts
from bert_tf.experiments.label_errors import folds as folding
from bert_tf.experiments.label_errors import search
from bert_tf.experiments.label_errors.report import summarize_findings, write_findings
from bert_tf.utils import logged_runs
from bert_tf.utils.folder_lock import alone_in
from tests import tiny


def _examples(rows):
    return LabeledTexts([str(i) for i in range(len(rows))], [text for text, _ in rows], None, [label for _, label in
                    rows], "train.tsv", [i + 2 for i in range(len(rows))])  # fmt: skip


def _noisy(n=40):
    """Texts whose label a word tells, but for the first two, which are wrong."""
    rows = tiny.texts(n, names=("bad", "good"))
    return [(text, {"bad": "good", "good": "bad"}[label] if i < 2 else label) for i, (text, label) in enumerate(rows)]


def _start(folder, rows, folds=4, overwrite=False, **identity):
    return search.start_search(str(folder), _examples(rows), folds, 0, identity, overwrite)


def _oracle(answered):
    """Returns a run that knows good words from bad ones, and writes what `train classifier` does."""

    def answer(folder):
        held_out = [json.loads(line) for line in (folder / folding.HELD_OUT_FILE).read_text().splitlines()]
        trained = [json.loads(line) for line in (folder / folding.TRAIN_FILE).read_text().splitlines()]
        answered.append((held_out, trained))
        run = folder / "run"
        run.mkdir()
        (run / "labels.txt").write_text("bad\ngood\n")
        chances = [0.95 if set(row["text"].split()) & set(tiny.GOOD) else 0.05 for row in held_out]
        (run / "test_results.tsv").write_text("".join(f"{1 - chance}\t{chance}\n" for chance in chances))
        return run

    return answer


def test_every_example_is_answered_once_by_models_that_had_not_seen_it(tmp_path):
    rows, answered = _noisy(), []
    found = _start(tmp_path, rows)
    probabilities = found.answer_folds(_oracle(answered))
    assert len(answered) == found.count == 4
    for held_out, trained in answered:
        assert len(held_out) + len(trained) == len(rows)
        assert not {row["text"] for row in held_out} & {row["text"] for row in trained}
    assert sorted(row["text"] for held_out, _ in answered for row in held_out) == sorted(text for text, _ in rows)
    findings = found.findings(probabilities)
    assert sorted(findings.suspects[:2]) == [0, 1] and len(findings.suspects) == 2
    assert not list(tmp_path.glob("folds/*/run"))  # no model is left behind


def test_folds_that_were_answered_are_not_answered_again(tmp_path):
    rows, answered = _noisy(), []

    def stops(folder):
        if len(answered) == 2:
            raise KeyboardInterrupt
        return _oracle(answered)(folder)

    with pytest.raises(KeyboardInterrupt):
        _start(tmp_path, rows).answer_folds(stops)
    probabilities = _start(tmp_path, rows).answer_folds(_oracle(answered))
    assert len(answered) == 4
    assert np.array_equal(probabilities, _start(tmp_path / "other", rows).answer_folds(_oracle([])))


def test_other_examples_or_flags_start_over_or_are_refused(tmp_path):
    rows, answered = _noisy(), []
    _start(tmp_path, rows, rate=1.0).answer_folds(_oracle(answered))
    with pytest.raises(ValueError, match=r"search.json\). Changed: rate: 1.0 before, 2.0 now. .* `overwrite_"):
        _start(tmp_path, rows, rate=2.0)
    with pytest.raises(ValueError, match="Changed: examples: '"):
        _start(tmp_path, rows[1:], rate=1.0)
    _start(tmp_path, rows[1:], rate=1.0, overwrite=True).answer_folds(_oracle(answered))
    assert len(answered) == 8


def test_folds_are_even_and_keep_near_duplicates_together():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 300)
    groups = np.arange(300)
    groups[100:200] = np.arange(100)  # pairs
    folds = folding.assign(labels, groups, 5, seed=1)
    assert all(len(set(folds[groups == group])) == 1 for group in range(100))
    assert np.bincount(folds).tolist() == pytest.approx([60] * 5, abs=6)
    assert np.array_equal(folds, folding.assign(labels, groups, 5, seed=1))
    assert not np.array_equal(folds, folding.assign(labels, groups, 5, seed=2))
    with pytest.raises(ValueError, match="`folds` must be at most 2, the number of different examples; got 3"):
        folding.assign(np.array([0, 1]), np.array([0, 1]), 3, 0)


def test_a_label_that_a_fold_did_not_see_has_no_probability(tmp_path):
    (tmp_path / "labels.txt").write_text("a\nc\n")
    (tmp_path / "test_results.tsv").write_text("0.25\t0.75\n")
    assert folding.answers_of(tmp_path, ["a", "b", "c"], 1).tolist() == [[0.25, 0, 0.75]]
    with pytest.raises(ValueError, match="test_results.tsv must contain 2 x 2 probabilities"):
        folding.answers_of(tmp_path, ["a", "b", "c"], 2)


def test_likely_errors_and_near_duplicates_are_written_as_tables_and_a_page(tmp_path):
    rows = [*_noisy(), ("A <b>warm</b> story, indeed a story", "good"), ("a <b>warm</b> story indeed a story", "bad")]
    found = _start(tmp_path, rows)
    findings = found.findings(found.answer_folds(_oracle([])))
    write_findings(str(tmp_path), findings)
    header, *errors = [line.split("\t") for line in (tmp_path / "label_errors.tsv").read_text().splitlines()]
    assert header[:4] == ["rank", "line", "label", "likely_label"] and {row[1] for row in errors} >= {"2", "3"}
    assert errors[0][0] == "1" and [len(row) for row in errors] == [8] * len(errors)
    header, *pairs = [line.split("\t") for line in (tmp_path / "near_duplicates.tsv").read_text().splitlines()]
    assert [row[1:4] for row in pairs[:2]] == [["42", "good", "no"], ["43", "bad", "no"]]
    assert len((tmp_path / "held_out.tsv").read_text().splitlines()) == 43
    page = (tmp_path / "label_errors.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;warm" in page and "<b>" not in page
    assert "1 of these groups have more than one label" in summarize_findings(findings)[2]


def _run(folder, *flags):
    with pytest.raises(SystemExit) as end:
        main.start_program(
            "find_label_errors", [f"--output_dir={folder}/out", f"--train_file={folder}/train.tsv", *flags]
        )
    return end.value.code or 0


def test_the_program_on_a_frozen_encoder(tmp_path, capsys, caplog, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["bert-tf"])
    tiny.write_tsv(tmp_path / "train.tsv", _noisy(120))
    model = tiny.checkpoint(tmp_path / "model", dropout=0.0)
    flags = [f"--init_checkpoint={model}", "--max_seq_length=16", "--folds=3"]
    assert _run(tmp_path, *flags) == 0
    assert "report: " in capsys.readouterr().out
    lines = [row.split("\t")[1] for row in pathlib.Path(tmp_path, "out", "label_errors.tsv").read_text().splitlines()]
    assert {"2", "3"} <= set(lines[1:]) and len(lines) < 7
    assert _run(tmp_path, *flags, "--learning_rate=1e-3") == 1
    assert "--learning_rate requires --fine_tune" in caplog.text
    assert _run(tmp_path, *flags, "--feature_layers=last", "--fine_tune") == 1
    assert "`feature_layers` and `fine_tune` cannot be combined" in caplog.text
    assert _run(tmp_path) == 1
    assert "--init_checkpoint is required: the model" in caplog.text


def test_the_program_has_run_classifier_train_on_each_fold(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["bert-tf"])
    tiny.write_tsv(tmp_path / "train.tsv", _noisy())
    answered, given, answer = [], [], _oracle([])

    def execute(program, flags, folder, claim):
        assert program in main.PROGRAMS
        answered.append(folder.parent.name)
        given.append(set(flags))
        return len(answered) != 1 and bool(answer(folder.parent))  # the first fold's training fails at first

    monkeypatch.setattr(logged_runs, "execute_resumable", execute)
    model = pathlib.Path(tiny.checkpoint(tmp_path / "model"))
    flags = [f"--init_checkpoint={model}", "--folds=2", "--fine_tune", "--learning_rate=3e-3"]
    assert _run(tmp_path, *flags) == 1
    assert "Training failed in 1 folds: 1. See their logs in" in caplog.text
    assert _run(tmp_path, *flags) == 0
    assert answered == ["1", "2", "1"]
    assert all({"--do_train", "--do_predict", "--learning_rate=0.003"} < each for each in given)
    assert len((tmp_path / "out" / "label_errors.tsv").read_text().splitlines()) == 3
    words = (model / "vocab.txt").read_text().splitlines()
    (model / "vocab.txt").write_text("\n".join([*words[:-2], words[-1], words[-2], ""]))
    assert _run(tmp_path, *flags) == 1 and "Changed: tokenizer or configuration: '" in caplog.text


def test_what_another_search_is_at_is_not_removed(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["bert-tf"])
    tiny.write_tsv(tmp_path / "train.tsv", _noisy())
    _start(tmp_path / "out", _noisy(), folds=2).answer_folds(_oracle([]))
    there = sorted(tmp_path.glob("out/**/*"))
    with alone_in(tmp_path / "out"):
        assert _run(tmp_path, "--init_checkpoint=model", "--folds=2", "--fine_tune", "--overwrite_output_dir") == 1
    assert "Another run is already writing to" in caplog.text
    assert sorted(tmp_path.glob("out/**/*")) == there


@pytest.mark.slow
def test_the_program_fine_tunes_and_goes_on_where_it_was(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["bert-tf"])
    tiny.write_tsv(tmp_path / "train.tsv", _noisy(160))
    model = tiny.checkpoint(tmp_path / "model", dropout=0.0)
    flags = [f"--init_checkpoint={model}", "--max_seq_length=16", "--folds=2", "--fine_tune", "--num_train_epochs=30",
             "--learning_rate=3e-3", "--train_batch_size=16"]  # fmt: skip
    assert _run(tmp_path, *flags) == 0
    rows = [row.split("\t") for row in pathlib.Path(tmp_path, "out", "label_errors.tsv").read_text().splitlines()]
    assert {"2", "3"} <= {row[1] for row in rows[1:9]}
    with caplog.at_level("INFO", "absl"):
        assert _run(tmp_path, *flags) == 0
    assert "Fold 2 of 2 is already done." in caplog.text
    assert _run(tmp_path, *flags, "--label_smoothing=0.1") == 1
    assert "Changed: label_smoothing: 0.0 before, 0.1 now. Use another" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_labels_that_were_flipped_are_found(seed, tmp_path, monkeypatch, minilm, shared_data):
    """Of 3% of the labels of SST-2, turned round, at least half stand among the first 5%."""
    monkeypatch.setattr(sys, "argv", ["bert-tf"])
    lines = (shared_data / "sst2-tutorial" / "train.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    flipped = np.random.default_rng(seed).choice(len(rows), round(0.03 * len(rows)), replace=False)
    for i in flipped:
        rows[i][1] = {"0": "1", "1": "0"}[rows[i][1]]
    tiny.write_tsv(tmp_path / "train.tsv", rows)
    assert _run(tmp_path, f"--init_checkpoint={minilm}", "--max_seq_length=64") == 0
    listed = pathlib.Path(tmp_path, "out", "label_errors.tsv").read_text(encoding="utf-8").splitlines()[1:]
    first = {int(row.split("\t")[1]) - 2 for row in listed[: len(rows) // 20]}
    assert len(first & set(flipped.tolist())) >= len(flipped) / 2
