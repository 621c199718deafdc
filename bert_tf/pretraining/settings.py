"""Settings of corpora and of masks. Imports no TensorFlow, so that `--help` is quick."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from bert_tf.utils import names
from bert_tf.utils.settings import option
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

    max_predictions_per_seq: int = option(20, "Maximum number of masked tokens per sequence.", low=1, essential=True)
    masked_lm_prob: float = option(
        0.15,
        "Share of the tokens of an example that is masked.",
        low=0, high=1, essential=True,
    )
    masking: str = option(
        "token",
        "Unit that is masked as a whole. token: a token; whole_word: all tokens of a word; span: several "
        "consecutive words, as in SpanBERT; ngram: the same as in ALBERT; phrase: a phrase of --phrase_file.",
        choices=names.MASKINGS, essential=True,
    )
    phrase_file: str | None = option(None, "With --masking=phrase: file of phrases and names, one per line.")
    mask_token_prob: float = option(0.8, "Share of the masked tokens that is replaced with [MASK].", low=0, high=1)
    random_token_prob: float = option(
        0.1,
        "Share of the masked tokens that is replaced with a random token; the rest stays unchanged.",
        low=0, high=1,
    )
