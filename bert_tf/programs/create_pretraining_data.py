"""Makes records for pretraining out of text.

    python -m bert_tf create_pretraining_data --input_file=corpus/ --vocab_file=vocab.txt \\
      --output_file=records/train.tfrecord.gz --num_shards=8

--input_file takes files, globs and folders. Beside the records it writes a report as text and as a page with plots.
"""

import os
import signal
import sys

from absl import logging

from bert_tf import flags

flags.define_corpus()
flags.define_pretraining_data()
FLAGS = flags.FLAGS


def main():
    from bert_tf.corpus import report
    from bert_tf.corpus.job import create_pretraining_data
    from bert_tf.corpus.output import report_name, warn_of_others
    from bert_tf.data.pretraining.pieces import Pieces
    from bert_tf.files import write_text

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an orderly end, which removes what is half-made
    job, vocabulary = make_job()
    statistics = run_on_beam(job) if FLAGS.runner else create_pretraining_data(job)
    warn_of_others(FLAGS.output_file, job.output_files)
    pieces = Pieces.of(vocabulary.pieces)
    text = report.as_text(statistics, job.options, pieces)
    name = report_name(FLAGS.output_file)
    write_text(f"{name}.txt", text)
    write_text(f"{name}.html", report.as_page(statistics, job.options, pieces))
    print(text)
    logging.info("Wrote %d file(s), such as %s, and %s.html.", len(job.output_files), job.output_files[0], name)


def run_on_beam(job):
    """Runs the job on --runner. Returns its `Statistics`."""
    try:
        from bert_tf.corpus.beam import run_pipeline
    except ModuleNotFoundError as error:
        raise ValueError(f"--runner must have Apache Beam. Received: {error}; pip install 'bert-tf[beam]'.") from error
    return run_pipeline(job, FLAGS.runner, FLAGS.beam_options)


def make_job():
    """Returns what the flags ask for: a `Job`, and its vocabulary."""
    from bert_tf.corpus.job import Job
    from bert_tf.corpus.output import output_files
    from bert_tf.text import files
    from bert_tf.tokenization.vocabulary import resolve_case

    paths = files.find(FLAGS.input_file)
    formats = files.formats_of(paths, FLAGS.input_format, FLAGS.language)
    warn_of_ignored(formats)
    vocabulary = read_vocabulary()
    if FLAGS.work_dir and not os.path.isdir(FLAGS.work_dir):
        raise ValueError(f"--work_dir must be a folder. Received {FLAGS.work_dir}, which is none; make it first.")
    job = Job(
        paths,
        formats,
        output_files(FLAGS.output_file, FLAGS.num_shards),
        FLAGS.vocab_file,
        resolve_case(os.path.dirname(os.path.abspath(FLAGS.vocab_file)), FLAGS.do_lower_case),
        make_options(),
        FLAGS.num_workers or cores(),
        FLAGS.work_dir,
    )
    logging.info("Vocabulary: %d pieces, --do_lower_case=%s.", len(vocabulary.pieces), str(job.do_lower_case).lower())
    return job, vocabulary


def warn_of_ignored(formats):
    """Says which of the flags that were given have no effect beside the others."""
    masked_later = "with --dynamic_masking: training masks" if FLAGS.dynamic_masking else None
    on_beam = f"with --runner={FLAGS.runner}" if FLAGS.runner else None
    idle = {
        "max_sentences_per_seq": None if FLAGS.packing else "without --packing",
        **dict.fromkeys(("masking", "do_whole_word_mask", "masked_lm_prob"), masked_later),
        **dict.fromkeys(("num_workers", "work_dir"), on_beam),
        "beam_options": None if FLAGS.runner else "without --runner",
        "document_start": None if "prose" in formats else "on files that are not prose",
        "text_column": None if "jsonl" in formats else "on files that are not JSONL",
    }
    for name, why in idle.items():
        if why and FLAGS[name].present:
            logging.warning("--%s has no effect %s.", name, why)


def read_vocabulary():
    """Returns the `Vocabulary` of --vocab_file, which must have a [MASK]."""
    from bert_tf.tokenization.vocabulary import Vocabulary

    vocabulary = Vocabulary.read(FLAGS.vocab_file)
    if vocabulary.id_of("[MASK]") is None:
        raise ValueError(
            f"The vocabulary must hold [MASK]. Received {FLAGS.vocab_file} without it; append it as a line of its own, "
            "or learn a vocabulary with python -m bert_tf train_vocabulary."
        )
    return vocabulary


def make_options():
    """Returns the `Options` that the flags describe."""
    from bert_tf.corpus.options import Options
    from bert_tf.text.documents import TextOptions

    if FLAGS.do_whole_word_mask and FLAGS["masking"].present and FLAGS.masking != "whole_word":
        raise ValueError(
            f"--do_whole_word_mask must not contradict --masking. Received --masking={FLAGS.masking}; leave one out."
        )
    text = {name: FLAGS[name].value for name in ("text_column", "document_start", "language", "drop_junk_lines")}
    names = (
        "max_seq_length", "max_predictions_per_seq", "masked_lm_prob", "short_seq_prob", "dupe_factor", "random_seed",
        "sentence_objective", "packing", "max_sentences_per_seq", "dynamic_masking", "drop_duplicate_lines",
    )  # fmt: skip
    masking = "whole_word" if FLAGS.do_whole_word_mask else FLAGS.masking
    return Options(**{name: FLAGS[name].value for name in names}, masking=masking, text=TextOptions(**text))


def cores() -> int:
    """Returns how many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if __name__ == "__main__":
    flags.run(main)
