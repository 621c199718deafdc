"""Sequences that a process can read and parse in a CPU second, and the CPU time to skip those of a resumed run.

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
    """Returns rows per CPU second of all threads, after the first two batches."""
    batches = iter(records.batches(size, 0))
    for _ in range(2):
        next(batches)
    number, begin = max(2, FLAGS.rows // size), time.process_time()
    for _ in range(number):
        next(batches)
    return number * size / (time.process_time() - begin)


def main(_):
    from bert_tf.pretraining.batches import Records

    begin = time.process_time()
    records = Records.of(FLAGS.input_file).for_model(30522, 2)
    print(f"{len(records.paths)} files found and checked in {time.process_time() - begin:.2f} CPU seconds")
    for size in map(int, FLAGS.batch_sizes):
        per_second = rate(records, size)
        print(
            f"batch {size:6d}: {per_second:8,.0f} sequences per CPU second: a core is enough for "
            f"{per_second / FLAGS.device_rate:.0f} devices at {FLAGS.device_rate:g}/s each; "
            f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB",
            flush=True,
        )
    begin = time.process_time()
    next(iter(records.batches(256, 0, FLAGS.skipped // 256)))
    print(f"skipping {FLAGS.skipped:,} rows: {time.process_time() - begin:.1f} CPU seconds")


if __name__ == "__main__":
    flags.mark_flag_as_required("input_file")
    app.run(main)
