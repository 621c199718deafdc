"""A classifier that may be unsure: from the flag to the served answer, the page, and a comparison of scored runs."""

import json

import pytest
import tensorflow as tf

from bert_tf.experiments.comparison import compare_runs
from bert_tf.runs.run_task import run_task
from bert_tf.runs.task_flags import task_settings
from bert_tf.serving.client.results import to_dataclass
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.utils.answers import split_answer
from tests import tiny


def _run(**given):
    run_task(ClassificationTask, task_settings(ClassificationTask)().give(given))


@pytest.mark.slow
def test_from_the_flag_to_the_served_answer(tmp_path):
    out = tmp_path / "out"
    files = {name: str(tiny.write_tsv(tmp_path / f"{name}.tsv", tiny.texts(n, seed=seed)))
             for name, n, seed in (("train", 96, 0), ("dev", 80, 1))}  # fmt: skip
    given = {"train_file": files["train"], "init_checkpoint": str(tiny.checkpoint(tmp_path / "start", dropout=0.0)),
             "output_dir": str(out), "do_train": True, "max_seq_length": 20, "train_batch_size": 16,
             "num_train_epochs": 8.0, "learning_rate": 1e-3, "seed": 1}  # fmt: skip
    _run(**given)
    later = {"eval_file": files["dev"], "output_dir": str(out), "do_eval": True}
    _run(**later, fit_abstention=0.95, predict_file=files["dev"], do_predict=True, do_export=True)

    results = dict(line.split(" = ") for line in (out / "eval_results.txt").read_text().splitlines())
    assert 0 < float(results["eval_coverage"]) <= 1 and float(results["eval_selective_accuracy"]) >= 0.95
    assert "Selective prediction" in (out / "report.html").read_text(encoding="utf-8")
    assert (out / "risk_coverage.tsv").exists()

    predictions = [json.loads(line) for line in (out / "predictions.jsonl").read_text().splitlines()]
    assert sum(row["confident"] for row in predictions) / 80 == pytest.approx(float(results["eval_coverage"]))
    model = tf.saved_model.load(str(out / "export" / "1"))
    served = model.signatures["serving_default"](text=tf.constant([row["text"] for row in predictions]))
    assert served["confident"].dtype == tf.bool
    assert served["confident"].numpy().tolist() == [row["confident"] for row in predictions]
    assert set(model.signatures["classify"].structured_outputs) == {"scores", "classes"}
    row = split_answer({name: value.numpy() for name, value in served.items()}, 80)[0]
    assert list(row) == ["label", "probabilities", "confident"] and to_dataclass(row).confident is row["confident"]

    _run(**later)  # it is reported, and kept, without being asked for again
    again = dict(line.split(" = ") for line in (out / "eval_results.txt").read_text().splitlines())
    assert {name: again[name] for name in ("eval_coverage", "eval_abstention_threshold")}.items() <= results.items()
    (compared,) = compare_runs(str(out), str(out), samples=20)
    assert compared.count == 80 and compared.scores["accuracy"].b == pytest.approx(float(results["eval_accuracy"]))
