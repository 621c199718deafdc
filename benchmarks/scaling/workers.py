"""`pretrain run` in several worker processes on one machine: equal losses, and what happens when one is killed.

    python benchmarks/scaling/workers.py --input_file='records/*' --vocab_file=vocab.txt --output_dir=out [--workers=8]

A tiny BERT is trained three times with the same flags: in one process, in all workers, and in all workers of which one
is killed by SIGKILL and all are started again. The losses of each step are compared.
"""

import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

from absl import app, flags

from bert_tf.utils.ports import free_ports

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLAGS = flags.FLAGS
flags.DEFINE_list("input_file", None, "Records of create_pretraining_data.")
flags.DEFINE_string("vocab_file", None, "Their vocabulary.")
flags.DEFINE_string("output_dir", None, "Directory of the runs; must not exist.")
flags.DEFINE_integer("workers", 8, "Number of worker processes.")
flags.DEFINE_integer("batch_size", 32, "Of all workers together.")
flags.DEFINE_integer("steps", 40, "Steps of a run.")
flags.DEFINE_integer("save_steps", 10, "Steps between two checkpoints.")
flags.DEFINE_integer("max_seq_length", 128, "Of the records.")
flags.DEFINE_integer("max_predictions_per_seq", 20, "Of the records.")
flags.DEFINE_integer("seed", 0, "Selects the worker that is killed.")


def start(name, workers):
    """Starts a run in a subdirectory; returns its processes."""
    folder = pathlib.Path(FLAGS.output_dir) / name
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable, "run_pretraining.py", f"--input_file={','.join(FLAGS.input_file)}",
        f"--vocab_file={FLAGS.vocab_file}", f"--bert_config_file={config_file()}", f"--output_dir={folder}/out",
        "--do_train", f"--train_batch_size={FLAGS.batch_size}", f"--num_train_steps={FLAGS.steps}",
        "--num_warmup_steps=5", "--learning_rate=1e-3", f"--save_checkpoints_steps={FLAGS.save_steps}",
        "--optimizer=lamb", "--precision=float32", f"--max_seq_length={FLAGS.max_seq_length}",
        f"--max_predictions_per_seq={FLAGS.max_predictions_per_seq}",
    ]  # fmt: skip
    names, processes = ",".join(f"127.0.0.1:{port}" for port in free_ports(workers)), []
    for index in range(workers):
        of_worker = ["--distribution_strategy=multi_worker", f"--worker_hosts={names}", f"--task_index={index}"]
        log = open(folder / f"log-{index}", "a")  # noqa: SIM115 (the process has it)
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
        words = command + (of_worker if workers > 1 else [])
        processes.append(subprocess.Popen(words, cwd=ROOT, stdout=log, stderr=log, env=environment))
    return processes


def config_file():
    """Writes the configuration of the model."""
    path = pathlib.Path(FLAGS.output_dir) / "bert_config.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    tokens = pathlib.Path(FLAGS.vocab_file).read_text("utf-8").removesuffix("\n").count("\n") + 1
    config = {
        "vocab_size": tokens, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 128, "max_position_embeddings": 128, "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0, "type_vocab_size": 2, "hidden_act": "gelu", "initializer_range": 0.02,
    }  # fmt: skip
    path.write_text(json.dumps(config))
    return path


@contextlib.contextmanager
def ended(processes):
    """Ends those processes that still run when the block ends, such as the other workers of one that has failed."""
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()  # no more than a look at one that has ended
            process.wait()


def finish(name, processes):
    with ended(processes):
        for index, process in enumerate(processes):
            if process.wait():
                log = pathlib.Path(FLAGS.output_dir, name, f"log-{index}")
                raise RuntimeError(f"{log}: {log.read_text()[-3000:]}")


def losses(name):
    """Returns {step: loss} of a run's history."""
    path = pathlib.Path(FLAGS.output_dir, name, "out", "history.jsonl")
    lines = map(json.loads, path.read_text().splitlines())
    return {line["step"]: line["loss"] for line in lines if line["kind"] == "train"}


def last_step(name):
    try:
        return max(losses(name), default=0)
    except OSError:  # not begun yet
        return 0


def run(name, workers):
    begin = time.perf_counter()
    finish(name, start(name, workers))
    return time.perf_counter() - begin


def run_killed(name, workers):
    """Kills a worker after half of the steps, waits for the others to end, and starts all again."""
    processes, victim = start(name, workers), random.Random(FLAGS.seed).randrange(workers)
    with ended(processes):
        while last_step(name) < FLAGS.steps // 2 + 3:
            if any(process.poll() is not None for process in processes):
                raise RuntimeError(f"A worker has ended before one was killed; see {FLAGS.output_dir}/{name}.")
            time.sleep(0.1)
        processes[victim].send_signal(signal.SIGKILL)
        begin = time.perf_counter()
        statuses = [process.wait() for process in processes]
        seconds = time.perf_counter() - begin
    print(f"worker {victim} killed; the others ended within {seconds:.1f} s, statuses {statuses}")
    return run(name, workers)


def main(_):
    os.makedirs(FLAGS.output_dir)
    print(f"one process: {run('one', 1):.0f} s for {FLAGS.steps} steps")
    print(f"{FLAGS.workers} workers: {run('all', FLAGS.workers):.0f} s", flush=True)
    print(f"started again after a kill: {run_killed('killed', FLAGS.workers):.0f} s", flush=True)
    one = losses("one")
    for name in ("all", "killed"):
        found = losses(name)
        difference = max(abs(found[step] - one[step]) for step in one)
        print(f"{name}: {len(found)} of {len(one)} steps, losses within {difference:.1e} of one process")
    same = losses("all") == losses("killed")
    print(f"killed and resumed, all {FLAGS.workers} workers have {'the same' if same else 'OTHER'} losses")


if __name__ == "__main__":
    flags.mark_flags_as_required(["input_file", "vocab_file", "output_dir"])
    app.run(main)
