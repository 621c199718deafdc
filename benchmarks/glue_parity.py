"""GLUE tasks by `benchmark glue`, beside the torch scores that torch_glue.py kept for the same recipe and seeds.

    python benchmarks/glue_parity.py --model=MINILM --glue_dir=GLUE_FOLDER --output_dir=out

Each difference of the means stands beside its standard error, for seeds 1 to 3 and for all that are kept. The same
command goes on where it was stopped.
"""

import json
import pathlib

import scripts
from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("model", None, "The encoder to start from.", required=True)
flags.DEFINE_string("glue_dir", None, "GLUE's folders.", required=True)
flags.DEFINE_string("output_dir", None, "Where the runs go.", required=True)
flags.DEFINE_list("tasks", None, "Some of the tasks that torch's scores are kept of; default: all of them.")
KEPT = pathlib.Path(__file__).with_name("torch_glue_scores.json")


def ours(task, theirs):
    """Returns our scores by the recipe of `theirs`: {seed: {metric: score on dev}}."""
    out = pathlib.Path(FLAGS.output_dir, task)
    grid = [f"--train_batch_size={theirs['batch']}", f"--learning_rate={theirs['rate']}"]
    grid += [f"--num_train_epochs={theirs['epochs']}", f"--seeds={','.join(theirs['seeds'])}"]
    files = [f"--glue_dir={FLAGS.glue_dir}", f"--init_checkpoint={FLAGS.model}", f"--output_dir={out}"]
    precision = {"bfloat16": "mixed_bfloat16"}.get(theirs["precision"], theirs["precision"])
    others = [f"--precision={precision}", f"--max_seq_length={theirs['max_seq_length']}", "--eval_batch_size=64"]
    scripts.run("-m", "bert_tf", "run_glue", f"--tasks={task.lower()}", *files, *grid, "--", *others)
    runs = json.loads((out / "results.json").read_text(encoding="utf-8"))["runs"]
    names = next(iter(theirs["seeds"].values()))
    return {str(run["seed"]): {name: run[f"eval_{name}"] for name in names} for run in runs}


def main(_):
    for task, theirs in json.loads(KEPT.read_text(encoding="utf-8")).items():
        if FLAGS.tasks and task not in FLAGS.tasks:
            continue
        runs, theirs = ours(task, theirs), theirs["seeds"]
        for name in theirs["1"]:
            a, b = ([scores[seed][name] for seed in theirs] for scores in (runs, theirs))
            print(f"{task} {name}: ours {[round(x, 4) for x in a]}  torch {[round(x, 4) for x in b]}")
            for seeds in sorted({3, len(a)}):
                print(f"{task:6} {scripts.compare(name, a[:seeds], b[:seeds])}", flush=True)


if __name__ == "__main__":
    app.run(main)
