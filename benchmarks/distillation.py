"""What a teacher is worth: four of its layers taught on text for some minutes, and the same network untaught.

    python benchmarks/distillation.py minilm wikitext2/train.raw.gz,gutenberg/ sst2-tutorial --output_dir=out

Each start is fine-tuned on train.tsv of the last folder by each rate of --learning_rates and with each of --seeds, is
given the rate that is best on dev.tsv over the seeds, and is scored with that on test.tsv. The starts:

    random     four layers of the teacher's shape, random weights
    layers     four of the teacher's layers, by `model edit`
    student    the second, or with --from_random the first, taught by `pretrain run` for --minutes

The student's minutes are those of its steps on this machine, counted from how fast it is at first; the records, which
are made once, are not in them. The same command goes on where it was stopped.
"""

import argparse
import itertools
import json
import pathlib
import shutil
import statistics

import fine_tuned
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
             "--sentence_objective=none", "--dynamic_masking",
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


def main():
    options, folder = _options()
    layers = _once(folder / "layers", lambda path: _program(
        "edit_model", f"--model={options.teacher}", f"--layers={options.layers}", f"--output_dir={path}",
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
    files = {split: f"{options.task}/{split}.tsv" for split in ("train", "dev", "test")}
    trial, means = fine_tuned.trial_of(fine_tuned.TASKS["texts"], files, folder, options), {}
    print(fine_tuned.header("Start"))
    for name in STARTS:
        rate, dev, test = trial.row(name, starts[name])
        print(fine_tuned.shown([name], rate, dev, test), flush=True)
        means[name] = statistics.mean(test)
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
    fine_tuned.add_arguments(parser, rates="3e-5,1e-4,3e-4", seeds="1,2,3", epochs="3", precision="mixed_bfloat16")
    options = parser.parse_args()
    folder = pathlib.Path(options.output_dir).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return options, folder


if __name__ == "__main__":
    main()
