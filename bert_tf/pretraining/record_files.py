"""Record files and the files next to them: a description of the run that created the records, and its vocabulary.

    train-00000-of-00002.tfrecord.gz  train-00001-of-00002.tfrecord.gz
    train_records.json                inputs, options, results, and the size of each file
    train_vocabulary/                 the tokenizer: for WordPiece, vocab.txt and tokenizer_config.json
"""

import glob
import os
from collections.abc import Iterable

from bert_tf.pretraining.record_metadata import RecordMetadata, tokenizer_fingerprint, vocabulary_fingerprint
from bert_tf.tokenization.added_token_files import read_added_tokens
from bert_tf.tokenization.added_tokens import names_with_added
from bert_tf.tokenization.table_registry import TABLES_FILE, read_saved_tables
from bert_tf.tokenization.tokenizer_json import WHOLE_FILE
from bert_tf.tokenization.vocabulary import VOCAB_FILE, Vocabulary
from bert_tf.utils.files import brief, files_below
from bert_tf.utils.json_files import read_object
from bert_tf.utils.names import SPECIAL_TOKENS
from bert_tf.utils.shards import set_name

DESCRIPTION, VOCABULARY = "_records.json", "_vocabulary"  # suffixes to the common name of an output's files
_OTHERS = (".json", ".txt", ".html", ".tmp")  # other files next to records: metadata, reports, unfinished files
_KIND = "the JSON metadata that `pretrain data` writes next to its records"
_REMEDY = "copy it again, or remove it, which means that the files are no longer checked for completeness"


def find_record_files(patterns: list[str], without: Iterable[str] = ()) -> list[str]:
    """Finds the record files that match `patterns`, without duplicates, in their order and sorted within each.

    Args:
        patterns: each a file, a glob (`**` is any depth) or a directory: all files below it except hidden ones and
            those whose extensions are not those of records. A glob may match directories, too.
        without: files to omit if a directory or glob matches them.

    Raises:
        ValueError: a pattern matches nothing.
    """
    without = set(map(os.path.realpath, without))
    return list(dict.fromkeys(path for pattern in patterns for path in _matches(pattern, without)))


def _matches(pattern, without):
    if os.path.isfile(pattern):
        return [pattern]
    found = [pattern] if os.path.isdir(pattern) else glob.glob(pattern, recursive=True)
    below = (path for match in found for path in (files_below(match) if os.path.isdir(match) else [match]))
    paths = sorted({path for path in below if not path.endswith(_OTHERS)})
    if left := [path for path in paths if os.path.realpath(path) not in without]:
        return left
    none = "contains none" if os.path.isdir(pattern) else "matches none"
    none += " except those of `eval_file`" if paths else ""
    raise ValueError(
        f"No record files found: {pattern!r} {none}. Create some with "
        "python -m bert_tf pretrain data."
    )


def check_whole(paths: list[str]):
    """Raises ValueError if the description next to a file contains another size.

    A file truncated between two records cannot otherwise be distinguished from a complete one.
    """
    described = {folder: _descriptions(folder) for folder in {os.path.dirname(path) for path in paths}}
    for path in paths:
        name, size = os.path.basename(path), os.path.getsize(path)
        whole = {source: files[name] for source, files in described[os.path.dirname(path)].items() if name in files}
        if whole and size not in whole.values():
            source = min(whole)
            raise ValueError(
                f"{path} must have {whole[source]:,} bytes according to {source}, but it has {size:,}: it was "
                "truncated, or made again without the files next to it. Copy it again, create all again, or remove "
                f"{source}."
            )


def number_of_rows(path: str | os.PathLike) -> int:
    """Returns the total number of rows of an output's record files, of which `path` is one.

    Raises:
        ValueError: the description next to them does not contain it.
    """
    source = set_name(os.fspath(path)) + DESCRIPTION
    rows = read_object(source, _KIND, _REMEDY).get("rows")
    if not isinstance(rows, int):
        raise ValueError(f'{source} must contain the number of sequences in "rows"; got {brief(rows)}; {_REMEDY}.')
    return rows


def find_vocabulary(path: str, metadata: RecordMetadata) -> str | None:
    """Returns the vocabulary next to a record file that created it, or None if it is missing or was changed.

    For WordPiece, that is a vocab.txt, otherwise a tokenizer.json.
    """
    own = set_name(path) + VOCABULARY
    there = glob.glob(os.path.join(glob.escape(os.path.dirname(path)), f"*{VOCABULARY}"))
    for folder in sorted(there, key=lambda folder: (folder != own, folder)):
        if os.path.isfile(os.path.join(folder, TABLES_FILE)):
            tables = read_saved_tables(folder)
            found = vocabulary_fingerprint(tables.vocab), tokenizer_fingerprint(tables)
            if found == (metadata.vocabulary, metadata.tokenizer):
                return os.path.join(folder, WHOLE_FILE)
        elif os.path.isfile(candidate := os.path.join(folder, VOCAB_FILE)):
            vocabulary = Vocabulary.read(candidate)
            parts = folder, vocabulary.tokens, vocabulary.id_of, SPECIAL_TOKENS
            tokens = names_with_added(vocabulary.tokens, read_added_tokens(*parts))
            if vocabulary_fingerprint(tokens) == metadata.vocabulary:
                return candidate
    return None


def _descriptions(folder: str) -> dict[str, dict[str, int]]:
    """Returns {path of a description in a directory: {name of a record file: its size in bytes}}."""
    paths = sorted(glob.glob(os.path.join(glob.escape(folder), f"*{DESCRIPTION}")))
    return {path: _sizes(path, read_object(path, _KIND, _REMEDY).get("files")) for path in paths}


def _sizes(path, files):
    if not isinstance(files, dict) or not all(isinstance(size, int) for size in files.values()):
        raise ValueError(
            f'{path} must contain the size of each file in bytes in "files"; got {brief(files)}; {_REMEDY}.'
        )
    return files
