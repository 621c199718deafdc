"""Extract token, word or text features from an encoder's layers.

    bert-tf extract_features --model=uncased_L-12_H-768_A-12 \\
        --input_file=texts.txt --output_file=features.jsonl
    bert-tf extract_features --model=uncased_L-12_H-768_A-12 \\
        --input_file=reviews.csv --output_file=features.npz \\
        --layers=second_to_last --pooling=mean

Accepts the flags of google-research/bert's extract_features.py with their
meaning there.
"""

import re

from bert_tf.cli.batch_prediction import BATCH_PREDICTION
from bert_tf.utils import names
from bert_tf.utils.settings import NO_EFFECT, Flag, with_default

FLAGS = (
    *with_default(BATCH_PREDICTION, rows_per_part=256),  # features of every token are many numbers
    Flag("model", None, "The encoder: a Hugging Face, sentence-transformers or bert_tf directory, or a TF1 "
         "checkpoint's prefix."),  # fmt: skip
    Flag("init_checkpoint", None, "The same, by google-research/bert's name for it."),
    Flag("bert_config_file", None, "The model's shape; default: the one beside the checkpoint."),
    Flag("vocab_file", None, "The vocabulary; default: the one beside the checkpoint."),
    Flag("do_lower_case", None, "Lowercase the text; default: what the checkpoint says, else true.", "bool"),
    Flag("layers", "-1,-2,-3,-4", "Whose features: indices of layers, -1 the last, with commas between them; or one "
         f"of {', '.join(names.LAYERS)}."),  # fmt: skip
    Flag("pooling", None, "One vector for each text, made so of its tokens'; default: a vector for each token.",
         choices=names.POOLINGS),  # fmt: skip
    Flag("unit", "piece", "Without --pooling: a vector for each token, or for each word: the mean of its tokens'.",
         choices=("piece", "word")),  # fmt: skip
    Flag("max_seq_length", 128, "Longest sequence in tokens, special tokens included; what is longer is cut.",
         "integer", low=3),  # fmt: skip
    Flag("batch_size", 32, f"{NO_EFFECT}.", "integer"),
    Flag("use_one_hot_embeddings", False, f"{NO_EFFECT}.", "bool"),
    Flag("use_tpu", False, f"{NO_EFFECT}.", "bool"),
    Flag("master", None, f"{NO_EFFECT}."),
    Flag("num_tpu_cores", 8, f"{NO_EFFECT}.", "integer"),
)


def main(settings):
    """Writes the features of all rows."""
    from bert_tf.cli.batch_prediction import run_batch_prediction
    from bert_tf.inference.extract_features import FeatureMaker

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
    run_batch_prediction(settings, maker)


def _layers(text):
    """Returns indices as numbers, and any other text as it is: a name, or what is refused by name."""
    parts = [part.strip() for part in text.split(",")]
    return tuple(map(int, parts)) if all(re.fullmatch(r"-?[0-9]+", part) for part in parts) else text
