"""The kinds of tokenizers and their tables; chooses that of a model by tokenizer.json, by the model family, or by the
files in its directory. Imports no TensorFlow."""

import os
from collections.abc import Iterable, Mapping

from bert_tf.models.family_spec import Family, InputTemplate
from bert_tf.tokenization import tokenizer_json
from bert_tf.tokenization.byte_bpe_tables import ByteBpeTables
from bert_tf.tokenization.tokenizer_tables import TokenizerTables
from bert_tf.tokenization.unigram_tables import UnigramTables
from bert_tf.tokenization.wordpiece_tables import WordPieceTables

_KINDS = (WordPieceTables, ByteBpeTables, UnigramTables)
TABLES: dict[str, type[TokenizerTables]] = {kind.KIND: kind for kind in _KINDS}
_BY_ENDING = {".json": ByteBpeTables.KIND, ".model": UnigramTables.KIND, ".txt": WordPieceTables.KIND}


def read_tables(
    directory: str,
    family: Family,
    template: InputTemplate,
    do_lower_case: bool | None = None,
    vocab_file=None,
    kinds: Mapping[str, type[TokenizerTables]] = TABLES,
) -> TokenizerTables:
    """Builds the tables of the tokenizer of a checkpoint directory.

    tokenizer.json states the kind of its tokenizer. For another `vocab_file`, the extension does: .txt, .json or
    .model. Otherwise it is the family's own kind if one of its files exists, or the first kind with a file: a Korean
    ALBERT may come with a vocab.txt.

    Args:
        directory: directory of the model files.
        family: the model family.
        template: the special tokens around the texts of a sequence.
        do_lower_case: whether to lowercase text. If None, as in the directory's files; otherwise the family's default.
        vocab_file: another vocabulary to use instead of the directory's.
        kinds: the class of each kind: a subclass of its tables.

    Raises:
        ValueError: as the `from_directory` of the kind.
    """
    names = [family.tokenizer, *(name for name in TABLES if name != family.tokenizer)]
    if whole := tokenizer_json.find_tokenizer_json(directory, vocab_file):
        name = tokenizer_json.tokenizer_kind(whole)
    elif vocab_file:
        name = _BY_ENDING.get(os.path.splitext(os.fspath(vocab_file))[1], family.tokenizer)
    else:
        name = tokenizer_in(directory, names) or family.tokenizer
    return kinds[name].from_directory(directory, do_lower_case, vocab_file, template, family)


def tokenizer_in(directory: str, kinds: Iterable[str] = TABLES) -> str | None:
    """Returns the kind of a directory's tokenizer.json, or the first of `kinds` whose vocabulary file exists, or None.

    Raises:
        ValueError: tokenizer.json is damaged or not of one of these kinds.
    """
    if whole := tokenizer_json.find_tokenizer_json(directory):
        return tokenizer_json.tokenizer_kind(whole)
    return next((kind for kind in kinds if os.path.isfile(TABLES[kind].file_in(directory))), None)
