"""The kinds of tokenizers and their tables; chooses that of a model by tokenizer.json, by the model family, or by the
files in its directory. Imports no TensorFlow."""

import dataclasses
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from bert_tf.models.family_spec import Family, InputTemplate
from bert_tf.tokenization import tokenizer_json
from bert_tf.tokenization.byte_bpe_tables import ByteBpeTables
from bert_tf.tokenization.mecab_tables import MecabTables
from bert_tf.tokenization.sentencepiece_bpe_tables import SentencePieceBpeTables
from bert_tf.tokenization.tokenizer_config import CLASSES, CONFIG_FILE, read_config, tokenizer_class_of
from bert_tf.tokenization.tokenizer_tables import TokenizerTables
from bert_tf.tokenization.unigram_tables import UnigramTables
from bert_tf.tokenization.wordpiece_tables import WordPieceTables
from bert_tf.utils.files import brief, write_text
from bert_tf.utils.json_files import read_object

_KINDS = (WordPieceTables, ByteBpeTables, UnigramTables, SentencePieceBpeTables, MecabTables)
TABLES: dict[str, type[TokenizerTables]] = {kind.KIND: kind for kind in _KINDS}
TABLES_FILE = "tokenizer_tables.json"  # of `save_tables`
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

    tokenizer.json contains the kind of its tokenizer. For another `vocab_file`, the extension does: .txt, .json or
    .model. Otherwise it is the family's own kind if one of its files exists, or the first kind with a file: a Korean
    ALBERT may come with a vocab.txt. The tokenizer's class says whether MeCab finds the words of a vocab.txt.

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
    if name == WordPieceTables.KIND and not whole and _is_mecab(directory):
        name = MecabTables.KIND
    return kinds[name].from_directory(directory, do_lower_case, vocab_file, template, family)


def _is_mecab(directory):
    name, _ = tokenizer_class_of(os.path.join(directory, CONFIG_FILE), read_config(directory))
    return name in CLASSES[MecabTables.KIND]


def describe_tables(tables: TokenizerTables) -> dict[str, Any]:
    """Returns what `restore_tables` needs besides the files that `tables.save` writes, as JSON values."""
    template = dataclasses.asdict(tables.template)
    return {"kind": tables.KIND, "template": template, "settings": tables.settings}


def restore_tables(
    description: Mapping[str, Any], directory: str, kinds: Mapping[str, type[TokenizerTables]] = TABLES
) -> TokenizerTables:
    """Restores tables from a description of `describe_tables`, read from JSON, and the files of a directory.

    Args:
        description: the description.
        directory: where `save` wrote the files.
        kinds: the class of each kind: a subclass of its tables.
    """
    fields = {name: tuple(v) if isinstance(v, list) else v for name, v in description["template"].items()}
    return kinds[description["kind"]].from_saved(directory, InputTemplate(**fields), description["settings"])


def save_tables(tables: TokenizerTables, directory: str | os.PathLike):
    """Writes all that a tokenizer is, so that `read_saved_tables` needs no other file: those of `tables.save`, and
    `tokenizer_tables.json`."""
    tables.save(directory)
    text = json.dumps(describe_tables(tables), ensure_ascii=False, indent=2)
    write_text(os.path.join(os.fspath(directory), TABLES_FILE), text + "\n")


def read_saved_tables(directory: str | os.PathLike) -> TokenizerTables:
    """Returns the tables that `save_tables` wrote to a directory.

    Raises:
        ValueError: a file is missing or damaged.
    """
    path = os.path.join(os.fspath(directory), TABLES_FILE)
    remedy = "write the directory again"
    description = read_object(path, "the settings of a tokenizer in JSON", remedy)
    if description.get("kind") not in TABLES or not {"template", "settings"} <= description.keys():
        raise ValueError(
            f"{path} must have the kind, the template and the settings of a tokenizer; got the keys "
            f"{brief(sorted(description))} and the kind {brief(description.get('kind'))}; {remedy}."
        )
    return restore_tables(description, os.fspath(directory))


def tokenizer_in(directory: str, kinds: Iterable[str] = TABLES) -> str | None:
    """Returns the kind of a directory's tokenizer.json, or the first of `kinds` whose vocabulary file exists, or None.

    Raises:
        ValueError: tokenizer.json is damaged or not of one of these kinds.
    """
    if whole := tokenizer_json.find_tokenizer_json(directory):
        return tokenizer_json.tokenizer_kind(whole)
    others = (kind for kind in kinds if tokenizer_json.WHOLE_FILE not in TABLES[kind].FILES)
    return next((kind for kind in others if os.path.isfile(TABLES[kind].file_in(directory))), None)
