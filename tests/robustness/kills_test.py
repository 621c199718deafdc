"""SIGKILL at random moments of every program that promises to go on: what it comes to is what an unbroken run does.

`BERT_TF_KILLS=100` in the environment shares so many kills out to all programs; without it each is killed twice.
"""

import json
import os
import pathlib
import signal
import time

import numpy as np
import pytest

from bert_tf.checkpoints.tf1 import read_tensors
from bert_tf.cli import main
from tests import processes, tiny
from tests.experiments.glue.glue_folder import write_glue
from tests.integration.pretraining import support as pretraining
from tests.tasks.embedding import support as embedding
from tests.tasks.multiple_choice import support as multiple_choice
from tests.tasks.question_answering import support as squad
from tests.tasks.tagging import support as tagging

RUN = ["--init_checkpoint=HOME/init", "--output_dir=OUT", "--do_train", "--learning_rate=3e-3", "--deterministic",
       "--train_batch_size=16", "--save_checkpoints_steps=7", "--keep_checkpoints=3"]  # fmt: skip
SCORED = [*RUN, "--do_eval", "--do_predict"]
TABLE = ["--input_file=HOME/in.txt", "--output_file=OUT/answers.npz", "--rows_per_chunk=40"]
CLASSIFIER = ["--train_file=HOME/train.tsv", "--eval_file=HOME/dev.tsv", "--num_train_epochs=8", "--max_seq_length=16"]
CHILDREN = ["--max_seq_length=16", "--deterministic", "--save_checkpoints_steps=5"]
# Program -> of 100 kills, how many are its own; its flags.
PROGRAMS = {
    "run_classifier": (10, [*SCORED, *CLASSIFIER, "--predict_file=HOME/dev.tsv", "--metric_for_best_model=accuracy"]),
    "run_squad": (10, [*SCORED, "--train_file=HOME/train.json", "--eval_file=HOME/dev.json", "--num_train_epochs=8",
                       "--predict_file=HOME/dev.json", "--max_seq_length=24", "--doc_stride=8", "--max_query_length=5",
                       "--max_answer_length=4"]),
    "run_tagger": (10, [*SCORED, "--train_file=HOME/tags.jsonl", "--eval_file=HOME/dev_tags.jsonl",
                        "--predict_file=HOME/dev_tags.jsonl", "--num_train_epochs=8", "--max_seq_length=16"]),
    "run_embedder": (10, [*RUN, "--train_file=HOME/pairs.tsv", "--num_train_epochs=8", "--max_seq_length=16"]),
    "run_multiple_choice": (10, [*SCORED, "--train_file=HOME/choices.jsonl", "--eval_file=HOME/dev_choices.jsonl",
                                 "--predict_file=HOME/dev_choices.jsonl", "--num_train_epochs=8",
                                 "--max_seq_length=20", "--metric_for_best_model=accuracy",
                                 "--early_stopping=4"]),
    "run_pretraining": (10, [*pretraining.arguments("HOME"), "--eval_file=HOME/held_out.tfrecord", "--do_eval",
                             "--max_eval_steps=2", "--num_train_steps=120", "--save_checkpoints_steps=7",
                             "--deterministic", "--output_dir=OUT"]),
    "create_pretraining_data": (5, ["--input_file=HOME/train.txt", "--vocab_file=HOME/vocab.txt", "--num_shards=3",
                                    "--output_file=OUT/records.tfrecord.gz", "--max_seq_length=32",
                                    "--max_predictions_per_seq=5", "--dupe_factor=9"]),
    "extract_features": (7, [*TABLE, "--model=HOME/init", "--max_seq_length=32", "--layers=-1"]),
    "embed": (6, [*TABLE, "--model=HOME/init", "--max_seq_length=32"]),
    "score_text": (5, [*TABLE, "--model=HOME/pretrained", "--max_seq_length=32"]),
    "predict": (5, [*TABLE, "--model=HOME/classifier/export"]),
    "find_label_errors": (4, ["--train_file=HOME/train.tsv", "--init_checkpoint=HOME/init", "--output_dir=OUT",
                              "--folds=2", "--fine_tune", "--num_train_epochs=4", "--max_seq_length=16",
                              "--train_batch_size=16"]),
    "tune": (4, ["run_classifier", "--output_dir=OUT", "--trials=2", "--search=learning_rate=1e-4..1e-2",
                 "--tuning_metric=eval_accuracy", "--", *CLASSIFIER[:2], "--num_train_epochs=4",
                 "--init_checkpoint=HOME/init", "--seed=1", *CHILDREN]),
    "run_glue": (4, ["--glue_dir=HOME/glue", "--init_checkpoint=HOME/init", "--output_dir=OUT", "--seeds=1,2",
                     "--tasks=cola", "--train_batch_size=16", "--learning_rate=1e-3", "--num_train_epochs=4",
                     "--do_predict", "--", *CHILDREN]),
}  # fmt: skip
KILLS = int(os.environ.get("BERT_TF_KILLS", "0"))
# What holds times, paths or machines; histories and checkpoints are compared by what is in them.
UNLIKE = (
    "report.html", "run.json", "history.jsonl", "log.txt", "finished.json", "results.json", "tune.json", "results.tsv",
    "trials.tsv", "lock", "glue.json",
)  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The inputs of all programs."""
    folder = tmp_path_factory.mktemp("kills")
    tiny.checkpoint(folder / "init", dropout=0.1)
    for seed, (name, n) in enumerate((("train", 96), ("dev", 30))):
        tiny.write_tsv(folder / f"{name}.tsv", tiny.texts(n, seed))
    squad.write(folder / "train.json", squad.questions(96))
    squad.write(folder / "dev.json", squad.questions(24, 1))
    tagging.write_jsonl(folder / "tags.jsonl", tagging.sentences(96))
    tagging.write_jsonl(folder / "dev_tags.jsonl", tagging.sentences(24, 1))
    multiple_choice.write_jsonl(folder / "choices.jsonl", multiple_choice.questions(96))
    multiple_choice.write_jsonl(folder / "dev_choices.jsonl", multiple_choice.questions(24, 1))
    tiny.write_tsv(folder / "pairs.tsv", embedding.pairs(96), "text_a\ttext_b")
    (folder / "in.txt").write_text("".join(f"{text}\n" for text, _ in tiny.texts(1000, 2)))
    write_glue(folder / "glue")
    pretraining.write_material(folder)
    for name, flags, output in (
        ("run_pretraining", ["--num_train_steps=2", "--save_checkpoints_steps=100"], "pretrained"),
        ("run_classifier", ["--num_train_epochs=1", "--do_export", "--export_dir=OUT/export"], "classifier"),
    ):
        usual = PROGRAMS[name][1]
        _to_the_end(name, [*usual, *flags], folder, folder / output)
    return folder


def _start(name, flags, home, output):
    words = [flag.replace("HOME", str(home)).replace("OUT", str(output)) for flag in flags]
    output.mkdir(exist_ok=True)
    return processes.start(_program, name, words, f"{output}.log")


def _program(name, words, log):
    os.setsid()  # its children are killed with it
    for stream in (1, 2):
        os.dup2(os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND), stream)
    main.start_program(name, words)


def _to_the_end(name, flags, home, output):
    process = _start(name, flags, home, output)
    process.join(processes.LIMIT_S)
    assert process.exitcode == 0, pathlib.Path(f"{output}.log").read_text()[-3000:]


def _killed_at(process, seconds):
    """Kills a program and its children so many seconds after its start; returns whether it still worked."""
    process.join(seconds)
    if process.exitcode is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:  # it has no group of its own yet, or has just ended
            process.kill()
        process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def _result(output: pathlib.Path) -> dict:
    """Returns all that two runs must have alike: {path: content}."""
    found = {}
    for path in sorted(path for path in output.rglob("*") if path.is_file()):
        name = str(path.relative_to(output))
        if path.name == "history.jsonl":
            found[name] = _lines(path)
        elif path.suffix == ".index":
            tensors = read_tensors(str(path.with_suffix("")))
            found[name] = {key: np.asarray(value).tobytes() for key, value in tensors.items() if key[-8:] != "settings"}
        elif path.name not in UNLIKE and ".data-" not in path.name and "tfevents" not in path.name:
            found[name] = path.read_bytes().replace(str(output).encode(), b"OUT")
    return found


def _lines(path):
    unlike = {"time", "examples_per_second", "tokens_per_second"}
    lines = [line for line in map(json.loads, path.read_text().splitlines()) if line["kind"] != "start"]
    each = [(line["kind"], line["step"]) for line in lines]
    assert len(set(each)) == len(each), each
    return [{key: value for key, value in line.items() if key not in unlike} for line in lines]


def _check_same(output, whole, log):
    ours, theirs = _result(output), _result(whole)
    assert ours.keys() == theirs.keys(), (ours.keys() ^ theirs.keys(), log)
    assert not [name for name in ours if ours[name] != theirs[name]], log


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_killed_at_random_moments_it_comes_to_the_same(home, tmp_path, name, record_property):
    share, flags = PROGRAMS[name]
    left, number = max(1, round(share * KILLS / 100)) if KILLS else 2, 0
    rng = np.random.default_rng([sum(name.encode()), left])
    record_property("kills", left)
    begin = time.monotonic()
    _to_the_end(name, flags, home, tmp_path / "whole")
    seconds = time.monotonic() - begin
    while left:
        output = tmp_path / f"killed-{number}"  # a new one where a run ended before it was to be killed
        begin, before = time.monotonic(), left
        while left and _killed_at(_start(name, flags, home, output), seconds * rng.uniform(0.2, 1)):
            left -= 1
        if left == before > 0:  # the machine was slower when the whole run was timed
            seconds = min(seconds, time.monotonic() - begin)
        _to_the_end(name, flags, home, output)
        _check_same(output, tmp_path / "whole", f"{output}.log")
        number += 1
