"""The tables of BPE with byte_fallback, as SentencePiece learns it: tokenizer.json, as of Gemma and mmBERT."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from bert_tf.models import config_files, family_registry
from bert_tf.models.family_spec import InputTemplate
from bert_tf.tokenization import tokenizer_json_writer
from bert_tf.tokenization.added_tokens import AddedToken, added_tokens_config
from bert_tf.tokenization.letter_case import case_setting
from bert_tf.tokenization.merge_lists import checked_merge, tokens_by_id
from bert_tf.tokenization.tokenizer_config import CONFIG_FILE, check_tokenizer_config
from bert_tf.tokenization.tokenizer_json import METASPACE, WHOLE_FILE, read_whole
from bert_tf.tokenization.tokenizer_tables import TokenizerTables, TokenList

BYTE_TOKENS = tuple(f"<0x{byte:02X}>" for byte in range(256))
_CLASS = "PreTrainedTokenizerFast"


class SentencePieceBpeTables(TokenizerTables):
    """The vocabulary and the merges of a BPE tokenizer with byte_fallback; spaces are "▁" in it.

    Attributes:
        merges: pairs of tokens, in the order they were learned.
    """

    KIND: ClassVar = "sentencepiece_bpe"
    FILES: ClassVar = (WHOLE_FILE,)

    def __init__(
        self,
        vocab: Mapping[str, int],
        merges: Sequence[tuple[str, str]],
        template: InputTemplate,
        vocab_file: str | os.PathLike | None = None,
        added_tokens: Sequence[AddedToken] = (),
    ):
        """Builds the tokenizer from a vocabulary and its merges.

        Args:
            vocab: token -> id, from 0 without gaps.
            merges: pairs of tokens, in the order they were learned.
            template: the model's input template.
            vocab_file: path of the tokenizer.json they came from.
            added_tokens: tokens matched in the text; after the vocabulary, or in it with the same ids.

        Raises:
            ValueError: an id, a byte or a special token is missing, a merge makes the token of a byte, or an added
                token does not match the vocabulary.
        """
        source = vocab_file or "The vocabulary"
        super().__init__(
            *(TokenList(tokens_by_id(vocab, source), dict(vocab)), vocab_file, template),
            special=(template.pad, template.unknown, template.mask),
        )
        self.do_lower_case = False
        self.merges = tuple(tuple(merge) for merge in merges)
        _check_bytes(vocab, self.merges, source)
        self._take_added_tokens(added_tokens)

    @classmethod
    def family_of(cls, directory):
        model_type = config_files.model_type_in(directory)
        return family_registry.family(model_type or family_registry.DEFAULT)

    @classmethod
    def _owner(cls, directory, config, family, template, whole):
        """The special tokens are those of tokenizer.json: no family has this tokenizer alone."""
        if whole is None:
            raise ValueError(f"{WHOLE_FILE} not found in {directory}. A BPE tokenizer with byte_fallback requires it.")
        return family, _template_of(whole, template)

    @classmethod
    def _check_settings(cls, directory, config, do_lower_case, family):
        path = os.path.join(directory, CONFIG_FILE)
        check_tokenizer_config(path, config, cls.KIND)
        if case_setting(path, config, do_lower_case, False):
            raise ValueError(
                "`do_lower_case` must be false for a model with BPE, because its vocabulary is cased; got true; "
                "omit `do_lower_case`."
            )
        return {}

    @classmethod
    def _from_tokenizer_json(cls, whole, directory, do_lower_case, template, settings):
        return cls._from_whole(whole, template, **settings)

    @classmethod
    def _from_whole(cls, whole, template, **settings):
        vocab = {token: i for i, token in enumerate(whole.vocabulary(template)) if token}
        merges = whole.model["merges"]
        merges = [checked_merge(merge, vocab, f"{whole.path}, merge {n}") for n, merge in enumerate(merges, 1)]
        return cls(vocab, merges, template, vocab_file=whole.path, **settings)

    def _token_texts(self):
        byte_of = {token: byte for byte, token in enumerate(BYTE_TOKENS)}

        def text(token):
            if token in byte_of:
                return bytes([byte_of[token]]).decode("utf-8", "surrogateescape")
            return token.replace(METASPACE, " ")

        return [text(token) for token in self.vocab]

    @property
    def splits_at_spaces(self) -> bool:
        """False: a space belongs to the word after it, and several spaces are one token."""
        return False

    @property
    def joining_space(self) -> str:
        return " "

    @property
    def deciding_values(self) -> dict[str, Any]:
        return {"merges": self.merges}

    @property
    def settings(self) -> dict[str, Any]:
        return self._with_added({})

    @classmethod
    def from_saved(cls, directory, template, settings):
        return cls._from_whole(read_whole(cls.file_in(directory), cls.KIND), template, **cls._arguments(settings))

    def _write_vocabulary(self, directory):
        """tokenizer.json, which `save` writes, is the only file of the vocabulary."""

    def _tokenizer_json(self):
        return tokenizer_json_writer.sentencepiece_bpe_json(self, self.merges)

    def _tokenizer_config(self):
        return _CLASS, {**self.special_tokens} | added_tokens_config(self.added_tokens, self.special_added_tokens)


def _template_of(whole, template):
    """Returns the model's template with the special tokens that tokenizer.json puts around one text and two."""
    one, two = ([token for token, _ in row] for row in whole.layout or ([], []))
    ends = one.index("$A") if "$A" in one else 0
    before, after = tuple(one[:ends]), tuple(one[ends + 1 :])
    between = two[len(before) + 1 : two.index("$B")] if "$B" in two else []
    if not (before and after and between) or two != [*before, "$A", *between, "$B", *after]:
        raise ValueError(
            f"{whole.path}: post_processor must put special tokens before, between and after texts, as in "
            f"<bos> $A <eos> $B <eos>; got {' '.join(two) or 'null'}; add the tokens with which the model was "
            "trained."
        )
    usual = InputTemplate(pad="<pad>", unknown="<unk>", mask="<mask>")
    return dataclasses.replace(
        usual, before=before, between=tuple(between), after=after, second_segment=0, segments=template.segments
    )


def _check_bytes(vocab, merges, source):
    others = {token for byte, token in enumerate(BYTE_TOKENS[:128]) if chr(byte) in vocab}  # whole characters in UTF-8
    lacking = [token for token in BYTE_TOKENS if token not in vocab and token not in others]
    of_bytes = [token for token in {left + right for left, right in merges} if token in BYTE_TOKENS]
    if lacking or of_bytes:
        problem = f"It lacks {lacking[0]}" if lacking else f"A merge produces {of_bytes[0]}"
        raise ValueError(
            f"{source}: the vocabulary must have a token for each byte, and no merge may produce such a token. "
            f"{problem}; use the complete files."
        )
