"""Adds a domain's words to a trained checkpoint.

    python -m bert_tf extend_vocabulary --model=bert-base --words_file=words.txt --output_dir=clinical
    python -m bert_tf extend_vocabulary --model=bert-base --input_file=notes/ --num_words=500 \\
      --output_dir=clinical

Each new word starts as the mean of the pieces it had before; every other weight stays as it is.
"""

from absl import logging

from bert_tf import flags

flags.define_corpus(required=False)
flags.define_extend_vocabulary()
FLAGS = flags.FLAGS


def main():
    from bert_tf.load import load_description
    from bert_tf.vocabulary import extension as extensions

    if not (FLAGS.words_file or FLAGS.input_file):
        raise ValueError("There must be words to add. Received neither --words_file nor --input_file.")
    if FLAGS.words_file and FLAGS["num_words"].present:
        logging.warning("--num_words has no effect with --words_file.")
    extensions.check_output(FLAGS.output_dir)
    description = load_description([FLAGS.model], do_lower_case=FLAGS.do_lower_case)
    words = read_words(description.tokenizer) if FLAGS.words_file else None  # first: a mistake there shows at once
    counts = count_words(description.tokenizer) if FLAGS.input_file else None
    if words is None:
        words = extensions.choose_words(counts, description.tokenizer, FLAGS.num_words, FLAGS.min_count)
    extension = extensions.Extension.of(description.tokenizer, words)
    extensions.write(FLAGS.model, FLAGS.output_dir, extension, description)
    print(f"Added {len(extension.words)} words, each of which starts as the mean of these pieces:")
    print("\n".join(extension.lines()))
    if extension.unknown():
        logging.warning(
            "%d of the words were [UNK], so that they all start as its row: %s. Only training tells them apart.",
            *(len(extension.unknown()), ", ".join(extension.unknown()[:10])),
        )
    if counts:
        print(extensions.effect(extension, counts))
    logging.info("Wrote %s with %d pieces.", FLAGS.output_dir, extension.tokenizer().vocab_size)


def read_words(tokenizer) -> list[str]:
    """Returns the words of --words_file that are no pieces yet."""
    from bert_tf.vocabulary import extension as extensions

    words, known = extensions.read_words(FLAGS.words_file, tokenizer)
    if known:
        logging.info("%d words are pieces already and stay as they are: %s.", len(known), ", ".join(known[:10]))
    return words


def count_words(tokenizer):
    """Returns word -> count of --input_file."""
    from bert_tf.text.documents import TextOptions
    from bert_tf.vocabulary import counting

    options = TextOptions(FLAGS.text_column, FLAGS.document_start, FLAGS.language, FLAGS.drop_junk_lines)
    texts = counting.read(FLAGS.input_file, FLAGS.input_format, options)
    return counting.count(texts, tokenizer.do_lower_case)


if __name__ == "__main__":
    flags.run(main)
