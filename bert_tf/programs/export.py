"""Exports a trained model for TensorFlow Serving: text in, answers out.

    bert-tf export --model=output --export_dir=models/reviews

writes models/reviews/1, or the next version. --model is what run_classifier, run_squad, run_tagger or
run_multiple_choice left in --output_dir.
"""

from bert_tf.flags.model import EXPORT_ALONE

FLAGS = EXPORT_ALONE


def main(settings):
    """Writes the next version."""
    from bert_tf.export.trained import export_trained

    export_trained(settings.model, settings.export_dir, settings.export_dtype)
