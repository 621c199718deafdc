"""Memory, disk and time of create_pretraining_data on a corpus of `corpus.py`, and its resumption after kills.

    python benchmarks/scaling/records.py --vocab_file=vocab.txt --input_file=corpus --output_dir=out \\
        [--megabytes=300,1000,3000] [--kills=0] [-- --dupe_factor=1 ...]

Each size is run by itself, on the first files of the corpus. With --kills, all processes are killed by SIGKILL at that
many random moments and the command is repeated; then the files are compared with those of a run without kills.
"""

import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

from absl import app, flags

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLAGS = flags.FLAGS
flags.DEFINE_string("vocab_file", None, "A token per line.")
flags.DEFINE_string("input_file", None, "Directory of a corpus of corpus.py.")
flags.DEFINE_string("output_dir", None, "Directory of the records; they are removed after each run.")
flags.DEFINE_list("megabytes", ["300", "1000", "3000"], "Sizes of the text, before compression.")
flags.DEFINE_integer("file_megabytes", 10, "Size of a file of the corpus, before compression.")
flags.DEFINE_integer("num_workers", 2, "Processes.")
flags.DEFINE_integer("kills", 0, "How often a run is killed.")
flags.DEFINE_integer("seed", 0, "Of the moments of the kills.")

PAGE = os.sysconf("SC_PAGE_SIZE")
EVERY = 0.5  # seconds between two readings


class Watch(threading.Thread):
    """Reads the memory of a process group, and the disk space of a directory, until it is stopped.

    Attributes:
        largest: most bytes in memory of one process.
        together: of all processes, with pages that they share counted once for each.
        disk: most bytes in the directory.
    """

    def __init__(self, group, directory):
        super().__init__(daemon=True)
        self._group, self._directory, self._over = group, directory, threading.Event()
        self.largest = self.together = self.disk = 0
        self.start()

    def run(self):
        while not self._over.wait(EVERY):
            sizes = [resident(pid) for pid in os.listdir("/proc") if pid.isdigit() and is_in(pid, self._group)]
            self.largest, self.together = max(self.largest, *sizes, 0), max(self.together, sum(sizes))
            self.disk = max(self.disk, size_of(self._directory))

    def stop(self):
        self._over.set()
        self.join()


def is_in(pid, group):
    try:
        return os.getpgid(int(pid)) == group
    except ProcessLookupError:
        return False


def resident(pid):
    try:
        return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except OSError:  # it has ended
        return 0


def size_of(directory):
    """Returns the bytes of all files below a directory."""
    total = 0
    for here, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.lstat(os.path.join(here, name)).st_size
            except OSError:  # it was removed just now
                continue
    return total


def start(files, folder, more):
    listed = folder / "files"
    listed.mkdir(parents=True, exist_ok=True)
    for path in files:
        if not (listed / path.name).exists():
            (listed / path.name).symlink_to(path.resolve())
    command = [
        sys.executable, "-m", "bert_tf", "create_pretraining_data", f"--input_file={listed}",
        f"--vocab_file={FLAGS.vocab_file}", f"--output_file={folder}/records/train.tfrecord",
        "--input_format=sentences", f"--num_workers={FLAGS.num_workers}", *more,
    ]  # fmt: skip
    log = open(folder / "log", "a")  # noqa: SIM115 (the process has it)
    return subprocess.Popen(command, cwd=ROOT, start_new_session=True, stdout=log, stderr=log)


def finish(process, folder):
    """Waits for a run; returns its seconds, the CPU seconds of all its processes, and its `Watch`."""
    begin, watch = time.perf_counter(), Watch(process.pid, folder / "records")
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    watch.stop()
    if status:
        raise RuntimeError((folder / "log").read_text()[-3000:])
    return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime, watch


def hashes(folder):
    """Returns {name: SHA-256} of the record files and what lies beside them, without the lines that hold paths."""
    found = {}
    for path in sorted(path for path in (folder / "records").rglob("*") if path.is_file()):
        data = path.read_bytes().replace(os.fsencode(folder), b"")
        found[str(path.relative_to(folder))] = hashlib.sha256(data).hexdigest()
    return found


def run_killed(files, folder, more, seconds):
    """Runs to the end, with kills at random moments of a run that takes so many seconds; returns all its seconds."""
    rng, worked = random.Random(FLAGS.seed), 0.0
    for number in range(FLAGS.kills):
        process = start(files, folder, more)
        moment = seconds * rng.uniform(0.1, 1) / (1 + FLAGS.kills / 2)
        try:
            process.wait(moment)
            raise RuntimeError(f"It had ended before it was killed. {(folder / 'log').read_text()[-2000:]}")
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        worked += moment
        print(f"killed {number + 1} times, after {moment:.0f} s, with {size_of(folder / 'records') / 1e6:.0f} MB left")
    return worked + finish(start(files, folder, more), folder)[0]


def main(argv):
    more, output = argv[1:], pathlib.Path(FLAGS.output_dir).resolve()
    corpus = sorted(pathlib.Path(FLAGS.input_file).iterdir())
    print(f"{'text':>8}  {'time':>8}  {'CPU time':>8}  {'largest process':>15}  {'together':>9}  {'disk':>9}")
    for megabytes in map(int, FLAGS.megabytes):
        files, folder = corpus[: megabytes // FLAGS.file_megabytes], output / f"{megabytes}"
        if len(files) * FLAGS.file_megabytes < megabytes:
            raise ValueError(f"--input_file has {len(corpus)} files; {megabytes} MB need more.")
        seconds, cpu, watch = finish(start(files, folder, more), folder)
        memory = f"{watch.largest / 1e6:12.0f} MB  {watch.together / 1e6:6.0f} MB"
        print(f"{megabytes:5d} MB  {seconds:6.0f} s  {cpu:6.0f} s  {memory}  {watch.disk / 1e6:6.0f} MB", flush=True)
        if FLAGS.kills:
            killed = output / f"{megabytes}-killed"
            worked = run_killed(files, killed, more, seconds)
            same = hashes(folder) == hashes(killed)
            print(f"with {FLAGS.kills} kills: {worked:.0f} s, {'the same' if same else 'DIFFERENT'} files", flush=True)
            shutil.rmtree(killed)
        rows = json.loads((folder / "records" / "train_records.json").read_text())["rows"]
        print(f"          {rows:,} records, {size_of(folder / 'records') / rows:.0f} bytes each", flush=True)
        shutil.rmtree(folder)


if __name__ == "__main__":
    flags.mark_flags_as_required(["vocab_file", "input_file", "output_dir"])
    app.run(main)
