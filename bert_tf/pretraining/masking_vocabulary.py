"""The special ids and word boundaries of a vocabulary, as plain arrays."""

import dataclasses
import os

import numpy as np

from bert_tf.pretraining.phrases import Phrases
from bert_tf.utils.names import CLS, MASK, PAD, SEP, SPECIAL_TOKENS


@dataclasses.dataclass(frozen=True)
class MaskingVocabulary:
    """The special ids and word boundaries of a vocabulary, and its phrases.

    Attributes:
        cls_id, sep_id, pad_id, mask_id: ids; mask_id is None if the vocabulary has no [MASK].
        special: bool [vocab_size], true for [PAD], [UNK], [CLS], [SEP] and [MASK].
        continuation: bool [vocab_size], true for a token that continues the word of the previous token ("##ing").
        names: the tokens in the order of their ids.
        phrases: phrases to mask as units, or None if there is no list.
    """

    cls_id: int
    sep_id: int
    pad_id: int
    mask_id: int | None
    special: np.ndarray
    continuation: np.ndarray
    names: list
    phrases: Phrases | None = None

    @property
    def vocab_size(self) -> int:
        return len(self.names)

    @classmethod
    def of_tokenizer(cls, tokenizer, phrase_file: str | os.PathLike | None = None) -> "MaskingVocabulary":
        """Returns the masking vocabulary of a tokenizer, with the phrases of a list, if given.

        Args:
            tokenizer: a `bert_tf.tokenization.wordpiece.Tokenizer`.
            phrase_file: a text file with one phrase per line.

        Raises:
            ValueError: the tokens are not a BERT vocabulary, or the phrases are not valid for it.
        """
        vocabulary = cls.of(tokenizer.vocab)
        if phrase_file is None:
            return vocabulary
        return dataclasses.replace(vocabulary, phrases=Phrases.read(phrase_file, tokenizer, vocabulary.special))

    @classmethod
    def of(cls, names: list[str]) -> "MaskingVocabulary":
        """Returns the masking vocabulary of BERT tokens in the order of their ids.

        Raises:
            ValueError: the tokens are not a BERT vocabulary.
        """
        ids = {name: i for i, name in enumerate(names)}
        lacking = [name for name in (CLS, SEP, PAD) if name not in ids]
        if lacking:
            raise ValueError(
                f"Pretraining examples require a WordPiece vocabulary with {lacking[0]}, but this one of {len(names)} "
                "tokens lacks it. Records for other vocabularies must be masked elsewhere."
            )
        return cls(
            ids[CLS],
            ids[SEP],
            ids[PAD],
            ids.get(MASK),
            np.isin(names, SPECIAL_TOKENS),
            np.array([name.startswith("##") for name in names]),
            names,
        )
