"""Exports a trained model for TensorFlow Serving: text in, answers out.

    python -m bert_tf export --model=output --export_dir=models/reviews

writes models/reviews/1, or the next version. --model is what run_classifier.py left in --output_dir.
"""

from bert_tf import flags

flags.define_export()
FLAGS = flags.FLAGS


def main():
    from bert_tf.export.trained import export_trained

    export_trained(FLAGS.model, FLAGS.export_dir, FLAGS.export_dtype)


if __name__ == "__main__":
    flags.run(main)
