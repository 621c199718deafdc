"""What a user can get wrong: one clear message, no traceback, status 1, and nothing half-made on the disk."""

import json
import os
import re
import shutil

import pytest

from tests import glue_files, tiny
from tests.checkpoints import hostile_files
from tests.scripts import Cases, files, run_programs

LIMIT = 40_000  # bytes a file may grow to: less than a checkpoint of the tiny model, more than what lies beside it


def _glue(folder):
    """GLUE's MRPC: quality, two ids, two texts; the test file has an index instead of the quality."""
    folder.mkdir()
    for name, n in (("train", 32), ("dev", 12)):
        rows = [(label, "1", "2", text, "is it") for text, label in tiny.texts(n, seed=n)]
        tiny.write_tsv(folder / f"{name}.tsv", rows, "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String")
    rows = [(str(i), "1", "2", text, "is it") for i, (text, _) in enumerate(tiny.texts(7, seed=7))]
    tiny.write_tsv(folder / "test.tsv", rows, "index\t#1 ID\t#2 ID\t#1 String\t#2 String")


def _hostile(folder):
    """Models that would take all memory, or end in a traceback."""
    tiny.checkpoint(folder / "hostile")
    for path in (folder / "hostile").glob("bert_model.ckpt*"):
        path.unlink()
    hostile_files.CASES["a stride of 0"][1](folder / "hostile" / hostile_files.BIN)
    (folder / "nested").mkdir()
    hostile_files.CASES["a configuration nested deeply"][1](folder / "nested" / hostile_files.CONFIG)
    tiny.config(num_hidden_layers=9999).save(folder / "layers.json")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with good and with broken files; the good ones are what the cases differ from."""
    folder = tmp_path_factory.mktemp("bad_input")
    tiny.checkpoint(folder / "init")
    tiny.checkpoint(folder / "cut")
    data = folder / "cut" / "bert_model.ckpt.data-00000-of-00001"
    os.truncate(data, data.stat().st_size // 2)
    tiny.checkpoint(folder / "vocab", vocab=(*tiny.VOCAB, "far", "near"))
    _hostile(folder)
    rows = tiny.texts(32)
    tiny.write_tsv(folder / "train.tsv", rows)
    tiny.write_tsv(folder / "ask.tsv", [(text,) for text, _ in tiny.texts(1500, 3)], "text")
    tiny.write_tsv(folder / "stranger.tsv", [*tiny.texts(3), ("good film", "perhaps")])
    (folder / "served" / "7").mkdir(parents=True)
    (folder / "served" / "7" / "saved_model.pb").write_bytes(b"")
    (folder / "empty.tsv").write_text("")
    tiny.write_tsv(folder / "header.tsv", [])
    tiny.write_tsv(folder / "same.tsv", [(text, "1") for text, _ in tiny.texts(32)])
    tiny.write_tsv(folder / "short.tsv", [*rows[:2], ("no label here",)])
    _glue(folder / "glue")
    glue_files.diagnostic(folder / "ax")
    scores = glue_files.sts_b(folder / "sts-b") / "train.tsv"
    scores.write_text(scores.read_text().replace("0.400", "-0.400", 1))
    questions = glue_files.qnli(folder / "qnli") / "test.tsv"
    questions.write_text(questions.read_text().replace("\n2\t", "\n1\t"))
    return folder


TRAIN = ["--train_file=HOME/train.tsv", "--init_checkpoint=HOME/init", "--do_train", "--train_batch_size=8",
         "--max_seq_length=16", "--num_train_epochs=2", "--save_checkpoints_steps=4"]  # fmt: skip
DONE = [*TRAIN, "--output_dir=HOME/done"]
GLUE = ["--task_name=MRPC", "--data_dir=HOME/glue", *TRAIN[1:], "--do_eval", "--do_predict", "--output_dir=HOME/mrpc"]


def _but(*changes):
    """Returns TRAIN with some flags added or replaced."""
    names = {change.split("=")[0] for change in changes}
    return [a for a in TRAIN if a.split("=")[0] not in names] + list(changes)


# Name -> (arguments, what the message must say). Without --output_dir the output is HOME/out, which must not appear.
BAD = {
    "a missing column": (
        _but("--text_column=sentence"),
        r"train\.tsv:1: missing column 'sentence' \(--text_column\)\. Found the columns \['text', 'label",
    ),
    "a row without the column": (
        _but("--train_file=HOME/short.tsv"),
        r"short\.tsv:4: a row must have at least 2 columns, .* got 1: \['no label here'\]; correct this line",
    ),
    "a label that training did not see": (
        _but("--eval_file=HOME/stranger.tsv", "--do_eval"),
        r"stranger\.tsv:5: the label must be one of those in the training data: \['0', '1'\]; got 'perhaps'",
    ),
    "an empty file": (_but("--train_file=HOME/empty.tsv"), r"empty\.tsv contains no examples\. Check"),
    "a header alone": (_but("--train_file=HOME/header.tsv"), r"header\.tsv contains no examples\. Check"),
    "a file that is not there": (
        _but("--train_file=HOME/nowhere.tsv"),
        r"File not found: .*nowhere\.tsv .--train_file.\. Check its spelling",
    ),
    "no file at all": (TRAIN[1:], r"--do_train requires examples\. Pass --train_file, or --task_name"),
    "too few examples": (_but("--train_batch_size=100"), "Nothing to train: 32 examples"),
    "a half-written checkpoint": (
        _but("--init_checkpoint=HOME/cut"),
        r"cut/bert_model\.ckpt is not a complete TF1 checkpoint \(\.index and \.data\): .*Copy it again, or use",
    ),
    "a checkpoint made to do harm": (
        _but("--init_checkpoint=HOME/hostile"),
        r"hostile/pytorch_model\.bin is not a complete torch file .*more numbers than the 4 of its storage\. Download",
    ),
    "a configuration nested deeply": (
        _but("--init_checkpoint=HOME/nested"), r"nested/config\.json must be a BERT configuration .*maximum recursion"
    ),
    "a configuration that is not that of the weights": (
        _but("--init_checkpoint=HOME/init", "--bert_config_file=HOME/layers.json"),
        r"does not match the weights in HOME/init.*: num_hidden_layers 9999, but layers \[0\] in the weights\. Use the",
    ),
    "no checkpoint where it should be": (_but("--init_checkpoint=HOME/no/bert_model.ckpt"), r"HOME/no"),
    "no checkpoint and no shape": (
        [a for a in TRAIN if not a.startswith("--init")],
        r"No model to start from: pass --init_checkpoint",
    ),
    "a vocabulary that does not fit": (
        _but("--init_checkpoint=HOME/vocab"),
        rf"does not match the embedding table of {len(tiny.VOCAB)} rows: .*vocab.* has {len(tiny.VOCAB) + 2} tokens",
    ),
    "longer than the positions": (
        _but("--max_seq_length=64"),
        r"--max_seq_length must be at most 32, max_position_embeddings of the checkpoint; got 64\.",
    ),
    "an explanation of what is no one row's answer": (
        [*TRAIN, "--long_text=window", "--do_export", "--export_explanations=attributions"],
        r"--export_explanations=attributions cannot explain a model that averages over the windows",
    ),
    "an export into a version": (
        [*TRAIN, "--do_export", "--export_dir=HOME/served/7"],
        r"--export_dir must be a model's directory, .*served/7 is itself a version .*Use its parent directory",
    ),
    "an explanation in bfloat16": (
        [*TRAIN, "--do_export", "--export_explanations=attention,attributions", "--export_dtype=bfloat16"],
        r"--export_explanations=attributions requires --export_dtype=float32: .* bfloat16 are too inexact\. Change one",
    ),
    "an explanation of integers": (
        [*TRAIN, "--do_export", "--export_explanations=attention", "--export_dtype=int8"],
        r"--export_explanations and --export_dtype=int8 cannot be combined",
    ),
    "a tolerance of int8 without int8": (
        [*TRAIN, "--do_export", "--int8_tolerance=0.02"],
        r"--int8_tolerance requires --export_dtype=int8; got --export_dtype=float32\. Change",
    ),
    "texts to calibrate what is not calibrated": (
        [*TRAIN, "--do_export", "--calibration_file=texts.txt", "--export_dtype=int8"],
        r"--calibration_file requires --export_for=cpu; got --export_for=portable\. Change",
    ),
    "texts to calibrate that are not there": (
        [*TRAIN, "--do_export", "--calibration_file=HOME/none.txt", "--export_dtype=int8", "--export_for=cpu"],
        r"none\.txt",
    ),
    "texts to calibrate what is not exported": (
        [*TRAIN, "--calibration_file=HOME/ask.tsv", "--export_dtype=int8", "--export_for=cpu"],
        r"--calibration_file requires --do_export, because .*Add --do_export",
    ),
    "a tolerance of int8 without scores": (
        [*TRAIN, "--do_export", "--int8_tolerance=0.02", "--export_dtype=int8"],
        r"--int8_tolerance requires --do_eval\. Add",
    ),
    "a test file that is not scored": (
        [*TRAIN, "--test_file=HOME/ask.tsv"], r"--test_file requires --do_eval\. Add --do_eval, or remove --test_file",
    ),
    "the evaluation file as the test file": (
        [*TRAIN, "--do_eval", "--eval_file=HOME/train.tsv", "--test_file=HOME/train.tsv"],
        r"--test_file and --eval_file must be different files; got .*train\.tsv",
    ),
    "a test file with a label that training did not see": (
        [*TRAIN, "--do_eval", "--eval_file=HOME/train.tsv", "--test_file=HOME/stranger.tsv"],
        r"stranger\.tsv:5: the label must be one of those in the training data: \['0', '1'\]; got 'perhaps'",
    ),
    "thresholds of labels that are one": (
        [*TRAIN, "--do_eval", "--eval_file=HOME/stranger.tsv", "--fit_thresholds"],
        r"--fit_thresholds requires --problem_type=multi_label, but the problem is single_label\. "
        r"Set --problem_type=multi_label, or remove --fit_thresholds",
    ),
    "a separator of labels that are one": (
        [*TRAIN, "--label_separator=;"], r"--label_separator requires --problem_type=multi_label",
    ),
    "freezing what is random": (
        [a for a in TRAIN if not a.startswith("--init")]
        + ["--bert_config_file=HOME/init/bert_config.json", "--vocab_file=HOME/init/vocab.txt", "--freeze_layers=1"],
        r"--freeze_layers and --unfreeze_epochs require --init_checkpoint: ",
    ),
    "one label in all examples": (
        _but("--train_file=HOME/same.tsv"),
        r"same\.tsv: at least two labels are needed .* got '1' in all 32 examples; check --label_column",
    ),
    "nothing to do": (
        [a for a in TRAIN if a != "--do_train"],
        r"Nothing to do: pass at least one of --do_train, .*, --do_export, --dry_run\.",
    ),
    "an unknown metric": (
        _but("--metric_for_best_model=bleu", "--eval_file=HOME/train.tsv"),
        r"--metric_for_best_model must be one of \['accuracy', .*\]; got 'bleu'",
    ),
    "metric_for_best_model without training": (
        ["--metric_for_best_model=f1", "--do_eval", "--eval_file=HOME/train.tsv", "--init_checkpoint=HOME/init"],
        r"--metric_for_best_model requires --do_train\. Add --do_train, or remove --metric_for_best_model\.",
    ),
    "scoring what was never trained": (
        ["--do_eval", "--eval_file=HOME/train.tsv", "--init_checkpoint=HOME/init", "--max_seq_length=16"],
        r"--do_eval and --do_predict require a trained model, but this one has no labels\.txt\. Train it first",
    ),
    "scoring nothing": (["--do_eval", "--eval_file=HOME/train.tsv"], r"No model to start from"),
    "scoring a task that was never trained": (
        ["--do_eval", "--task_name=mrpc", "--data_dir=HOME/glue", "--init_checkpoint=HOME/init", "--max_seq_length=16"],
        r"has no head for this task\. Train one with --do_train\.",
    ),
    "other settings than the run's": (
        [*DONE, "--learning_rate=1e-4"],
        r"only resume with the settings that it began with \(.*done/model\.ckpt-8\)\. Changed: learning_rate: 5e-05 "
        r"before, 0\.0001 now\. Use another --output_dir, or pass --overwrite_output_dir",
    ),
    "beginning anew from a half-written checkpoint": (
        [*DONE, "--overwrite_output_dir", "--init_checkpoint=HOME/cut"],
        r"cut/bert_model\.ckpt is not a complete TF1 checkpoint",
    ),
    "a score off the scale": (
        ["--task_name=sts-b", "--data_dir=HOME/sts-b", *TRAIN[1:]],
        r"sts-b/train\.tsv:\d+: the score must be a number from 0 to 5; got '-0\.400' in column 'score'; corr",
    ),
    "one id twice": (
        ["--task_name=qnli", "--data_dir=HOME/qnli", *TRAIN[1:], "--do_predict"],
        r"qnli/test\.tsv:4: the ids of a file must be unique; got '1', which .*test\.tsv:3; give one",
    ),
    "a task that cannot be trained": (
        ["--task_name=ax", "--data_dir=HOME/ax", *TRAIN[1:]],
        r"--task_name=ax only has the splits test; got train; train on a task with the same labels",
    ),
    "a name where a number must be": (
        _but("--train_file=HOME/stranger.tsv", "--problem_type=regression"),
        r"stranger\.tsv:5: the score must be a number; got 'perhaps' in column 'label'; correct this line",
    ),
    "weights of labels that are numbers": (
        _but("--problem_type=regression", "--class_weights=balanced"),
        r"--class_weights requires labels, but the targets are numbers\. Remove it\.",
    ),
    "another problem than the model's": (
        ["--do_predict", "--predict_file=HOME/train.tsv", "--problem_type=multi_label", "--output_dir=HOME/done",
         "--max_seq_length=16"],
        r"--problem_type must match the trained model's, single_label; got multi_label; omit it",
    ),
    "pairs for a model of single texts": (
        ["--do_predict", "--task_name=qnli", "--data_dir=HOME/qnli", "--output_dir=HOME/done", "--max_seq_length=16"],
        r"The trained model does not match the data: it is for single_label with text, but the data is for",
    ),
    "windows for a model without": (
        ["--do_predict", "--predict_file=HOME/train.tsv", "--long_text=window", "--output_dir=HOME/done",
         "--max_seq_length=16"],
        r"--long_text, --doc_stride and --max_windows must match the trained model's, no windows; got ",
    ),
    "a temperature for a model elsewhere": (
        ["--do_eval", "--fit_temperature", "--eval_file=HOME/train.tsv", "--init_checkpoint=HOME/done",
         "--max_seq_length=16"],
        r"--fit_temperature is stored with the trained model, but --output_dir, .*/out, contains no trained",
    ),
    "a language of a task in English alone": (
        [*GLUE, "--xnli_language=de"],
        r"--xnli_language must be omitted for a task that is English only; got 'de' with --task_name=mrpc\.",
    ),
    "an argument that is no flag": ([*DONE, "train.tsv"], r"must have the form --flag=value; got 'train\.tsv'"),
}  # fmt: skip
FULL = {  # name -> arguments; run with LIMIT on the size of a file
    "a full disk at the first checkpoint": [*TRAIN, "--output_dir=HOME/full"],
    "a full disk on the way": [*TRAIN, "--output_dir=HOME/stopped"],
    "a full disk at the answers": [
        "--do_predict", "--predict_file=HOME/ask.tsv", "--max_seq_length=16", "--output_dir=HOME/done"],
}  # fmt: skip
GOOD = {
    "trained": DONE,
    "answered": [
        *FULL["a full disk at the answers"][:1],
        "--predict_file=HOME/train.tsv",
        "--max_seq_length=16",
        "--output_dir=HOME/done",
    ],
    "finished": DONE,
}
FLAGS = {
    "an unknown flag": ([*TRAIN, "--learning_rat=1"], "Unknown flag --learning_rat. Did you mean --learning_rate"),
    "a value out of range": (_but("--warmup_proportion=2"), "--warmup_proportion must be a number from 0 to 1; got 2"),
    "a value of the wrong kind": (_but("--precision=fp16"), "--precision must be one of auto, float32, mixed_bf"),
}  # fmt: skip


@pytest.fixture(scope="module")
def run(home):
    """Runs a command line, and returns {"status", "log"}; all of them in one process."""
    with Cases("run_classifier") as program:

        def run(arguments, limit=None):
            out = [] if any(a.startswith("--output_dir") for a in arguments) else ["--output_dir=HOME/out"]
            return program.run([a.replace("HOME", str(home)) for a in (*arguments, *out)], limit)

        yield run


@pytest.fixture(scope="module")
def good(home, run):
    """What good runs say; afterwards HOME/done is finished and HOME/stopped is what a kill after step 4 leaves."""
    results = {name: run(arguments) for name, arguments in GOOD.items()}
    stopped = home / "stopped"
    shutil.copytree(home / "done", stopped)
    for path in stopped.glob("model.ckpt-8.*"):
        path.unlink()
    return results


@pytest.fixture(scope="module")
def bad(home, good, run):
    """What every bad case says."""
    before = files(home)
    results = {name: run(arguments) for name, (arguments, _) in {**BAD, **FLAGS}.items()}
    assert files(home) == before  # not one file was made, changed or lost
    assert not (home / "out").exists()
    return results


@pytest.fixture(scope="module")
def full(home, bad, run):
    before = {name: files(home / name) for name in ("stopped", "done")}
    return before, {name: run(arguments, LIMIT) for name, arguments in FULL.items()}


def _check(result, message):
    assert result["status"] == 1, result["log"]
    assert "Traceback" not in result["log"], result["log"]
    assert len(re.findall("Error: ", result["log"])) == 1, result["log"]
    assert re.search(message, result["log"]), result["log"]


@pytest.mark.slow
@pytest.mark.parametrize("name", BAD)
def test_one_clear_message(bad, home, name):
    _check(bad[name], BAD[name][1].replace("HOME", re.escape(str(home))))


@pytest.mark.slow
@pytest.mark.parametrize("name", FLAGS)
def test_a_flag_that_does_not_exist_or_fit(bad, name):
    _check(bad[name], re.escape(FLAGS[name][1]))


@pytest.mark.slow
def test_a_full_disk_before_anything_was_saved(full, home):
    said = r"model\.ckpt-4 could not be written: .*The partial file was removed, and older checkpoints are unchanged"
    _check(full[1]["a full disk at the first checkpoint"], said)
    there = os.listdir(home / "full")
    assert not [name for name in there if "ckpt" in name or "tmp" in name or name in ("checkpoint", "eval_results.txt")]


@pytest.mark.slow
def test_a_full_disk_leaves_the_older_checkpoints(full, home):
    before, results = full
    _check(results["a full disk on the way"], r"model\.ckpt-8 could not be written: .*older checkpoints are unch")
    after = files(home / "stopped")
    assert "Continuing this run from step 4" in results["a full disk on the way"]["log"]
    # The first were only added to, the record is of the latest start. The page is drawn anew where it fits, which hangs
    # on how long the paths in it are.
    others = {name for name in after if name.startswith("train/")} | {"history.jsonl", "report.html", "run.json"}
    assert after.keys() == before["stopped"].keys() | others
    assert {n: v for n, v in after.items() if n not in others} == {
        n: v for n, v in before["stopped"].items() if n not in others}  # fmt: skip


@pytest.mark.slow
def test_a_full_disk_leaves_the_old_answers(full, home):
    before, results = full
    _check(results["a full disk at the answers"], r"Error: .*File too large: '.*done/test_results\.tsv'")
    assert {"test_results.tsv", "predictions.jsonl"} < before["done"].keys()
    assert files(home / "done") == before["done"]


@pytest.mark.slow
def test_the_good_runs_end_well(good):
    for name, result in good.items():
        assert result["status"] == 0, (name, result["log"])


@pytest.mark.slow
def test_a_finished_run_started_again_makes_no_step(good):
    assert "Continuing this run from step 8: " in good["finished"]["log"]
    assert "loss" in good["trained"]["log"] and not re.search(r"step \d+/", good["finished"]["log"])


@pytest.mark.slow
def test_glue(tmp_path):
    tiny.checkpoint(tmp_path / "init")
    _glue(tmp_path / "glue")
    (done,) = run_programs("run_classifier", [[flag.replace("HOME", str(tmp_path)) for flag in GLUE]])
    assert done["status"] == 0, done["log"]
    scores = dict(line.split(" = ") for line in (tmp_path / "mrpc" / "eval_results.txt").read_text().splitlines())
    assert set(scores) == {"eval_accuracy", "eval_ece", "eval_f1", "eval_loss", "global_step"}
    assert scores["global_step"] == "8"
    assert (tmp_path / "mrpc" / "labels.txt").read_text() == "0\n1\n"
    answers = [json.loads(line) for line in (tmp_path / "mrpc" / "predictions.jsonl").read_text().splitlines()]
    assert [answer["id"] for answer in answers] == [str(i) for i in range(7)]
    assert [answer["text_a"] for answer in answers] == [text for text, _ in tiny.texts(7, seed=7)]
