"""Writes what an encoder makes of texts: features of each piece, of each word or of each text, from chosen layers.

    bert-tf extract_features --model=uncased_L-12_H-768_A-12 --input_file=texts.txt --output_file=features.jsonl
    bert-tf extract_features --model=uncased_L-12_H-768_A-12 --input_file=reviews.csv --output_file=features.npz \\
        --layers=second_to_last --pooling=mean

The flags of google-research/bert's extract_features.py work as they do there. All flags: --help;
docs/extract_features.md.
"""

import re

from bert_tf.cli.flags.features import EXTRACT_FEATURES

FLAGS = EXTRACT_FEATURES


def main(settings):
    """Writes the features of all rows."""
    from bert_tf.cli.jobs import run_job
    from bert_tf.inference.features import FeatureMaker

    if bool(settings.model) == bool(settings.init_checkpoint):
        received = "both" if settings.model else "neither"
        raise ValueError(f"The encoder must be named by --model, or by --init_checkpoint. Received {received}.")
    maker = FeatureMaker(
        settings.model or settings.init_checkpoint,
        _layers(settings.layers),
        settings.pooling,
        settings.unit,
        settings.max_seq_length,
        settings.output_file.lower().endswith(".jsonl"),
        settings.bert_config_file,
        settings.vocab_file,
        settings.do_lower_case,
    )
    run_job(settings, maker)


def _layers(text):
    """Returns indices as numbers, and any other text as it is: a name, or what is refused by name."""
    parts = [part.strip() for part in text.split(",")]
    return tuple(map(int, parts)) if all(re.fullmatch(r"-?[0-9]+", part) for part in parts) else text
