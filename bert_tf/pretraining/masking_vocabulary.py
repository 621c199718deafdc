"""The special ids and word boundaries of a vocabulary, as plain arrays."""

import dataclasses
import os

import numpy as np

from bert_tf.pretraining.phrases import Phrases
from bert_tf.tokenization.token_edges import TokenEdges
from bert_tf.tokenization.tokenizer_tables import TokenizerTables


@dataclasses.dataclass(frozen=True)
class MaskingVocabulary:
    """The special ids and word boundaries of a vocabulary, and its phrases.

    Attributes:
        before, between, after: ids of the special tokens around the texts of a sequence; see `InputTemplate`.
        second_segment: segment of the second text.
        pad_id, unk_id, mask_id: ids; mask_id is None if the vocabulary has no mask token.
        special: bool [vocab_size], true for tokens that represent no text, and for the unknown token.
        edges: which tokens continue the word of the previous token ("##ing"), and which end theirs.
        names: the tokens in the order of their ids.
        phrases: phrases to mask as units, or None if there is no list.
    """

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    second_segment: int
    pad_id: int
    unk_id: int
    mask_id: int | None
    special: np.ndarray
    edges: TokenEdges
    names: list[str]
    phrases: Phrases | None = None

    @property
    def vocab_size(self) -> int:
        return len(self.names)

    @classmethod
    def of_tokenizer(
        cls, tokenizer: TokenizerTables, phrase_file: str | os.PathLike | None = None
    ) -> "MaskingVocabulary":
        """Returns the masking vocabulary of a tokenizer, with the phrases of a list, if given.

        Args:
            tokenizer: a tokenizer of any kind; with `phrase_file`, a `BaseTokenizer`.
            phrase_file: a text file with one phrase per line.

        Raises:
            ValueError: the phrases are not valid for the vocabulary.
        """
        template, names = tokenizer.template, tokenizer.written_tokens
        around = (tuple(map(tokenizer.id_of, part)) for part in (template.before, template.between, template.after))
        reserved = tokenizer.reserved_tokens
        special = np.array([token in reserved for token in tokenizer.vocab])
        ids = tokenizer.pad_id, tokenizer.unk_id, tokenizer.mask_id
        phrases = None if phrase_file is None else Phrases.read(phrase_file, tokenizer, special)
        return cls(*around, template.second_segment, *ids, special, tokenizer.token_edges, names, phrases)

    def continues(self, input_ids) -> np.ndarray:
        """Returns which tokens continue the word of the token before them, bool [n, S], for ids of rows (int [n, S]).

        A special token neither continues a word nor is continued.
        """
        free = ~self.special[input_ids]
        joined = self.edges.continues[input_ids] & free
        joined[:, 1:] &= free[:, :-1] & ~self.edges.ends[input_ids[:, :-1]]
        joined[:, 0] = False
        return joined
