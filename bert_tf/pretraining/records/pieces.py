"""What making examples has to know of a vocabulary, as plain arrays."""

import dataclasses
import os

import numpy as np

from bert_tf.pretraining.records.phrases import Phrases
from bert_tf.utils.names import CLS, MASK, PAD, SEP, SPECIAL_PIECES


@dataclasses.dataclass(frozen=True)
class Pieces:
    """The ids that mean something.

    Attributes:
        cls_id, sep_id, pad_id, mask_id: ids; mask_id is None where the vocabulary has no [MASK].
        special: bool [vocab_size], true for [PAD], [UNK], [CLS], [SEP] and [MASK].
        continuation: bool [vocab_size], true for a piece that goes on with the word of the piece before it ("##ing").
        names: the pieces in the order of their ids.
        phrases: what is masked as one; None: there is no list.
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
    def of_tokenizer(cls, tokenizer, phrase_file: str | os.PathLike | None = None) -> "Pieces":
        """Reads them off a tokenizer's vocabulary, and phrases off a list.

        Args:
            tokenizer: a `bert_tf.tokenization.wordpiece.Tokenizer`.
            phrase_file: a text file with a phrase a line.

        Raises:
            ValueError: it is no BERT vocabulary, or no list of phrases in pieces of this vocabulary.
        """
        pieces = cls.of(tokenizer.vocab)
        if phrase_file is None:
            return pieces
        return dataclasses.replace(pieces, phrases=Phrases.read(phrase_file, tokenizer, pieces.special))

    @classmethod
    def of(cls, names: list[str]) -> "Pieces":
        """Reads them off a BERT vocabulary, the pieces in the order of their ids.

        Raises:
            ValueError: it is no BERT vocabulary.
        """
        ids = {name: i for i, name in enumerate(names)}
        lacking = [name for name in (CLS, SEP, PAD) if name not in ids]
        if lacking:
            raise ValueError(
                f"Examples for pretraining must be made and masked with a WordPiece vocabulary, with {lacking[0]}. "
                f"Received one of {len(names)} pieces without it; make records of other vocabularies elsewhere, masked."
            )
        return cls(
            ids[CLS],
            ids[SEP],
            ids[PAD],
            ids.get(MASK),
            np.isin(names, SPECIAL_PIECES),
            np.array([name.startswith("##") for name in names]),
            names,
        )
