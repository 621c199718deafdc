"""Reads the mask token in texts, for fill-mask alone: everywhere else special tokens in a text stay text."""

import re
from collections.abc import Mapping

import tensorflow as tf

from bert_tf.tokenization.base_tokenizer import BaseTokenizer

_WHITE = r"[\t-\r \x{85}\p{Z}]"  # white space of Unicode


class MaskReader(tf.Module):
    """A tokenizer for fill-mask; what lies between two masks is tokenized as usual.

        text                 I saw[MASK]. [CLS]
        input_ids            [CLS] i saw [MASK] . [ cls ] [SEP]
        masked_lm_positions              3

    Only the tokenizer's own spelling is the mask, as in Hugging Face's tokenizers: "[mask]" and "[ MASK ]" are text,
    and so is "[MASK]" where the mask is "<mask>". White space before a mask is the mask's, as RoBERTa has it.

    Args:
        tokenizer: a `BaseTokenizer`.
        most: positions of a text that are given at most, the first ones; None: all.

    Attributes:
        SPACES, vocab_file, vocab, unk_id, mask_id, mask: the tokenizer's.

    Raises:
        ValueError: the vocabulary has no mask.
    """

    def __init__(self, tokenizer: BaseTokenizer, most: int | None = None):
        super().__init__()
        if tokenizer.mask_id is None:
            raise ValueError(
                f"The vocabulary of a model that fills in blanks must hold {tokenizer.mask}. Received: "
                f"{tokenizer.vocab_size} tokens from {tokenizer.vocab_file}, none of them {tokenizer.mask}; "
                "name the model's own `vocab_file`."
            )
        self.tokenizer, self.most = tokenizer, most
        self.SPACES, self.vocab_file, self.vocab = tokenizer.SPACES, tokenizer.vocab_file, tokenizer.vocab
        self.unk_id, self.mask_id, self.mask = tokenizer.unk_id, tokenizer.mask_id, tokenizer.mask

    @property
    def asset_file(self) -> str | None:
        """The tokenizer's."""
        return self.tokenizer.asset_file

    def save(self, directory):
        """Writes the tokenizer's files."""
        self.tokenizer.save(directory)

    def tokenize(self, texts) -> tf.RaggedTensor:
        """Returns the ids of the tokens and masks of each text (strings [n]): RaggedTensor of int32 [n, (tokens)]."""
        texts = tf.strings.regex_replace(texts, f"{_WHITE}+{re.escape(self.mask)}", self.mask)
        parts = tf.strings.split(texts, self.mask)
        ids = self.tokenizer.tokenize(parts.flat_values)
        masks = tf.fill([ids.nrows(), 1], tf.constant(self.mask_id, tf.int32))
        ids = tf.concat([ids, masks], axis=1)  # a mask after each part, also after a text's last one: that one goes
        rows = tf.RaggedTensor.from_row_splits(
            ids.flat_values, tf.gather(ids.row_splits, parts.row_splits), validate=False
        )
        return rows[:, :-1]

    def pack(self, ids, max_seq_length: int) -> dict[str, tf.RaggedTensor]:
        """Adds [CLS] and [SEP] as `Tokenizer.pack` does; a text beyond max_seq_length loses its end."""
        return self.tokenizer.pack(ids, max_seq_length=max_seq_length)

    def pad(self, packed: Mapping[str, tf.RaggedTensor]) -> dict[str, tf.Tensor]:
        """Returns what `Tokenizer.pad` returns, int32 [n, S], and "masked_lm_positions", int32 [n, M].

        M is the largest number of masks in a text, `most` at most, but 1 at least; 0 stands where there are fewer.
        """
        features = self.tokenizer.pad(packed)
        at = tf.where(features["input_ids"] == self.mask_id)
        nrows = tf.shape(features["input_ids"], tf.int64)[0]
        positions = tf.RaggedTensor.from_value_rowids(tf.cast(at[:, 1], tf.int32), at[:, 0], nrows, validate=False)
        positions = positions.to_tensor(0)
        positions = tf.pad(positions, [[0, 0], [0, tf.maximum(0, 1 - tf.shape(positions)[1])]])
        return {**features, "masked_lm_positions": positions[:, : self.most]}
