"""Which tokenizer a model has: its family's, unless the directory holds the files of another kind only."""

import os
from collections.abc import Iterable

from bert_tf.families import Family, Template
from bert_tf.tokenization.base import BaseTokenizer
from bert_tf.tokenization.byte_bpe import ByteBpeTokenizer
from bert_tf.tokenization.unigram import UnigramTokenizer
from bert_tf.tokenization.wordpiece import Tokenizer

_KINDS = (Tokenizer, ByteBpeTokenizer, UnigramTokenizer)
TOKENIZERS: dict[str, type[BaseTokenizer]] = {kind.KIND: kind for kind in _KINDS}
_BY_ENDING = {".json": ByteBpeTokenizer.KIND, ".model": UnigramTokenizer.KIND, ".txt": Tokenizer.KIND}


def read_tokenizer(
    directory: str, family: Family, template: Template, do_lower_case: bool | None = None, vocab_file=None
) -> BaseTokenizer:
    """Makes the tokenizer of a checkpoint's directory.

    The end of `vocab_file`'s name says which kind it is: .txt, .json or .model. Without it the kind is the family's own
    if one of its files is there, else the first kind whose file is: a Korean ALBERT may come with a vocab.txt.

    Args:
        directory: where the files of the model lie.
        family: the model's row.
        template: what stands around the texts of a row.
        do_lower_case: None: what tokenizer_config.json says, else what is usual.
        vocab_file: another vocabulary than the directory's.

    Raises:
        ValueError: as the `from_directory` of the kind.
    """
    kinds = [family.tokenizer, *(name for name in TOKENIZERS if name != family.tokenizer)]
    if vocab_file:
        name = _BY_ENDING.get(os.path.splitext(os.fspath(vocab_file))[1], family.tokenizer)
    else:
        name = tokenizer_in(directory, kinds) or family.tokenizer
    return TOKENIZERS[name].from_directory(directory, do_lower_case, vocab_file, template, family)


def tokenizer_in(directory: str, kinds: Iterable[str] = TOKENIZERS) -> str | None:
    """Returns the first of the kinds of tokenizers whose vocabulary lies in a directory; None: no vocabulary does."""
    return next((kind for kind in kinds if os.path.isfile(TOKENIZERS[kind].file_in(directory))), None)
