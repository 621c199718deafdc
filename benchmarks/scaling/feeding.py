"""Sequences a second that one process can read, parse and hand to its devices, and what a resumed run skips.

    python benchmarks/scaling/feeding.py --input_file='records/*' [--batch_sizes=256,4096,65536]

Every worker reads the whole global batch, so each must keep up with the devices of all workers together.
"""

import os
import resource
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_list("input_file", None, "Records of create_pretraining_data.")
flags.DEFINE_list("batch_sizes", ["256", "4096", "65536"], "Global batches.")
flags.DEFINE_integer("rows", 400_000, "Rows to read for each.")
flags.DEFINE_integer("skipped", 1_000_000, "Rows that a resumed run skips.")
flags.DEFINE_float("device_rate", 485, "Sequences a second of one device: phase 1 of BERT-large on an A100.")


def rate(records, size):
    """Returns rows per second, after the first two batches, and the CPU seconds per million rows."""
    batches = iter(records.batches(size, 0))
    for _ in range(2):
        next(batches)
    number, begin, cpu = max(2, FLAGS.rows // size), time.perf_counter(), time.process_time()
    for _ in range(number):
        next(batches)
    rows = number * size
    return rows / (time.perf_counter() - begin), (time.process_time() - cpu) / rows * 1e6


def main(_):
    from bert_tf.pretraining.batches import Records

    begin = time.perf_counter()
    records = Records.of(FLAGS.input_file).for_model(30522, 2)
    print(f"{len(records.paths)} files found and checked in {time.perf_counter() - begin:.2f} s")
    for size in map(int, FLAGS.batch_sizes):
        per_second, cpu = rate(records, size)
        print(
            f"batch {size:6d}: {per_second:8,.0f} sequences/s, {cpu:.1f} CPU seconds per million: enough for "
            f"{per_second / FLAGS.device_rate:.0f} devices at {FLAGS.device_rate:g}/s each, "
            f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB",
            flush=True,
        )
    begin = time.perf_counter()
    next(iter(records.batches(256, 0, FLAGS.skipped // 256)))
    print(f"skipping {FLAGS.skipped:,} rows: {time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    flags.mark_flag_as_required("input_file")
    app.run(main)
