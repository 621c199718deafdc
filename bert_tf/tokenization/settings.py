"""Settings of tokenizers. Imports no TensorFlow, so that `--help` is quick."""

import dataclasses
from typing import ClassVar

from bert_tf.utils.settings import option


@dataclasses.dataclass(frozen=True)
class TokenizerSettings:
    """How a model that is asked about texts reads them; None for the checkpoint's settings."""

    GROUP: ClassVar[str] = "Model"

    vocab_file: str | None = option(None, "Vocabulary file. Default: the one next to the checkpoint.")
    do_lower_case: bool | None = option(None, "Lowercase the text. Default: the checkpoint's setting, otherwise true.")
    max_seq_length: int | None = option(
        None,
        "Maximum text length in tokens, including special tokens. Default: the number of positions of the model.",
        low=3, essential=True,
    )
