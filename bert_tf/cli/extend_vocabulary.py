"""Extend the vocabulary of a trained model with domain words.

    bert-tf vocab extend --model=demo/weights/minilm --words_file=words.txt \\
        --output_dir=clinical
    bert-tf vocab extend --model=demo/weights/minilm --input_file=notes/ \\
        --num_words=500 --output_dir=clinical

The embedding of each new word starts as the mean of the embeddings of its
former tokens; all other weights stay unchanged.
"""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from absl import logging

from bert_tf.cli.edit_model import EditModelSettings
from bert_tf.pretraining.settings import CorpusSettings
from bert_tf.utils.files import check_free
from bert_tf.utils.settings import UserSettings, flags_of, option, option_as, options_of


@dataclasses.dataclass(frozen=True)
class ExtendVocabularySettings(CorpusSettings, UserSettings):
    """Words to add to a model."""

    GROUP: ClassVar[str] = "Model"

    model: str | None = option(
        None,
        "Model to extend: a Hugging Face, sentence-transformers or bert_tf directory, or a TF1 checkpoint (its "
        "directory or prefix).",
        required=True, essential=True, reads_model=True,
    )
    output_dir: str | None = option_as(EditModelSettings, "output_dir")
    words_file: str | None = option(
        None,
        "File of the words to add, one per line. Default: the words of --input_file that save the most tokens.",
        group="Data",
    )
    num_words: int = option(500, "Maximum number of words to take from --input_file.", low=1, group="Vocabulary")
    min_count: int = option(5, "Minimum number of times that such a word must occur.", low=1, group="Vocabulary")
    do_lower_case: bool | None = option(None, "Lowercase the text. Default: the checkpoint's setting, otherwise true.")
    input_file: Sequence[str] | None = option_as(CorpusSettings, "input_file", required=False)


SETTINGS = ExtendVocabularySettings
FLAGS = flags_of(SETTINGS)


def main(settings: ExtendVocabularySettings):
    """Writes the checkpoint with the words, and prints what they start from."""
    from bert_tf.checkpoints import vocabulary_extension
    from bert_tf.checkpoints.loading import load_description

    if not (settings.words_file or settings.input_file):
        raise ValueError("No words to add: pass --words_file or --input_file.")
    if settings.words_file and "num_words" in settings.given:
        logging.warning("--num_words has no effect with --words_file.")
    check_free(settings.output_dir)
    description = load_description([settings.model], do_lower_case=settings.do_lower_case)
    tokenizer = description.tokenizer
    vocabulary_extension.check_is_wordpiece(tokenizer)
    words = _read_words(settings, tokenizer) if settings.words_file else None  # first: a mistake there shows at once
    counts = _count_words(settings, tokenizer) if settings.input_file else None
    if words is None:
        words = vocabulary_extension.choose_words(counts, tokenizer, settings.num_words, settings.min_count)
    extension = vocabulary_extension.Extension.of(tokenizer, words)
    vocabulary_extension.write_extended_model(settings.model, settings.output_dir, extension, description)
    _tell(extension)
    if counts:
        print(vocabulary_extension.effect(extension, counts))
    logging.info("Wrote %s with %d tokens.", settings.output_dir, extension.tokenizer().vocab_size)


def _read_words(settings, tokenizer):
    """Returns the words of --words_file that are no tokens yet."""
    from bert_tf.checkpoints import vocabulary_extension

    words, known = vocabulary_extension.read_new_words(settings.words_file, tokenizer)
    if known:
        logging.info("%d words are already tokens and stay unchanged: %s.", len(known), ", ".join(known[:10]))
    return words


def _count_words(settings, tokenizer):
    """Returns word -> count of --input_file."""
    from bert_tf.tokenization import word_counts
    from bert_tf.utils.text_options import TextOptions

    texts = word_counts.read_sentences(settings.input_file, settings.input_format, options_of(TextOptions, settings))
    return word_counts.count_words(texts, tokenizer.do_lower_case, tokenizer.between_added_tokens)


def _tell(extension):
    print(f"Added {len(extension.words)} words, each initialized with the mean of these tokens' embeddings:")
    print("\n".join(extension.lines()))
    if extension.unknown():
        logging.warning(
            "%d of the words were [UNK] before, so all of them start with its embedding: %s. Only training can tell "
            "them apart.",
            *(len(extension.unknown()), ", ".join(extension.unknown()[:10])),
        )
