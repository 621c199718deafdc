"""`bert-tf predict`: the flags that decide which rows and columns are written."""

import csv
import json

import numpy as np
import pytest

from bert_tf.inference.batch_prediction import answer_parts
from tests import run_cases
from tests.serving import models

ROWS = [
    {"number": 7, "text": "a good film", "label": "x"},
    {"number": 9, "text": "", "label": "y"},
    {"number": 12, "text": "long and dull", "label": "z"},
]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with the model `Film` and the table of `ROWS`."""
    folder = tmp_path_factory.mktemp("predict")
    (folder / "film").mkdir()
    models.export(folder / "film", 1)
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    lines = [",".join(ROWS[0]), *(",".join(map(str, row.values())) for row in ROWS)]
    (folder / "rows.csv").write_text("\n".join(lines))
    return folder


def predict(home, name, table="rows.jsonl", **flags):
    """Runs the command; returns its log, or fails."""
    log, status = start(home, name, table, **flags)
    assert status == 0, log
    return log


def start(home, name, table="rows.jsonl", model="film", **flags):
    arguments = [f"--{flag}={value}" for flag, value in flags.items()]
    words = [f"--model={home / model}", f"--input_file={home / table}", f"--output_file={home / name}", *arguments]
    done = run_cases.run_here("predict", words)
    assert "Traceback" not in done["log"], done["log"]
    return done["log"], done["status"]


def test_answers_for_a_spreadsheet(home):
    flags = {"id_column": "number", "probabilities": "columns", "top_k": 1}
    predict(home, "out.csv", "rows.csv", keep_columns="*,2", **flags)
    with open(home / "out.csv", encoding="utf-8", newline="") as file:
        first, second, third = csv.DictReader(file)
    assert first == {
        "number": "7", "2": "x", "label": "good", "probability": "0.75", "top_labels": '["good"]',
        "top_probabilities": "[0.75]", "probability_bad": "0.25", "probability_good": "0.75",
    }  # fmt: skip
    assert second == dict.fromkeys(first, "") | {"number": "9", "2": "y"}
    assert (third["number"], third["label"], third["probability_bad"]) == ("12", "bad", "0.75")


def test_ids_are_numbers_as_in_the_table(home):
    log = predict(home, "out.jsonl", id_column="number", probabilities="none", on_null="skip")
    rows = [json.loads(line) for line in (home / "out.jsonl").read_text().splitlines()]
    assert rows == [{"number": 7, "label": "good", "probability": 0.75},
                    {"number": 12, "label": "bad", "probability": 0.75}]  # fmt: skip
    assert "1 of 3 rows were left out, because their text is missing." in log
    predict(home, "out.npz", id_column="number", on_null="skip")
    assert np.load(home / "out.npz")["number"].tolist() == [7, 12]


@pytest.mark.parametrize(
    "flags, message",
    [
        ({"on_null": "error"}, "every row must have a text with --on_null=error. 1 row of 3 has no text, in line 2"),
        ({"on_null": "drop"}, "--on_null"),
        ({"probabilities": "some"}, "--probabilities"),
        ({"top_k": 0}, "--top_k"),
        ({"keep_columns": "*"}, "--keep_columns must not repeat the columns of predictions (id, label, probability"),
        ({"id_column": "label"}, "--id_column must not have the name of a column of predictions (label, probability"),
        ({"signature": "echo", "text_column": "text", "top_k": 2}, "--top_k=2 requires a model with the outputs label"),
    ],
)
def test_bad_values_are_refused(home, flags, message):
    log, status = start(home, "bad.jsonl", **flags)
    assert status == 1 and message in log, log
    assert not (home / "bad.jsonl").exists() and not (home / "bad.jsonl.parts").exists()


def test_npz_has_no_column_per_label(home):
    log, status = start(home, "bad.npz", probabilities="columns")
    assert status == 1 and "--probabilities=columns requires an --output_file other than .npz" in log


def test_a_run_resumes_only_with_the_same_columns(home, monkeypatch):
    write = answer_parts.PartWriter.write

    def fail_at_one(self, number, rows):
        if number == 1:
            raise OSError(28, "No space left on device")
        return write(self, number, rows)

    with monkeypatch.context() as patch:
        patch.setattr(answer_parts.PartWriter, "write", fail_at_one)
        assert start(home, "resumed.jsonl", rows_per_chunk=1, top_k=1)[1] == 1
    for flags, changed in (
        ({}, "answers probabilities: 'none' before, 'all' now; answers top_k: 1 before, None now"),
        ({"top_k": 1, "probabilities": "all"}, "answers probabilities: 'none' before, 'all' now"),
        ({"top_k": 1, "on_null": "skip"}, "on_null: 'null' before, 'skip' now"),
        ({"top_k": 1, "id_column": "number"}, "input_file id: 'id' before, 'number' now"),
        ({"top_k": 1, "keep_columns": "number"}, "input_file kept: [] before, ['number'] now"),
    ):
        log, status = start(home, "resumed.jsonl", rows_per_chunk=1, **flags)
        assert status == 1 and changed in log, log
    predict(home, "resumed.jsonl", rows_per_chunk=1, top_k=1)
    rows = [json.loads(line) for line in (home / "resumed.jsonl").read_text().splitlines()]
    assert [row["top_labels"] for row in rows] == [["good"], None, ["bad"]]
