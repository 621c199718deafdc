"""Memory, disk and time of `pretrain data` on a corpus of `corpus.py`.

    python benchmarks/scaling/records.py --vocab_file=vocab.txt --input_file=corpus --output_dir=out \\
        [--megabytes=300,1000,3000] [-- --dupe_factor=1 ...]

Each size is run by itself, on the first files of the corpus.
"""

import json
import os
import pathlib
import shutil
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


def main(argv):
    more, output = argv[1:], pathlib.Path(FLAGS.output_dir).resolve()
    corpus = sorted(pathlib.Path(FLAGS.input_file).iterdir())
    print(f"{'text':>8}  {'time':>8}  {'CPU time':>8}  {'largest process':>15}  {'together':>9}  {'disk':>9}")
    for megabytes in map(int, FLAGS.megabytes):
        files, folder = corpus[: megabytes // FLAGS.file_megabytes], output / f"{megabytes}"
        if len(files) * FLAGS.file_megabytes < megabytes:
            raise ValueError(f"--input_file has {len(corpus)} files; {megabytes} MB need more.")
        shutil.rmtree(folder, ignore_errors=True)  # a stopped measurement would be continued, and take less time
        seconds, cpu, watch = finish(start(files, folder, more), folder)
        memory = f"{watch.largest / 1e6:12.0f} MB  {watch.together / 1e6:6.0f} MB"
        print(f"{megabytes:5d} MB  {seconds:6.0f} s  {cpu:6.0f} s  {memory}  {watch.disk / 1e6:6.0f} MB", flush=True)
        rows = json.loads((folder / "records" / "train_records.json").read_text())["rows"]
        print(f"          {rows:,} records, {size_of(folder / 'records') / rows:.0f} bytes each", flush=True)
        shutil.rmtree(folder)


if __name__ == "__main__":
    flags.mark_flags_as_required(["vocab_file", "input_file", "output_dir"])
    app.run(main)
