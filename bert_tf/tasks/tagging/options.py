"""Options of tagging. Imports no TensorFlow, so that `--help` is quick."""

import dataclasses
from typing import ClassVar

from bert_tf.tasks.options import (
    AS_TRAINED,
    SEVERAL_FILES,
    LabelOptions,
    RecurrentOptions,
    TeacherOptions,
    TextFileOptions,
)
from bert_tf.utils.names import LAYERS, WORD_BOUNDARIES
from bert_tf.utils.settings import SCORES, option, option_as

_SENTENCES = (
    "columns with one word per line (CoNLL format), .jsonl with tokens and tags, or .jsonl or .json with texts and "
    f"their entities, as annotation tools export them; may be gzipped (.gz). {SEVERAL_FILES}"
)


@dataclasses.dataclass(frozen=True)
class TaggingOptions(LabelOptions, RecurrentOptions, TeacherOptions, TextFileOptions):
    """Which sentences are tagged, what a tag is, and whether the encoder is trained."""

    GROUP: ClassVar[str] = "Data"

    train_file: str | None = option(
        None,
        f"Training sentences: {_SENTENCES}",
        essential=True, decides_result="train_examples",
    )
    eval_file: str | None = option(None, f"Evaluation sentences, {AS_TRAINED}.", essential=True, decides_result=SCORES)
    predict_file: str | None = option(None, f"Sentences to tag, {AS_TRAINED}; tags are ignored.", essential=True)
    text_column: int = option(
        0,
        "Word column, by number from 0; a negative number counts from the end.",
        essential=True, decides_result="train_examples",
    )
    tag_column: int = option(
        -1,
        "Tag column, by number from 0; a negative number counts from the end.",
        essential=True, decides_result="train_examples",
    )
    feature_layers: str | None = option(
        None,
        "Encoder layers from which a two-layer BiLSTM tags; the encoder is then frozen. Default: the encoder is "
        "fine-tuned.",
        choices=LAYERS, group="Layers, adapters and loss", essential=True, requires=("do_train",),
        decides_result="feature_layers", aliases=("features",),
        excludes=(  # which train the encoder
            "lora_rank", "freeze_layers", "layerwise_lr_decay", "unfreeze_epochs", "reinit_layers",
            "gradient_checkpointing",
        ),
    )
    tag_scheme: str = option(
        "auto",
        "Tagging scheme, which marks where entities begin and end. auto: detected from the tags.",
        choices=("auto", "iob1", "iob2", "bioes"), decides_result="train_examples",
    )
    lstm_units: int | None = option_as(
        RecurrentOptions, "lstm_units",
        help="Units per direction of the BiLSTM. With --feature_layers: of its two layers, 256 by default. Without: of "
        "a single layer between encoder and head, which is absent by default.",
    )
    word_boundaries: str | None = option(
        None,
        "Where the words of a text end; each word has one tag. whitespace: at spaces; punctuation: also around "
        "punctuation and each character of scripts such as Chinese; characters: after every character, so that "
        "entities can end anywhere. Default: punctuation if the training file has character spans or one Chinese or "
        "similar character per line; otherwise whitespace.",
        choices=WORD_BOUNDARIES, decides_result="word_boundaries",
    )
    doc_stride: int | None = option(
        None,
        "For sentences over --max_seq_length: number of tokens from the start of one window to the start of the "
        "next. Default: half of --max_seq_length.",
        low=1, decides_result="train_examples",
    )
