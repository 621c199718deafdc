"""What each option of fine-tuning does to a GLUE task's dev scores; prints a table.

    python benchmarks/fine_tuning_options.py --model=MINILM --data_dir=glue/RTE --output_dir=out --seeds=1,2,3

The same command goes on where it was stopped.
"""

import os
import pathlib
import statistics
import time

import scripts
from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("model", None, "The encoder to start from.", required=True)
flags.DEFINE_string("task_name", "rte", "The task.")
flags.DEFINE_string("data_dir", None, "Its folder.", required=True)
flags.DEFINE_string("output_dir", None, "Where the runs go.", required=True)
flags.DEFINE_list("seeds", ["1"], "Runs of each option.")
flags.DEFINE_list("only", None, "Some of the options, by the flag that the row begins with.")
OPTIONS = (
    (),
    ("--freeze_layers=3",),
    ("--freeze_layers=all",),
    ("--layerwise_lr_decay=0.8",),
    ("--unfreeze_epochs=0.3",),
    ("--reinit_layers=1",),
    ("--early_stopping=2", "--metric_for_best_model=accuracy", "--save_checkpoints_steps=30"),
    ("--class_weights=balanced",),
    ("--label_smoothing=0.1",),
    ("--fit_temperature",),
    ("--long_text=window",),
)


def scored(option, seed):
    """Returns the scores of one run, and the seconds that it took, which are 0 where it had been made before."""
    out = pathlib.Path(FLAGS.output_dir, "-".join(part.strip("-").replace("=", "_") for part in option) or "plain")
    out, start = out / f"seed-{seed}", time.time()
    if not (out / "done").exists():
        recipe = ["--num_train_epochs=3", "--train_batch_size=16", "--learning_rate=5e-5", "--max_seq_length=128"]
        recipe += ["--precision=mixed_bfloat16", "--eval_batch_size=64", f"--seed={seed}", f"--output_dir={out}"]
        data = [f"--task_name={FLAGS.task_name}", f"--data_dir={FLAGS.data_dir}", f"--init_checkpoint={FLAGS.model}"]
        scripts.run("-m", "bert_tf", "run_classifier", "--do_train", "--do_eval", *data, *recipe, *option)
        (out / "done").write_text(f"{time.time() - start}\n", encoding="utf-8")
    return scripts.scores(out) | {"seconds": float((out / "done").read_text(encoding="utf-8"))}


def main(_):
    os.makedirs(FLAGS.output_dir, exist_ok=True)
    names = ("eval_accuracy", "eval_ece", "eval_loss", "seconds")
    print("| Options | Accuracy | ECE | Loss | Seconds |\n|---|---|---|---|---|")
    for option in OPTIONS:
        if FLAGS.only and not any(part.startswith(f"--{name}") for part in option for name in FLAGS.only):
            continue
        runs = [scored(option, seed) for seed in FLAGS.seeds]
        cells = [f"{statistics.mean(run[name] for run in runs):.3f}" for name in names]
        print(f"| {' '.join(f'`{part}`' for part in option) or 'none'} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    app.run(main)
