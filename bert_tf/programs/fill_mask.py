"""Fills in the blank: what a pretrained model puts where a text says [MASK].

    python -m bert_tf fill_mask --model=uncased_L-12_H-768_A-12 "The man went to the [MASK] ."

Texts come as arguments, from --input_file or from standard input, one a line. With --export_dir the model is written as
a SavedModel that answers the same way.
"""

import json

from absl import logging

from bert_tf import flags

flags.define_fill_mask()
FLAGS = flags.FLAGS


def main(arguments):
    from bert_tf.inference.filler import Filler, as_text, read_texts

    exports = FLAGS.export_dir is not None
    if exports and (arguments or FLAGS.input_file):
        raise ValueError("--export_dir must come without texts. Received both; ask in a run of its own.")
    texts = [] if exports else read_texts(arguments, FLAGS.input_file)
    dtype = FLAGS.export_dtype if exports else "float32"
    filler = Filler(FLAGS.model, FLAGS.top_k, FLAGS.vocab_file, FLAGS.do_lower_case, FLAGS.max_seq_length, dtype)
    if exports:
        logging.info("Exported %s as %s", FLAGS.model, filler.export(FLAGS.export_dir))
        return
    for answer in filler(texts):
        print(json.dumps(answer, ensure_ascii=False) if FLAGS.json else as_text(answer), flush=True)


if __name__ == "__main__":
    FLAGS.set_gnu_getopt(True)  # flags may come after texts; what follows "--" is all text
    flags.run(main, takes_texts=True)
