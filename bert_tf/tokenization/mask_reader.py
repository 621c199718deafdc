"""Recognizes the mask token in texts for fill-mask; elsewhere special tokens in a text are ordinary text."""

from collections.abc import Mapping

import tensorflow as tf

from bert_tf.tokenization.base_tokenizer import BaseTokenizer


class MaskReader(tf.Module):
    """Tokenizer for fill-mask that recognizes mask tokens; the text between them is tokenized as usual.

        text                 I saw[MASK]. [CLS]
        input_ids            [CLS] i saw [MASK] . [ cls ] [SEP]
        masked_lm_positions              3

    Only the tokenizer's own spelling counts as the mask, as in Hugging Face's tokenizers: "[mask]" and "[ MASK ]" are
    ordinary text, and so is "[MASK]" if the mask is "<mask>". The flags of the mask token in the tokenizer's files
    decide whether it absorbs the whitespace before or after it, and whether it counts within a word.

    Args:
        tokenizer: a `BaseTokenizer`.
        most: maximum number of mask positions returned per text. If None, all.

    Attributes:
        SPACES, template, vocab_file, vocab, unk_id, mask_id, mask: those of the tokenizer.

    Raises:
        ValueError: the vocabulary has no mask token.
    """

    def __init__(self, tokenizer: BaseTokenizer, most: int | None = None):
        super().__init__()
        if tokenizer.mask_id is None:
            raise ValueError(
                f"The fill-mask model needs the mask token {tokenizer.mask}, but none of the {tokenizer.vocab_size} "
                f"tokens of {tokenizer.vocab_file} is {tokenizer.mask}. Pass the model's own `vocab_file`."
            )
        self.tokenizer, self.most = tokenizer, most
        self._matcher = tokenizer.matcher_with_special([tokenizer.mask])
        self.SPACES, self.template = tokenizer.SPACES, tokenizer.template
        self.vocab_file, self.vocab = tokenizer.vocab_file, tokenizer.vocab
        self.unk_id, self.mask_id, self.mask = tokenizer.unk_id, tokenizer.mask_id, tokenizer.mask

    @property
    def asset_file(self) -> str | None:
        """Path of the tokenizer's vocabulary file."""
        return self.tokenizer.asset_file

    @property
    def KIND(self) -> str:
        """Kind of the tokenizer."""
        return self.tokenizer.KIND

    @property
    def FILES(self) -> tuple[str, ...]:
        """Names of the tokenizer's files."""
        return self.tokenizer.FILES

    @property
    def settings(self) -> dict:
        """Settings of the tokenizer."""
        return self.tokenizer.settings

    def save(self, directory):
        """Writes the tokenizer's files."""
        self.tokenizer.save(directory)

    def tokenize(self, texts) -> tf.RaggedTensor:
        """Returns the ids of the tokens and masks of each text (strings [n]): RaggedTensor of int32 [n, (tokens)]."""
        return self.tokenizer.tokenize_matching(texts, self._matcher)[0]

    def pack(self, ids, max_seq_length: int) -> dict[str, tf.RaggedTensor]:
        """Adds [CLS] and [SEP] like `BaseTokenizer.pack`; texts longer than max_seq_length are truncated."""
        return self.tokenizer.pack(ids, max_seq_length=max_seq_length)

    def pad(self, packed: Mapping[str, tf.RaggedTensor]) -> dict[str, tf.Tensor]:
        """Returns the tensors of `BaseTokenizer.pad`, int32 [n, S], and "masked_lm_positions", int32 [n, M].

        M is the largest number of masks in a text, from 1 to `most`; texts with fewer masks are padded with 0.
        """
        features = self.tokenizer.pad(packed)
        at = tf.where(features["input_ids"] == self.mask_id)
        nrows = tf.shape(features["input_ids"], tf.int64)[0]
        positions = tf.RaggedTensor.from_value_rowids(tf.cast(at[:, 1], tf.int32), at[:, 0], nrows, validate=False)
        positions = positions.to_tensor(0)
        positions = tf.pad(positions, [[0, 0], [0, tf.maximum(0, 1 - tf.shape(positions)[1])]])
        return {**features, "masked_lm_positions": positions[:, : self.most]}
