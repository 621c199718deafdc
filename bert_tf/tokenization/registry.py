"""Finds the tokenizer of a model: tokenizer.json's, else its family's, or the kind whose files are there."""

import os
from collections.abc import Iterable

from bert_tf.models.families import Family, InputTemplate
from bert_tf.tokenization import tokenizer_json
from bert_tf.tokenization.base_tokenizer import BaseTokenizer
from bert_tf.tokenization.byte_bpe import ByteBpeTokenizer
from bert_tf.tokenization.unigram import UnigramTokenizer
from bert_tf.tokenization.wordpiece import Tokenizer

_KINDS = (Tokenizer, ByteBpeTokenizer, UnigramTokenizer)
TOKENIZERS: dict[str, type[BaseTokenizer]] = {kind.KIND: kind for kind in _KINDS}
_BY_ENDING = {".json": ByteBpeTokenizer.KIND, ".model": UnigramTokenizer.KIND, ".txt": Tokenizer.KIND}


def read_tokenizer(
    directory: str, family: Family, template: InputTemplate, do_lower_case: bool | None = None, vocab_file=None
) -> BaseTokenizer:
    """Makes the tokenizer of a checkpoint's directory.

    A tokenizer.json says itself of which kind it is. The end of another `vocab_file`'s name does: .txt, .json or
    .model. Without both the kind is the family's own if one of its files is there, else the first kind whose file is: a
    Korean ALBERT may come with a vocab.txt.

    Args:
        directory: where the files of the model lie.
        family: the model's row.
        template: what is around the texts of a sequence.
        do_lower_case: None: what the directory's files say, else what is usual.
        vocab_file: another vocabulary than the directory's.

    Raises:
        ValueError: as the `from_directory` of the kind.
    """
    kinds = [family.tokenizer, *(name for name in TOKENIZERS if name != family.tokenizer)]
    if whole := tokenizer_json.find_tokenizer_json(directory, vocab_file):
        name = tokenizer_json.tokenizer_kind(whole)
    elif vocab_file:
        name = _BY_ENDING.get(os.path.splitext(os.fspath(vocab_file))[1], family.tokenizer)
    else:
        name = tokenizer_in(directory, kinds) or family.tokenizer
    return TOKENIZERS[name].from_directory(directory, do_lower_case, vocab_file, template, family)


def tokenizer_in(directory: str, kinds: Iterable[str] = TOKENIZERS) -> str | None:
    """Returns the kind of a directory's tokenizer.json, else the first of `kinds` whose vocabulary lies there, or None.

    Raises:
        ValueError: tokenizer.json is no tokenizer's of these kinds, or damaged.
    """
    if whole := tokenizer_json.find_tokenizer_json(directory):
        return tokenizer_json.tokenizer_kind(whole)
    return next((kind for kind in kinds if os.path.isfile(TOKENIZERS[kind].file_in(directory))), None)
