"""The working life of a model: the tutorial from a messy table to version 2 and back, run once with a tiny model."""

import collections
import csv
import io
import json
import shutil

import numpy as np
import pytest

from bert_tf.checkpoints.readers import read_arrays
from tests.conftest import ROOT
from tests.documentation.tutorials.running import DATA, PAGES, check, model
from tests.documentation.tutorials.shell import PROGRAMS, Shell

NEW = "account, deletion"
WITHOUT_TEXT = ["T-3003", "T-3007", "T-3010"]
TICKETS = ROOT / DATA / "tickets"


def test_the_export_has_what_goes_wrong_in_exports():
    data = (TICKETS / "export.csv").read_bytes()
    assert data.startswith(b"\xef\xbb\xbfticket,text,label\r\n")
    rows = [*csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""))]
    counts = collections.Counter(row["label"] for row in rows if row["label"] not in ("", "NULL", "N/A"))
    assert len(counts) == 12 and max(counts.values()) > 6 * min(counts.values())
    assert sum("," in label for label in counts) == 4 and {"", "NULL", "N/A"} < {row["label"] for row in rows}
    assert "" in {row["text"] for row in rows} and any("\n" in row["text"] for row in rows)


@pytest.fixture(scope="module")
def tickets(tmp_path_factory):
    """The folder that the commands of the page leave; each of them ended as the page says."""
    folder = tmp_path_factory.mktemp("lifecycle")
    shutil.copytree(TICKETS, folder / DATA / "tickets")
    text = PAGES["model_lifecycle"].read_text(encoding="utf-8")
    model(folder, text)
    with Shell(PROGRAMS) as shell:
        shell.folder = folder
        answers = [line for printed in check(shell, text, with_weights=False) for line in printed.splitlines()
                   if line.startswith('{"text": ')]  # fmt: skip
        (folder / "tickets" / "asked.jsonl").write_text("\n".join(answers))
        compared = shell.run("bert-tf compare tickets/v1 tickets/v2 --samples=20")
        (folder / "tickets" / "compared.txt").write_text(compared.stdout)
        skipped = shell.run(
            "bert-tf predict --model=tickets/models/tickets --input_file=tickets/incoming.jsonl --text_column=text "
            "--id_column=ticket --on_null=skip --output_file=tickets/skipped.jsonl"
        )
        assert compared.returncode == skipped.returncode == 0, compared.stderr + skipped.stderr
    return folder / "tickets"


def read_rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def labels_of(run):
    return (run / "labels.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.slow
def test_each_row_has_an_answer_or_nulls(tickets):
    asked, answers = read_rows(tickets / "incoming.jsonl"), read_rows(tickets / "answers.jsonl")
    assert [(row["ticket"], row["channel"]) for row in answers] == [(row["ticket"], row["channel"]) for row in asked]
    assert [row["ticket"] for row in answers if row["label"] is None] == WITHOUT_TEXT
    for row in answers:
        if row["ticket"] not in WITHOUT_TEXT:
            assert len(row["top_labels"]) == 2 and row["top_labels"][0] == row["label"]
    skipped = [row["ticket"] for row in read_rows(tickets / "skipped.jsonl")]
    assert skipped == [row["ticket"] for row in asked if row["ticket"] not in WITHOUT_TEXT]
    assert not (tickets / "all.jsonl").exists()  # --on_null=error


@pytest.mark.slow
def test_the_head_of_version_2_has_the_rows_of_version_1_by_label(tickets):
    old, new = labels_of(tickets / "v1"), labels_of(tickets / "v2")
    assert len(old) == 12 and new == [NEW, *old]  # first in the alphabet, so that all others have moved
    record = json.loads((tickets / "v2" / "run.json").read_text())["retrained_from"]
    assert (record["kept"], record["new"], record["dropped"], record["renamed"]) == (old, [NEW], [], {})
    before, after = (read_arrays(tickets / run)["classifier/output_weights"] for run in ("v1", "v2"))
    similar = np.corrcoef(after, before)[: len(new), len(new) :]  # [labels of version 2, labels of version 1]
    assert similar[1:].argmax(axis=1).tolist() == [*range(12)] and similar[1:].diagonal().min() > 0.9
    assert similar[0].max() < 0.9  # of its own, although both runs have the same seed


@pytest.mark.slow
def test_the_versions_are_compared_on_shared_labels_and_the_new_one_is_named(tickets):
    compared = (tickets / "compared.txt").read_text(encoding="utf-8")
    assert "eval_predictions.tsv, 67 examples" in compared
    assert f"Labels only in B, not compared: '{NEW}' (8 examples, " in compared and "only in A" not in compared


@pytest.mark.slow
@pytest.mark.parametrize("move", ["rollout", "rollback"])
def test_no_request_fails_while_the_version_changes(tickets, move):
    (run,) = json.loads((tickets / move / "load_test.json").read_text())["runs"].values()
    assert run["answered"] == run["requests"] > 0 and {*run["codes"]} == {"OK"}


@pytest.mark.slow
def test_the_new_label_comes_with_version_2_and_goes_with_it(tickets):
    before, during, after = read_rows(tickets / "asked.jsonl")
    assert [*during["probabilities"]] == [NEW, *labels_of(tickets / "v1")]
    assert [*before["probabilities"]] == [*after["probabilities"]] == labels_of(tickets / "v1")
