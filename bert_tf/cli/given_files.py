"""Checks, before TensorFlow is imported, that the files that a command names exist or can be written.

The import takes 5 s, and the computation before the first output hours.
"""

import glob
import os
import tempfile

from absl import logging

from bert_tf.utils.files import check_exists, find_files
from bert_tf.utils.settings import Settings

# Flags of files that a program reads -> what makes it read them; (): it does so whatever is asked for.
_READ = {
    "train_file": ("do_train", "dry_run"),
    "eval_file": ("do_eval", "do_train", "dry_run"),
    "predict_file": ("do_predict",),
    **dict.fromkeys(
        ("test_file", "input_file", "data_file", "predictions_file", "null_odds_file", "words_file", "phrase_file",
         "bert_config_file", "vocab_file"),
        (),
    ),
}  # fmt: skip


def check_files(settings: Settings):
    """Raises ValueError if a flag names an input file that does not exist."""
    for name, actions in _READ.items():
        value, asked = settings.where_given(name), [settings.get(action) for action in actions if action in settings]
        if not value or asked and not any(asked):
            continue
        if isinstance(value, str):
            for path in find_files(value):
                check_exists(path, name)
            continue
        for pattern in value:  # of a list: folders and patterns too
            if not (os.path.exists(pattern) or "://" in pattern or glob.glob(pattern, recursive=True)):
                raise ValueError(
                    f"No file matches `{name}={pattern}`. Check its spelling; files, directories and patterns are "
                    "accepted."
                )


# Flags of outputs. The index of `index_dir` is only read by most commands; one that can update it also makes it.
_WRITTEN_FILES = ("output_file", "export_file")
_WRITTEN_FOLDERS = ("output_dir", "export_dir", "to", "demo_dir", "work_dir")


def check_output_paths(settings: Settings):
    """Raises ValueError where a flag names an output that cannot be written; a dry run, which writes none, only warns.

    The missing directories above a file are created, as writing it does not.
    """
    if settings.get("runner"):
        return  # Beam's workers write, who may see other file systems
    if not settings.get("dry_run"):
        for folder, name in _check_outputs(settings):
            _create(folder, name)
        return
    try:
        _check_outputs(settings)
    except ValueError as error:
        logging.warning("Without `dry_run`, this command would fail: %s", error)


def _check_outputs(settings):
    """Returns (directory, flag) for each output file; raises ValueError where a file or directory cannot be written."""
    folders = _WRITTEN_FOLDERS + (("index_dir",) if "update" in settings else ())
    for name in folders:
        for path in _local_paths(settings.get(name)):
            _check_folder(path, path, name)
    of_files = []
    for name in _WRITTEN_FILES:
        for path in _local_paths(settings.get(name)):
            if os.path.isdir(path):
                raise ValueError(f"`{name}` must be a file, but {path} is a directory. Name a file in it.")
            folder = os.path.dirname(os.path.realpath(path))
            _check_folder(folder, path, name)
            of_files.append((folder, name))
    return of_files


def _create(folder, name):
    if not os.path.isdir(folder):
        os.makedirs(folder, exist_ok=True)
        logging.info("Created the directory %s for `%s`.", folder, name)


def _local_paths(value):
    paths = [value] if isinstance(value, str) else value or []
    return [path for path in paths if path and "://" not in path]


def _check_folder(folder, path, name):
    """Raises ValueError if nothing can be created in a directory, or in the one in which it would be created."""
    there = os.path.realpath(folder)
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    try:
        with tempfile.TemporaryFile(dir=there):  # permissions alone do not tell: the file system may be read-only
            pass
    except FileNotFoundError as error:  # what such file systems, as that of /proc, say of a directory that is there
        raise ValueError(
            f"Cannot write to `{name}` {path}: no files can be created in {there}. Choose another location."
        ) from error
    except OSError as error:
        raise ValueError(
            f"Cannot write to `{name}` {path}: {there}: {error.strerror}. Make it writable, or choose another location."
        ) from error
