"""int8 on real data: each task's metric, by the SavedModel and by LiteRT, is at most half a point below float32's."""

import csv
import dataclasses
import os
import pathlib
from collections.abc import Callable, Mapping

import pytest

import bert_tf
from tests.processor import needs_int8

MOST = 0.005  # half a point of a metric from 0 to 1
TRAINED = 3000  # examples; enough to score far above chance
BY = ("in int8 as exported", "in int8 by LiteRT")
_READ = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}


@dataclasses.dataclass(frozen=True)
class Case:
    """A data set for a task.

    Attributes:
        task: name of the task.
        metric: which is compared.
        least: what float32 has to score, so that there is quality to lose.
        read: (folder of all data sets) -> examples to train on and examples to evaluate on.
        settings: of the run, where they differ from the others'.
    """

    task: str
    metric: str
    least: float
    read: Callable
    settings: Mapping[str, object]


def _headless(path):
    """Returns the examples of a file of sentences and labels without column names."""
    with open(path, encoding="utf-8", newline="") as file:
        return [{"text": text, "label": label} for text, label in csv.reader(file, **_READ)]


def _pairs(path, text_a, text_b, label):
    """Returns the examples of a file of GLUE."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, **_READ))
    return [{"text_a": row[text_a], "text_b": row[text_b], "label": row[label]} for row in rows]


def _sst2(data):
    train, dev, test = (_headless(data / "sst2-tutorial" / f"{split}.tsv") for split in ("train", "dev", "test"))
    return train, dev + test


def _sts_b(data):
    return tuple(
        [row | {"label": float(row["label"]) / 5} for row in _pairs(path, "sentence1", "sentence2", "score")]
        for path in (data / "glue" / "STS-B" / f"{split}.tsv" for split in ("train", "dev"))
    )


def _qnli(data):
    """QNLI's training file is not part of the data: its development file is divided."""
    pairs = _pairs(data / "glue" / "QNLI" / "dev.tsv", "question", "sentence", "label")
    return pairs[:TRAINED], pairs[TRAINED:]


def _ncbi_disease(data):
    train, dev, test = (_sentences(data / "NCBI-disease" / f"{split}.txt") for split in ("train", "dev", "test"))
    return train, dev + test


def _sentences(path):
    """Returns the examples of a file of words and tags, one word per line."""
    blocks = path.read_text(encoding="utf-8").strip().split("\n\n")
    lines = [[line.split("\t") for line in block.splitlines()] for block in blocks]
    return [{"tokens": [line[0] for line in each], "tags": [line[-1] for line in each]} for each in lines]


CASES = {
    "sst2": Case("classification", "eval_accuracy", 0.8, _sst2, {"learning_rate": 1e-4}),
    "qnli": Case(
        "classification", "eval_accuracy", 0.7, _qnli, {"learning_rate": 1e-4, "text_column": ["text_a", "text_b"]}
    ),
    "disease": Case("tagging", "eval_f1", 0.6, _ncbi_disease, {"learning_rate": 2e-4, "max_seq_length": 128}),
    "similarity": Case("embedding", "eval_spearman", 0.8, _sts_b, {"learning_rate": 2e-5, "loss": "cosine"}),
}


@needs_int8
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_metric_falls_by_at_most_half_a_point(name, minilm, shared_data, tmp_path):
    case = CASES[name]
    train, dev = case.read(shared_data)
    settings = {"max_seq_length": 64, "num_train_epochs": 1.0, "train_batch_size": 32, "seed": 1} | case.settings
    run = bert_tf.finetune(
        case.task, train[:TRAINED], dev, output_dir=tmp_path / "run", init_checkpoint=minilm, verbose=False,
        export_dir=os.fspath(tmp_path / "export"), export_dtype="int8", export_for="cpu",
        int8_tolerance=1.0,  # whatever the loss, its size is reported below
        **settings,
    )  # fmt: skip
    card = pathlib.Path(tmp_path, "export", "1", "assets.extra", "MODEL_CARD.md").read_text(encoding="utf-8")
    rows = dict(line.strip("| ").split(" | ") for line in card.splitlines() if line.startswith("| eval_"))
    exact, int8 = run.metrics[case.metric], [float(rows[f"{case.metric}, {each}"]) for each in BY]
    found = f"{len(dev)} examples: float32 {exact:.4f}, SavedModel {int8[0]:.4f}, LiteRT {int8[1]:.4f}"
    print(f"{name}, {found}")
    assert exact > case.least, found
    assert min(int8) >= exact - MOST, found
