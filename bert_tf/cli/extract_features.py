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
    Flag(
        "model", None,
        "Encoder: a Hugging Face, sentence-transformers or bert_tf directory, or the prefix of a TF1 checkpoint.",
        group="Model", essential=True,
    ),
    Flag("init_checkpoint", None, "Same as --model, under google-research/bert's name.", group="Model", essential=True),
    Flag(
        "bert_config_file", None,
        "Model configuration (JSON). Default: the one next to the checkpoint.",
        group="Model",
    ),
    Flag("vocab_file", None, "Vocabulary file. Default: the one next to the checkpoint.", group="Model"),
    Flag(
        "do_lower_case", None,
        "Lowercase the text. Default: as the checkpoint says, otherwise true.",
        "bool", group="Model",
    ),
    Flag(
        "layers", "-1,-2,-3,-4",
        "Layers to extract: indices separated by commas, -1 being the last layer, or one of "
        f"{', '.join(names.LAYERS)}.",
        group="Embeddings and features",
    ),
    Flag(
        "pooling", None,
        "Pooling of token features into one vector per text. Default: one vector per token.",
        choices=names.POOLINGS, group="Embeddings and features", essential=True,
    ),
    Flag(
        "unit", "token",
        "Without --pooling: one vector per token or per word (the mean over its tokens).",
        choices=("token", "word", "piece"),  # the last is the older name of the first
        group="Embeddings and features",
    ),
    Flag(
        "max_seq_length", 128,
        "Maximum sequence length in tokens, including special tokens; longer texts are cut off.",
        "integer", low=3, group="Model", essential=True,
    ),
    Flag("batch_size", 32, f"{NO_EFFECT}.", "integer"),
    Flag("use_one_hot_embeddings", False, f"{NO_EFFECT}.", "bool"),
    Flag("use_tpu", False, f"{NO_EFFECT}.", "bool", group="Devices"),
    Flag("master", None, f"{NO_EFFECT}.", group="Devices"),
    Flag("num_tpu_cores", 8, f"{NO_EFFECT}.", "integer"),
)


def main(settings):
    """Writes the features of all rows."""
    from bert_tf.cli.batch_prediction import run_batch_prediction
    from bert_tf.inference.extract_features import FeatureMaker

    if bool(settings.model) == bool(settings.init_checkpoint):
        received = "both" if settings.model else "neither"
        raise ValueError(f"Pass either --model or --init_checkpoint; got {received}.")
    maker = FeatureMaker(
        settings.model or settings.init_checkpoint,
        _layers(settings.layers),
        settings.pooling,
        "token" if settings.unit == "piece" else settings.unit,
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
