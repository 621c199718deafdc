"""A small GLUE, what runs on it leave, and the program that makes them."""

import pathlib
import subprocess

from bert_tf.evaluation.results import write_results
from bert_tf.experiments.child_runs import write_finished
from bert_tf.experiments.glue import runs as glue_runs
from bert_tf.experiments.glue.runs import GlueRun, Point
from tests import run_cases, tiny

LIMIT_S = 600  # after which a grid hangs
ONE, OTHER = Point(16, 5e-5, 2.0), Point(32, 2e-5, 3.0)
TASKS = ("cola", "sts-b")
_SCALE = {"0": ("0.4", "1.000"), "1": ("4.2", "5.000")}  # scores of pairs without and with a good word


def write_glue(folder: pathlib.Path, train=96, dev=30, test=6) -> pathlib.Path:
    """Writes CoLA and STS-B: so many examples of each split."""
    for name, writer in (("CoLA", _cola), ("STS-B", _sts)):
        (folder / name).mkdir(parents=True)
        for seed, (split, n) in enumerate((("train", train), ("dev", dev), ("test", test))):
            writer(folder / name / f"{split}.tsv", tiny.texts(n, seed), split)
    return folder


def _cola(path, rows, split):
    if split == "test":
        tiny.write_tsv(path, [(str(i), text) for i, (text, _) in enumerate(rows)], "index\tsentence")
    else:
        tiny.write_tsv(path, [("gj04", label, "", text) for text, label in rows], None)


def _sts(path, rows, split):
    header = ["index", "sentence1", "sentence2", "score"][: 3 + (split != "test")]
    lines = [[str(i), text, "a story of people", _SCALE[label][i % 2]] for i, (text, label) in enumerate(rows)]
    tiny.write_tsv(path, [line[: len(header)] for line in lines], "\t".join(header))


def finish(folder, run, seconds=60.0, answers=None, **scores) -> pathlib.Path:
    """Writes what a run that ended well leaves, with these scores; returns its folder."""
    path = run.folder(folder)
    path.mkdir(parents=True)
    write_results(str(path), {**scores, "loss": 0.5, "ece": 0.1}, 10)
    (path / "model.ckpt-10.index").write_text("")
    (path / "checkpoint").write_text("")
    if answers:
        write_answers(path / "eval_predictions.tsv", answers)
    write_finished(path, glue_runs.note_of(run, seconds))
    return path


def write_answers(path, rows):
    tiny.write_tsv(path, [(str(i), *row) for i, row in enumerate(rows)], "id\tlabel\tprediction")


def five_runs(folder) -> pathlib.Path:
    """Writes five runs: two settings of CoLA with two seeds, one run of MRPC."""
    for settings, scores in ((ONE, (0.5, 0.6)), (OTHER, (0.4, 0.3))):
        for seed, score in enumerate(scores, 1):
            finish(folder, GlueRun("cola", settings, seed), matthews=score)
    finish(folder, GlueRun("mrpc", ONE, 1), accuracy=0.8, f1=0.9)
    return folder


def program(*arguments):
    """Runs `benchmark glue` to its end; its runs are processes of their own. Returns what subprocess would say."""
    done = run_cases.run_here("run_glue", arguments)
    return subprocess.CompletedProcess(arguments, done["status"], done["log"], done["log"])
