"""GLUE tasks by run_glue, beside the torch scores that torch_glue.py kept for the same recipe and seeds.

    python benchmarks/glue_parity.py --model=MINILM --glue_dir=GLUE_FOLDER --output_dir=out

The same command goes on where it was stopped.
"""

import json
import math
import pathlib
import statistics

import scripts
from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("model", None, "The encoder to start from.", required=True)
flags.DEFINE_string("glue_dir", None, "GLUE's folders.", required=True)
flags.DEFINE_string("output_dir", None, "Where the runs go.", required=True)
flags.DEFINE_list("tasks", None, "Some of the tasks that torch's scores are kept of; default: all of them.")
KEPT = pathlib.Path(__file__).with_name("torch_glue_scores.json")


def ours(task, theirs):
    """Returns our runs by the recipe of `theirs`, with their scores: a dict for each seed."""
    out = pathlib.Path(FLAGS.output_dir, task)
    grid = [f"--train_batch_size={theirs['batch']}", f"--learning_rate={theirs['rate']}"]
    grid += [f"--num_train_epochs={theirs['epochs']}", f"--seeds={','.join(theirs['seeds'])}"]
    files = [f"--glue_dir={FLAGS.glue_dir}", f"--init_checkpoint={FLAGS.model}", f"--output_dir={out}"]
    precision = {"bfloat16": "mixed_bfloat16"}.get(theirs["precision"], theirs["precision"])
    others = [f"--precision={precision}", f"--max_seq_length={theirs['max_seq_length']}", "--eval_batch_size=64"]
    scripts.run("-m", "bert_tf.tools.run_glue", f"--tasks={task.lower()}", *files, *grid, "--", *others)
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    return results["runs"]


def main(_):
    for task, theirs in json.loads(KEPT.read_text(encoding="utf-8")).items():
        if FLAGS.tasks and task not in FLAGS.tasks:
            continue
        runs = ours(task, theirs)
        for name in next(iter(theirs["seeds"].values())):
            a, b = [run[f"eval_{name}"] for run in runs], [run[name] for run in theirs["seeds"].values()]
            error = math.sqrt(statistics.variance(a) / len(a) + statistics.variance(b) / len(b))
            difference = statistics.mean(a) - statistics.mean(b)
            print(f"{task:6} {name:9} ours {statistics.mean(a):.4f} {[round(x, 4) for x in a]}  torch "
                  f"{statistics.mean(b):.4f} {[round(x, 4) for x in b]}  difference {difference:+.4f}  "
                  f"standard error {error:.4f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    app.run(main)
