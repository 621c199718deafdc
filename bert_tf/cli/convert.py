"""Converts a model from one program's files to another's, and proves that it is the same.

    bert-tf convert --from=uncased_L-12_H-768_A-12 --to=bert-base --format=huggingface

Formats: tf1 (google-research/bert), huggingface, sentence_transformers, keras_hub, bert_tf. docs/convert.md.
"""

from bert_tf.cli.common_flags import CONVERT

FLAGS = CONVERT


def main(settings):
    """Writes the new directory, or nothing, and prints the proof."""
    from bert_tf.export.conversion.convert import convert_model

    options = {name: settings.get(name) for name in ("leave_out", "with_optimizer", "overwrite", "do_lower_case")}
    print(convert_model(settings.get("from"), settings.to, settings.format, **options))
