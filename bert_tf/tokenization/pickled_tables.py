"""Pickles of tokenizers: the files that `save` writes, and what `restore_tables` needs besides."""

import os
import pathlib
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from typing import Any

from bert_tf.tokenization.table_registry import describe_tables, restore_tables
from bert_tf.tokenization.tokenizer_tables import TokenizerTables


def pickle_tables(tables: TokenizerTables) -> tuple:
    """Returns the result of `__reduce__` for a tokenizer or its tables: a function, and its arguments."""
    with tempfile.TemporaryDirectory(prefix="bert_tf-") as folder:
        tables.save(folder)
        files = {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}
    return unpickle_tables, (type(tables), describe_tables(tables), files)


def unpickle_tables(
    kind: type[TokenizerTables], description: Mapping[str, Any], files: Mapping[str, bytes]
) -> TokenizerTables:
    """Returns the tokenizer; its files, of which exports take the vocabulary, exist as long as it does.

    Args:
        kind: its class.
        description: as `describe_tables` returned it.
        files: {name: contents} of the files that `save` wrote.
    """
    folder = tempfile.mkdtemp(prefix="bert_tf-")
    try:
        for name, contents in files.items():
            pathlib.Path(folder, os.path.basename(name)).write_bytes(contents)
        restored = restore_tables(description, folder, {kind.KIND: kind})
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(restored, shutil.rmtree, folder, ignore_errors=True)
    return restored
