"""Settings of corpora and of masks. Imports no TensorFlow, so that `--help` is quick."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

from bert_tf.utils import names
from bert_tf.utils.settings import UserSettings, option, option_as
from bert_tf.utils.text_options import TextOptions


@dataclasses.dataclass(frozen=True)
class CorpusSettings(TextOptions):
    """Which text is read, and how."""

    GROUP: ClassVar[str] = "Data"

    input_file: Sequence[str] | None = option(
        None,
        "Text to read: files, glob patterns or directories, separated by commas; .gz and .zst are decompressed.",
        required=True, essential=True,
    )
    input_format: str | None = option(
        None,
        "Format of the text. sentences: one sentence per line, with a blank line between documents; prose: running "
        "text; jsonl: one JSON object per line. Default: detected for each file, and logged.",
        choices=names.TEXT_FORMATS,
    )


@dataclasses.dataclass(frozen=True)
class MaskingSettings:
    """Which tokens are masked, and what replaces them."""

    GROUP: ClassVar[str] = "Pretraining objective and masking"

    max_predictions_per_seq: int = option(
        20,
        "Maximum number of masked tokens per sequence.",
        low=1, essential=True, decides_result="max_predictions_per_seq",
    )
    masked_lm_prob: float = option(
        0.15,
        "Fraction of the tokens of an example to mask.",
        low=0, high=1, essential=True, decides_result="masked_lm_prob",
    )
    masking: str = option(
        "token",
        "Unit that is masked as a whole. token: a token; whole_word: all tokens of a word; span: several "
        "consecutive words, as in SpanBERT; ngram: the same as in ALBERT; phrase: a phrase of --phrase_file.",
        choices=names.MASKINGS, essential=True, decides_result="masking",
    )
    phrase_file: str | None = option(
        None,
        "With --masking=phrase: file of phrases and names, one per line.",
        decides_result="phrases",
    )
    mask_token_prob: float = option(
        0.8,
        "Fraction of the masked tokens to replace with [MASK].",
        low=0, high=1, decides_result="mask_token_prob",
    )
    random_token_prob: float = option(
        0.1,
        "Fraction of the masked tokens to replace with a random token; the rest stays unchanged.",
        low=0, high=1, decides_result="random_token_prob",
    )


@dataclasses.dataclass(frozen=True)
class ExampleSettings:
    """Options for creating examples from text. Names and defaults follow google-research/bert where it has the flag."""

    GROUP: ClassVar[str] = "Pretraining objective and masking"

    max_seq_length: int = option(
        128,
        "Length of a sequence in tokens, including [CLS] and [SEP].",
        low=5, group="Model", essential=True,
    )
    max_predictions_per_seq: int = option_as(MaskingSettings, "max_predictions_per_seq")
    masked_lm_prob: float = option_as(MaskingSettings, "masked_lm_prob")
    short_seq_prob: float = option(0.1, "Probability that an example gets a shorter random length.", low=0, high=1)
    dupe_factor: int = option(
        10,
        "Number of passes over the text, each with different examples and masks.",
        low=1, essential=True,
    )
    random_seed: int = option(12345, "Random seed of everything that is sampled.", low=0, group="Training")
    masking: str = option_as(MaskingSettings, "masking")
    phrase_file: str | None = option_as(MaskingSettings, "phrase_file")
    word_segmenter: str | None = option(
        None,
        "Word segmenter, for a --masking of words in languages that are written without spaces. jieba: Chinese words "
        "(pip install 'bert-tf[chinese]'); pretokenized: words separated by spaces in the text; MODULE:FUNCTION: a "
        "Python function that returns the words of a text. Token ids stay the same. Default: none, so each ideograph "
        "is a word.",
        excludes=("dynamic_masking",),
    )
    mask_token_prob: float = option_as(MaskingSettings, "mask_token_prob")
    random_token_prob: float = option_as(MaskingSettings, "random_token_prob")
    sentence_objective: str = option(
        "nsp",
        "Second segment of an example. nsp: a random text in half of the examples (BERT); sop: swapped with the "
        "first in half of them (ALBERT); none: no second segment (RoBERTa).",
        choices=names.SENTENCE_OBJECTIVES, essential=True,
    )
    packing: bool = option(False, "Pack several short examples into one sequence.", essential=True)
    max_sentences_per_seq: int = option(8, "With --packing: maximum number of examples per sequence.", low=1)
    dynamic_masking: bool = option(
        False,
        "Write records without masks; training masks them differently in each epoch.",
        essential=True,
    )


SMALL_VOCABULARY = 30_000  # tokens: with fewer, many of the words that a task turns on are cut


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuickOptions(UserSettings):
    """Options of quick pretraining: text, vocabulary or teacher, and the time limit."""

    GROUP: ClassVar[str] = "Training"

    input_file: Sequence[str] | None = option_as(CorpusSettings, "input_file", decides_result=True)
    eval_file: Sequence[str] | None = option(
        None,
        "Held-out text, evaluated at each checkpoint and at the end: files, glob patterns or directories.",
        group="Data", essential=True, decides_result=True,
    )
    teacher: str | None = option(
        None,
        "Model to distill: the encoder is made of some of its layers, with its vocabulary and width, and learns from "
        "it.",
        group="Distillation", decides_result=True, excludes=("vocab_file",),  # the student has the teacher's vocabulary
        reads_model=True,
    )
    vocab_file: str | None = option(
        None,
        "Vocabulary file. Default: a vocabulary is trained.",
        group="Model", decides_result=True,
    )
    tokenizer: str | None = option(
        None,
        "Model of any family, whose tokenizer is used, and whose configuration is used in a smaller size.",
        group="Model", decides_result=True, excludes=("vocab_file", "teacher"), reads_model="tokenizer",
    )
    vocab_size: int = option(
        SMALL_VOCABULARY,
        "Number of tokens of the vocabulary that is trained.",
        low=1, group="Vocabulary", excludes=("vocab_file", "teacher", "tokenizer"), decides_result=True,
    )
    do_lower_case: bool | None = option(
        None,
        "Lowercase the text. Default: the setting in tokenizer_config.json next to --vocab_file, or in --teacher or "
        "--tokenizer; otherwise true.",
        group="Model", decides_result=True,
    )
    input_format: str | None = option_as(CorpusSettings, "input_format", decides_result=True)
    text_column: str = option_as(CorpusSettings, "text_column", decides_result=True)
    document_start: str | None = option_as(CorpusSettings, "document_start", decides_result=True)
    language: str = option_as(CorpusSettings, "language", decides_result=True)
    precision: str = option(
        "auto",
        "Data type of the computation. auto: mixed_bfloat16 if the CPU multiplies in it, otherwise float32.",
        choices=("auto", *names.PRECISIONS), group="Devices", essential=True, decides_result=True,
    )
    seed: int = option(
        0,
        "Random seed for new weights, example order and masks.",
        low=0, essential=True, decides_result=True,
    )
    output_dir: str = option(
        "small",
        "Directory for the encoder, from which an interrupted run also resumes.",
        group="Output", essential=True,
    )
    # With more, a run that had too few can be resumed.
    minutes: float = option(45.0, "Time budget in minutes, everything included.", low=0, essential=True)

    @property
    def text_flags(self) -> dict[str, Any]:
        """Flags for reading text that the user gave, for the commands that read it."""
        names = ("input_format", "text_column", "document_start", "language")
        return {name: value for name, value in self.given_values().items() if name in names}
