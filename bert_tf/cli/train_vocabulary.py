"""Train a WordPiece vocabulary on text, and report how well it fits.

    bert-tf vocab train --input_file=corpus/ --vocab_size=30522 \\
        --output_file=vocab.txt

Writes vocab.txt, with one token per line, and vocab.txt.report.txt.
"""

import dataclasses
import os
from typing import ClassVar

from absl import logging

from bert_tf.pretraining.settings import CorpusSettings
from bert_tf.utils.settings import UserSettings, flags_of, option, options_of


@dataclasses.dataclass(frozen=True)
class TrainVocabularySettings(CorpusSettings, UserSettings):
    """Text to train a vocabulary on, and how to train it."""

    GROUP: ClassVar[str] = "Vocabulary"

    output_file: str = option(
        "vocab.txt",
        "Output file of the vocabulary; a report is written next to it.",
        group="Output", essential=True,
    )
    vocab_size: int = option(30522, "Number of tokens, including special tokens.", low=1)
    do_lower_case: bool = option(True, "Lowercase the text and strip accents.", group="Model")
    unused_tokens: int = option(
        0,
        "Number of entries to reserve, [unused0] and so on; Google's vocabularies have 99 to 994.",
        low=0, aliases=("unused_pieces",),
    )
    min_count: int = option(2, "Minimum number of times that a token must occur.", low=1)
    max_words: int = option(
        500_000,
        "Maximum number of distinct words to learn from, the most frequent ones; memory and time grow with it, by "
        "some 4 kB and 0.1 ms per word and iteration.",
        low=1,
    )
    max_characters: int = option(
        1000,
        "Maximum number of characters that become tokens; rarer ones become [UNK]. Chinese needs about 8000.",
        low=1,
    )


SETTINGS = TrainVocabularySettings
FLAGS = flags_of(SETTINGS)


def main(settings: TrainVocabularySettings):
    """Writes the vocabulary and the report."""
    from bert_tf.tokenization import learning, word_counts
    from bert_tf.tokenization.letter_case import resolve_case_and_accents
    from bert_tf.tokenization.tokenizer_config import CONFIG_FILE, write_config
    from bert_tf.tokenization.vocabulary import Vocabulary
    from bert_tf.utils.files import write_text
    from bert_tf.utils.text_options import TextOptions

    folder = os.path.dirname(os.path.abspath(settings.output_file))
    do_lower_case, _ = resolve_case_and_accents(folder, settings.where_given("do_lower_case"))
    texts = word_counts.read_sentences(settings.input_file, settings.input_format, options_of(TextOptions, settings))
    held_out = []  # sentences for the report
    counts = word_counts.count_words(word_counts.hold_out(texts, held_out), do_lower_case)
    tokens = learning.learn_vocabulary(
        counts,
        vocab_size=settings.vocab_size,
        unused_tokens=settings.unused_tokens,
        min_count=settings.min_count,
        max_words=settings.max_words,
        max_characters=settings.max_characters,
    )
    report = _report(tokens, do_lower_case, held_out, counts)
    Vocabulary(tokens, settings.output_file).save(settings.output_file)
    if not os.path.exists(os.path.join(folder, CONFIG_FILE)):
        # So that whoever uses the vocabulary splits words as it was learned.
        write_config(folder, "BertTokenizer", {"do_lower_case": do_lower_case})
    write_text(f"{settings.output_file}.report.txt", report)
    print(report, end="")
    logging.info("Wrote %d tokens to %s, and a report next to it.", len(tokens), settings.output_file)


def _report(tokens, do_lower_case, held_out, counts):
    """Returns the report.

    Args:
        tokens, do_lower_case: the new vocabulary.
        held_out: sentences to measure on; where there are none:
        counts: the words that were learned from.
    """
    from bert_tf.tokenization import vocabulary_fit, word_counts
    from bert_tf.tokenization.wordpiece import WordPieceTokenizer

    about = "Measured on held-out text."
    if held_out:
        counts = word_counts.count_words([held_out], do_lower_case)
    else:
        about = "Measured on the training text, which is too short to hold out a part, so the result is too optimistic."
    tokenizer = WordPieceTokenizer(tokens, do_lower_case)
    return vocabulary_fit.format_fit(vocabulary_fit.measure_vocabulary(tokenizer, counts), about)
