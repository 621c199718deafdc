"""Extract token, word or text features from an encoder's layers.

    bert-tf inspect features --model=demo/weights/minilm \\
        --input_file=texts.txt --output_file=features.jsonl
    bert-tf inspect features --model=demo/weights/minilm \\
        --input_file=reviews.csv --output_file=features.npz \\
        --layers=second_to_last --pooling=mean

Accepts the flags of google-research/bert's extract_features.py with the same
meaning.
"""

import dataclasses
import re
from typing import ClassVar

from bert_tf.cli.batch_prediction import BatchPredictionSettings, run_batch_prediction
from bert_tf.utils import names
from bert_tf.utils.settings import NO_EFFECT, UserSettings, flags_of, option


@dataclasses.dataclass(frozen=True)
class ExtractFeaturesSettings(BatchPredictionSettings, UserSettings):
    """Features to extract."""

    GROUP: ClassVar[str] = "Model"

    model: str | None = option(
        None,
        "Encoder: a Hugging Face, sentence-transformers or bert_tf directory, or a TF1 checkpoint (its directory or "
        "prefix).",
        essential=True, reads_model=True,
    )
    init_checkpoint: str | None = option(
        None, "Alias of --model, as in google-research/bert.", essential=True, reads_model=True
    )
    bert_config_file: str | None = option(None, "Model configuration (JSON). Default: the one next to the checkpoint.")
    vocab_file: str | None = option(None, "Vocabulary file. Default: the one next to the checkpoint.")
    do_lower_case: bool | None = option(None, "Lowercase the text. Default: the checkpoint's setting, otherwise true.")
    layers: str = option(
        "-1,-2,-3,-4",
        "Layers to extract: indices separated by commas, -1 being the last layer, or one of "
        f"{', '.join(names.LAYERS)}.",
        group="Embeddings and features",
    )
    pooling: str | None = option(
        None,
        "Pooling of token features into one vector per text. Default: one vector per token.",
        choices=names.POOLINGS, group="Embeddings and features", essential=True,
    )
    unit: str = option(
        "token",
        "Without --pooling: one vector per token or per word (the mean over its tokens).",
        choices=("token", "word", "piece"),  # the last is the older name of the first
        group="Embeddings and features",
    )
    max_seq_length: int = option(
        128,
        "Maximum sequence length in tokens, including special tokens; longer texts are cut off.",
        low=3, essential=True,
    )
    batch_size: int = option(32, f"{NO_EFFECT}.", group="")
    use_one_hot_embeddings: bool = option(False, f"{NO_EFFECT}.", group="")
    use_tpu: bool = option(False, f"{NO_EFFECT}.", group="Devices")
    master: str | None = option(None, f"{NO_EFFECT}.", group="Devices")
    num_tpu_cores: int = option(8, f"{NO_EFFECT}.", group="")
    rows_per_chunk: int = 256  # features of every token are many numbers


SETTINGS = ExtractFeaturesSettings
FLAGS = flags_of(SETTINGS)


def main(settings: ExtractFeaturesSettings):
    """Writes the features of all rows."""
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
