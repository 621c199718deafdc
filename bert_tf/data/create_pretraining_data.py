"""Makes records for pretraining out of text.

    python -m bert_tf.data.create_pretraining_data --input_file=corpus/ --vocab_file=vocab.txt \\
      --output_file=records/train.tfrecord.gz --num_shards=8

--input_file takes files, globs and folders. Beside the records it writes a report as text and as a page with plots.
"""

import os
import re
import signal
import sys

from absl import logging

from bert_tf import flags

flags.define_corpus()
flags.define_pretraining_data()
FLAGS = flags.FLAGS


def main():
    from bert_tf.data.pretraining import report
    from bert_tf.data.pretraining.job import create_pretraining_data
    from bert_tf.data.pretraining.pieces import Pieces
    from bert_tf.files import write_text

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an orderly end, which removes what is half-made
    job, vocabulary = make_job()
    if FLAGS.runner:
        from bert_tf.data.pretraining.beam import run_pipeline

        statistics = run_pipeline(job, FLAGS.runner, FLAGS.beam_options)
    else:
        statistics = create_pretraining_data(job)
    pieces = Pieces.of(vocabulary.pieces)
    text = report.as_text(statistics, job.options, pieces)
    name = report_name(FLAGS.output_file)
    write_text(f"{name}.txt", text)
    write_text(f"{name}.html", report.as_page(statistics, job.options, pieces))
    print(text)
    logging.info("Wrote %d file(s), such as %s, and %s.html.", len(job.output_files), job.output_files[0], name)


def make_job():
    """Returns what the flags ask for: a `Job`, and its vocabulary."""
    from bert_tf.data.pretraining.job import Job
    from bert_tf.text import files
    from bert_tf.tokenization.vocabulary import resolve_case

    paths = files.find(FLAGS.input_file)
    formats = files.formats_of(paths, FLAGS.input_format, FLAGS.language)
    vocabulary = read_vocabulary()
    job = Job(
        paths,
        formats,
        output_files(FLAGS.output_file, FLAGS.num_shards),
        FLAGS.vocab_file,
        resolve_case(os.path.dirname(os.path.abspath(FLAGS.vocab_file)), FLAGS.do_lower_case),
        make_options(),
        FLAGS.num_workers or len(os.sched_getaffinity(0)),
        FLAGS.work_dir,
    )
    return job, vocabulary


def read_vocabulary():
    """Returns the `Vocabulary` of --vocab_file, which must have a [MASK]."""
    from bert_tf.tokenization.vocabulary import Vocabulary

    vocabulary = Vocabulary.read(FLAGS.vocab_file)
    if vocabulary.id_of("[MASK]") is None:
        raise ValueError(
            f"The vocabulary must hold [MASK]. Received {FLAGS.vocab_file} without it; append it as a line of its own, "
            "or learn a vocabulary with python -m bert_tf.tokenization.train_vocabulary."
        )
    return vocabulary


def make_options():
    """Returns the `Options` that the flags describe."""
    from bert_tf.data.pretraining.options import Options
    from bert_tf.text.documents import TextOptions

    if FLAGS.do_whole_word_mask and FLAGS["masking"].present and FLAGS.masking != "whole_word":
        raise ValueError(
            f"--do_whole_word_mask must not contradict --masking. Received --masking={FLAGS.masking}; leave one out."
        )
    if FLAGS["max_sentences_per_seq"].present and not FLAGS.packing:
        logging.warning("--max_sentences_per_seq has no effect without --packing.")
    text = {name: FLAGS[name].value for name in ("text_column", "document_start", "language", "drop_junk_lines")}
    names = (
        "max_seq_length", "max_predictions_per_seq", "masked_lm_prob", "short_seq_prob", "dupe_factor", "random_seed",
        "sentence_objective", "packing", "max_sentences_per_seq", "dynamic_masking", "drop_duplicate_lines",
    )  # fmt: skip
    masking = "whole_word" if FLAGS.do_whole_word_mask else FLAGS.masking
    return Options(**{name: FLAGS[name].value for name in names}, masking=masking, text=TextOptions(**text))


def output_files(output_file: list[str], num_shards: int | None) -> list[str]:
    """Returns the paths to write: those given, or num_shards made from the one given.

    Raises:
        ValueError: num_shards with several paths, or the same path twice.
    """
    if num_shards and len(output_file) > 1:
        raise ValueError(f"--num_shards must come with one --output_file. Received {len(output_file)}.")
    if len(set(output_file)) < len(output_file):
        raise ValueError(f"--output_file must name each file once. Received {','.join(output_file)}.")
    if not num_shards:
        return output_file
    stem, end = _split(output_file[0])
    return [f"{stem}-{number:05d}-of-{num_shards:05d}{end}" for number in range(num_shards)]


def report_name(output_file: list[str]) -> str:
    """Returns the report's path but for its ending: train.tfrecord.gz -> train_report."""
    return _split(output_file[0])[0] + "_report"


def _split(path):
    """records/train.tfrecord.gz -> records/train, .tfrecord.gz."""
    end = re.search(r"(\.\w+)?(\.gz)?$", os.path.basename(path))[0]
    return path[: len(path) - len(end)], end


if __name__ == "__main__":
    flags.run(main)
