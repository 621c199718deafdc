"""Fine-tunes on many of GLUE's tasks, with several seeds and settings, in one command that can be stopped and resumed.

    python -m bert_tf run_glue --glue_dir=glue --tasks=cola,rte,sts-b --init_checkpoint=uncased_L-12_H-768_A-12 \\
        --output_dir=grid --seeds=1,2,3 --grid=paper -- --precision=mixed_bfloat16 --max_seq_length=128

Behind `--` stand flags of run_classifier.py, which makes each run in a process of its own. The same command again goes
on where it was. Scores of all runs: results.tsv, results.json and report.html in --output_dir. See docs/run_glue.md.
"""

import os
import signal
import sys

from absl import logging

from bert_tf import flags

flags.define_run_glue()
FLAGS = flags.FLAGS


def main(others):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # by this exit the running script ends too
    try:
        _make_grid(others) if FLAGS.glue_dir else _only_report(others)
    except (KeyboardInterrupt, SystemExit) as end:
        logging.error("Stopped. The same command goes on where it was.")
        sys.exit(end.code if isinstance(end, SystemExit) else 128 + signal.SIGINT)


def _make_grid(others):
    from bert_tf.glue import child as glue_child
    from bert_tf.glue import comparison as glue_compare
    from bert_tf.glue import grid as glue_grid
    from bert_tf.glue import runs as glue_runs

    glue_child.check_others(others)
    if not FLAGS.init_checkpoint:
        raise ValueError("--init_checkpoint must name the weights to start from. Received none; give a checkpoint.")
    if not (os.path.exists(FLAGS.init_checkpoint) or os.path.exists(f"{FLAGS.init_checkpoint}.index")):
        raise ValueError(
            f"--init_checkpoint must be a directory, file or TF1 prefix. Received {FLAGS.init_checkpoint}, where "
            "nothing is; correct it."
        )
    tasks = glue_runs.find_tasks(FLAGS.tasks, FLAGS.glue_dir)
    runs = glue_runs.plan(tasks, glue_runs.axis("seeds", FLAGS.seeds, int), *_axes())
    if FLAGS.compare:
        glue_compare.best_runs(FLAGS.compare)  # what is wrong with it is said now, not in the morning
    os.makedirs(FLAGS.output_dir, exist_ok=True)
    with glue_runs.claimed(FLAGS.output_dir) as claim:
        grid = glue_grid.Grid(
            FLAGS.output_dir, FLAGS.glue_dir, FLAGS.init_checkpoint, others, runs, FLAGS.keep_models == "all", claim
        )
        grid.train()
        if FLAGS.do_predict and grid.results():
            grid.answer()
        grid.report(_compared() if grid.results() else ())
    logging.info("The page: %s", os.path.join(FLAGS.output_dir, "report.html"))
    if grid.failed:
        raise ValueError(
            f"Every run must end well. Received {len(grid.failed)} that did not: {'; '.join(map(str, grid.failed))}. "
            "Their logs, in their folders, say why; the same command makes only them again."
        )


def _axes():
    from bert_tf.glue.runs import AXES, axis

    kinds = {"train_batch_size": int, "learning_rate": float, "num_train_epochs": float}
    return [axis(name, FLAGS[name].value or AXES[FLAGS.grid][name], kind) for name, kind in kinds.items()]


def _only_report(others):
    """Makes the page of the runs that are there, or compares one run with another."""
    from bert_tf.glue import comparison as glue_compare
    from bert_tf.glue import report as glue_report
    from bert_tf.glue import runs as glue_runs

    if others or FLAGS.tasks or FLAGS.init_checkpoint or FLAGS.do_predict:
        raise ValueError("Runs are made of the folders in --glue_dir. Received none; give --glue_dir.")
    if not os.path.isdir(FLAGS.output_dir):
        raise ValueError(f"--output_dir must hold runs. Received {FLAGS.output_dir!r}, where nothing is; correct it.")
    if glue_compare.is_run(FLAGS.output_dir):  # one run: the report.html there is its own
        if not FLAGS.compare:
            raise ValueError("--output_dir must hold many runs, without --glue_dir. Received one; give --compare.")
        _compared()
        return
    with glue_runs.claimed(FLAGS.output_dir):
        results = glue_runs.all_finished(FLAGS.output_dir)
        if not results:
            raise ValueError(f"--output_dir must hold runs. Received {FLAGS.output_dir}, with none; give --glue_dir.")
        glue_report.write(FLAGS.output_dir, results, {}, glue_runs.made_with(FLAGS.output_dir), _compared())
    logging.info("The page: %s", os.path.join(FLAGS.output_dir, "report.html"))


def _compared():
    """Returns what --compare asks for, and logs it."""
    from bert_tf.glue import comparison as glue_compare

    found = glue_compare.compare(FLAGS.output_dir, FLAGS.compare) if FLAGS.compare else []
    for compared in found:
        logging.info("%s", compared)
    return found


if __name__ == "__main__":
    flags.run(main, takes_texts=True)
