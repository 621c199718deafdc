"""Learns a WordPiece vocabulary from text and reports how well it fits.

    python -m bert_tf train_vocabulary --input_file=corpus/ --vocab_size=30522 --output_file=vocab.txt

writes vocab.txt, one piece a line, and vocab.txt.report.txt.
"""

import os
import tempfile

from absl import logging

from bert_tf import flags

flags.define_corpus()
flags.define_train_vocabulary()
FLAGS = flags.FLAGS


def main():
    from bert_tf.files import write_text
    from bert_tf.tokenization.vocabulary import CONFIG_FILE, Vocabulary, resolve_case, write_config
    from bert_tf.vocabulary import counting, learning

    check_writable(FLAGS.output_file)
    folder = os.path.dirname(os.path.abspath(FLAGS.output_file))
    do_lower_case = resolve_case(folder, FLAGS.do_lower_case if FLAGS["do_lower_case"].present else None)
    others = compared(FLAGS.compare_vocab_file, do_lower_case)
    texts, held_out = read_texts()
    counts = counting.count(texts, do_lower_case)
    pieces = learning.learn(
        *(counts, FLAGS.vocab_size, FLAGS.unused_pieces, FLAGS.min_count, FLAGS.max_words, FLAGS.max_characters)
    )
    report = make_report(pieces, do_lower_case, others, held_out, counts)
    Vocabulary(pieces, FLAGS.output_file).save(FLAGS.output_file)
    if not os.path.exists(os.path.join(folder, CONFIG_FILE)):
        write_config(folder, do_lower_case)  # so that whoever uses the vocabulary splits words as it was learned
    write_text(f"{FLAGS.output_file}.report.txt", report)
    print(report, end="")
    logging.info("Wrote %d pieces to %s, and the report beside it.", len(pieces), FLAGS.output_file)


def check_writable(path: str):
    """Raises ValueError or OSError now, and not after minutes, where a file cannot be written."""
    if os.path.isdir(path):
        raise ValueError(f"--output_file must be a file. Received the directory {path}; name a file in it.")
    folder = os.path.dirname(os.path.realpath(path))
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


def compared(vocab_file: str | None, do_lower_case: bool) -> dict:
    """Returns the tokenizer of the vocabulary to compare with by its file's name; its own letter case comes first."""
    from bert_tf.tokenization.vocabulary import CONFIG_FILE
    from bert_tf.tokenization.wordpiece import Tokenizer

    if not vocab_file:
        return {}
    folder = os.path.dirname(os.path.abspath(vocab_file))
    if os.path.exists(os.path.join(folder, CONFIG_FILE)):
        return {vocab_file: Tokenizer.from_directory(folder, vocab_file=vocab_file)}
    return {vocab_file: Tokenizer(vocab_file, do_lower_case)}


def read_texts():
    """Returns an iterator of lists of sentences to learn from, and a list of sentences for the report.

    Where the second comes from the first, it is filled when that has been read.
    """
    from bert_tf.text.documents import TextOptions
    from bert_tf.vocabulary import counting

    options = TextOptions(FLAGS.text_column, FLAGS.document_start, FLAGS.language, FLAGS.drop_junk_lines)
    texts, held_out = counting.read(FLAGS.input_file, FLAGS.input_format, options), []
    if not FLAGS.held_out_file:
        return counting.hold_out(texts, held_out), held_out
    for sentences in counting.read(FLAGS.held_out_file, FLAGS.input_format, options):
        held_out += sentences
        if len(held_out) >= counting.MOST_HELD_OUT:
            logging.info("The report is made of the first %d sentences of --held_out_file.", len(held_out))
            break
    return texts, held_out


def make_report(pieces: list, do_lower_case: bool, others: dict, held_out: list, counts) -> str:
    """Returns the report.

    Args:
        pieces, do_lower_case: the new vocabulary.
        others: name -> tokenizer, to be compared.
        held_out: sentences to measure on; where there are none:
        counts: the words that were learned from.
    """
    from bert_tf.tokenization.wordpiece import Tokenizer
    from bert_tf.vocabulary import counting
    from bert_tf.vocabulary import report as vocabulary_report

    about = "Measured on text that was not learned from."
    if not held_out:
        about = "Measured on the text that was learned from, too short to hold out a part of it: better than is true."
    fits = {}
    for name, tokenizer in {"this vocabulary": Tokenizer(pieces, do_lower_case), **others}.items():
        words = counting.count([held_out], tokenizer.do_lower_case) if held_out else counts
        fits[name] = vocabulary_report.measure(tokenizer, words)
    return vocabulary_report.as_text(fits, about)


if __name__ == "__main__":
    flags.run(main)
