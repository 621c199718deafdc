"""What a teacher is worth: four of its layers taught on text for some minutes, and the same network untaught.

    python benchmarks/distillation.py minilm wikitext2/train.raw.gz,gutenberg/ sst2-tutorial --output_dir=out

Each start is fine-tuned on train.tsv of the last folder by each rate of --learning_rates and with each of --seeds, is
given the rate that is best on dev.tsv over the seeds, and is scored with that on test.tsv. The starts:

    random     four layers of the teacher's shape, random weights
    layers     four of the teacher's layers, by `surgery`
    student    the second, or with --from_random the first, taught by run_pretraining for --minutes

The student's minutes are those of its steps on this machine, counted from how fast it is at first; the records, which
are made once, are not in them. The same command goes on where it was stopped.
"""

import argparse
import itertools
import json
import os
import pathlib
import shutil
import statistics

import scripts

STARTS = ("random", "layers", "student")
_TRIAL, _SETTLED = 40, 15  # steps to find out how fast it is, and those at first that do not count


def _program(name, *flags):
    scripts.run("-m", "bert_tf", name, *flags)


def _once(path, make):
    """Calls make(path) unless the path is there; returns the path."""
    if not path.exists():
        make(path)
    return path


def _records(options, path):
    _program("create_pretraining_data", f"--input_file={options.texts}", f"--vocab_file={options.teacher}/vocab.txt",
             f"--output_file={path}", f"--max_seq_length={options.row}",
             f"--max_predictions_per_seq={options.row // 6}", "--sentence_objective=none", "--dynamic_masking",
             f"--dupe_factor={options.dupe_factor}")  # fmt: skip


def _random_start(options, layers):
    """Returns the flags of a network like that in the folder `layers`, without its weights."""
    return [f"--bert_config_file={layers}/bert_config.json", f"--vocab_file={layers}/vocab.txt"]


def _taught(options, start, records, path, steps):
    _program("run_pretraining", "--objective=distillation", f"--teacher={options.teacher}", *start,
             f"--input_file={records}", f"--output_dir={path}", "--do_train", f"--max_seq_length={options.row}",
             f"--max_predictions_per_seq={options.row // 6}", f"--train_batch_size={options.batch}",
             f"--num_train_steps={steps}", f"--num_warmup_steps={max(1, steps // 20)}", "--schedule=trapezoid",
             f"--learning_rate={options.teaching_rate}", f"--distillation_losses={options.losses}",
             f"--precision={options.precision}", "--save_checkpoints_steps=1000")  # fmt: skip


def _steps(options, start, records, path):
    """Writes how many steps fit into the minutes."""
    trial = path.parent / "trial"
    shutil.rmtree(trial, ignore_errors=True)
    _taught(options, start, records, trial, _TRIAL)
    lines = map(json.loads, (trial / "history.jsonl").read_text(encoding="utf-8").splitlines())
    rates = [line["examples_per_second"] for line in lines if line["kind"] == "train" and line["step"] > _SETTLED]
    steps = max(1, int(options.minutes * 60 * statistics.median(rates) / options.batch))
    path.write_text(json.dumps(steps), encoding="utf-8")


def _score(options, start, file, rate, seed, folder):
    """Fine-tunes, once, and returns the accuracy on a file of the task."""
    results = folder / f"{file}.json"
    if not results.exists():
        flags = ["--header=false", "--text_column=0", "--label_column=1", "--max_seq_length=64", "--eval_batch_size=64"]
        if not list(folder.glob("*.json")):
            flags += [*start, "--do_train", f"--train_file={options.train_file}", f"--seed={seed}",
                      f"--learning_rate={rate}", f"--num_train_epochs={options.epochs}"]  # fmt: skip
        _program("run_classifier", *flags, "--do_eval", f"--eval_file={options.task}/{file}.tsv",
                 f"--output_dir={folder}")  # fmt: skip
        results.write_text(json.dumps(scripts.scores(folder)), encoding="utf-8")
    return 100 * json.loads(results.read_text(encoding="utf-8"))["eval_accuracy"]


def _row(options, name, start, folder):
    """Prints what a start is worth, and returns its mean on the test file."""

    def scores(file, rate):
        return [_score(options, start, file, rate, s, folder / f"{name}-{rate}-{s}") for s in options.seeds]

    rate = max(options.learning_rates, key=lambda rate: statistics.mean(scores("dev", rate)))
    found = [scores(file, rate) for file in ("dev", "test")]
    dev, test = map(statistics.mean, found)
    spread = statistics.stdev(found[1]) if len(found[1]) > 1 else 0.0
    print(f"{name:10} {rate:>8} {dev:8.2f} {test:8.2f} {spread:8.2f}", flush=True)
    return test


def main():
    options, folder = _options()
    layers = _once(folder / "layers", lambda path: _program(
        "surgery", f"--model={options.teacher}", f"--layers={options.layers}", f"--output_dir={path}",
    ))  # fmt: skip
    starts = {"random": _random_start(options, layers), "layers": [f"--init_checkpoint={layers}"]}
    records = _once(folder / "train.tfrecord", lambda path: _records(options, path))
    begin = starts["random" if options.from_random else "layers"]
    note, student = folder / "steps.json", folder / "student"
    steps = json.loads(_once(note, lambda path: _steps(options, begin, records, path)).read_text(encoding="utf-8"))
    if not (student / f"model.ckpt-{steps}.index").exists():
        _taught(options, begin, records, student, steps)
    starts["student"] = [f"--init_checkpoint={student}"]
    print(f"{steps} steps of {options.batch} rows of {options.row}")
    print(f"{'start':10} {'rate':>8} {'dev, %':>8} {'test, %':>8} {'spread':>8}")
    means = {name: _row(options, name, starts[name], folder / "fine_tuned") for name in STARTS}
    for one, other in itertools.combinations(STARTS, 2):
        print(f"{other} - {one}: {means[other] - means[one]:+.1f} points")


def _options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("teacher", help="a model's folder, with vocab.txt")
    parser.add_argument("texts", help="files and folders, with commas between them")
    parser.add_argument("task", help="a folder with train.tsv, dev.tsv and test.tsv: text, tab, label")
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--layers", default="0,2,4,5", help="of the teacher, that the student starts from")
    parser.add_argument("--from_random", action="store_true")
    parser.add_argument("--losses", default="query_relations,key_relations,value_relations,hidden")
    parser.add_argument("--teaching_rate", default="2e-4")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--row", type=int, default=64, help="pieces")
    parser.add_argument("--dupe_factor", type=int, default=1)
    parser.add_argument("--precision", default="mixed_bfloat16")
    parser.add_argument("--seeds", type=lambda text: text.split(","), default=["1", "2", "3"])
    parser.add_argument("--learning_rates", type=lambda text: text.split(","), default=["3e-5", "1e-4", "3e-4"])
    parser.add_argument("--epochs", default="3")
    parser.add_argument("--num_examples", type=int, help="rows of train.tsv; default: all")
    options = parser.parse_args()
    folder = pathlib.Path(options.output_dir).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    rows = pathlib.Path(options.task, "train.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    options.train_file = os.fspath(folder / "train.tsv")
    pathlib.Path(options.train_file).write_text("".join(rows[: options.num_examples]), encoding="utf-8")
    return options, folder


if __name__ == "__main__":
    main()
